//! `postern lease`: the leases.

use std::time::Duration;

use axum::http::Method;
use clap::{Args, Subcommand};

use super::output::table;
use super::{CliError, Global, Output, Session};
use crate::config::Span;
use crate::gate::Capabilities;
use crate::lease::{CreatedLease, Lease, NewLease, OnEnd};

/// Make, list, renew and end leases
#[derive(Debug, Subcommand)]
pub enum LeaseCommand {
    Create(CreateArgs),
    /// List the leases
    #[command(after_help = "Example:\n  postern lease list --json")]
    List(ListArgs),
    /// Show one lease
    #[command(after_help = "Example:\n  postern lease show lease_0195…")]
    Show(LeaseArg),
    /// Give a lease more time, counted from now
    #[command(after_help = "Example:\n  postern lease renew lease_0195… --ttl 1h")]
    Renew(RenewArgs),
    /// End leases now: their connections are closed, their branches destroyed
    #[command(
        after_help = "Example:\n  postern lease revoke lease_0195…\n  postern lease revoke --all"
    )]
    Revoke(RevokeArgs),
    /// Print the `DATABASE_URL` of a lease, secret included
    #[command(after_help = "Example:\n  psql \"$(postern lease url lease_0195…)\"")]
    Url(LeaseArg),
}

/// Make a lease, and a branch for it, and print its `DATABASE_URL`
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  export DATABASE_URL=$(postern lease create --run r1 --revision \"$(git rev-parse HEAD)\" \\\n      --snapshot shop --cap read,write --ttl 30m)"
)]
pub struct CreateArgs {
    /// The run that will hold the lease
    #[arg(long)]
    run: String,
    /// The repository revision the run works on
    #[arg(long)]
    revision: String,
    /// The snapshot to branch from, by name or id
    #[arg(long, required_unless_present = "branch")]
    snapshot: Option<String>,
    /// What the run may do: read, write, migrate
    #[arg(long = "cap", value_name = "CAP,…", default_value = "read")]
    capabilities: Capabilities,
    /// Lifetime [default: the configuration's, 30m]
    #[arg(long)]
    ttl: Option<Span>,
    /// An existing branch, in place of a new one
    #[arg(long, value_name = "ID")]
    branch: Option<String>,
    /// What happens to the branch when its last lease ends [default: destroy; keep with --branch]
    #[arg(long, value_enum)]
    on_end: Option<OnEnd>,
}

/// Which leases to list.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Ended ones too
    #[arg(long)]
    all: bool,
}

/// One lease.
#[derive(Debug, Args)]
pub struct LeaseArg {
    /// The lease's id
    lease: String,
}

/// A lease and its new lifetime.
#[derive(Debug, Args)]
pub struct RenewArgs {
    /// The lease's id
    lease: String,
    /// Lifetime from now on [default: the configuration's, 30m]
    #[arg(long)]
    ttl: Option<Span>,
}

/// Which leases to end.
#[derive(Debug, Args)]
pub struct RevokeArgs {
    /// The leases' ids
    #[arg(required_unless_present = "all")]
    leases: Vec<String>,
    /// All active leases
    #[arg(long, conflicts_with = "leases")]
    all: bool,
}

/// Runs `postern lease …`.
pub async fn run(global: &Global, command: LeaseCommand, output: Output) -> Result<(), CliError> {
    Session::with(global, async |client| match &command {
        LeaseCommand::Create(args) => {
            let wanted = NewLease {
                run_id: args.run.clone(),
                revision: args.revision.clone(),
                snapshot: args.snapshot.clone(),
                branch: args.branch.clone(),
                capabilities: args.capabilities,
                ttl_seconds: args.ttl.map(seconds),
                policy: None,
                on_end: args.on_end,
            };
            let made: CreatedLease = client.call(Method::POST, "/v1/leases", Some(&wanted)).await?;
            output.note(&format!(
                "lease {} may {} on branch {} until {}",
                made.lease.lease_id,
                made.lease.capabilities,
                made.lease.branch_id,
                made.lease.expires_at
            ));
            output.print(&made, |made| made.database_url.clone())
        }
        LeaseCommand::List(args) => {
            let path = if args.all { "/v1/leases?all=true" } else { "/v1/leases" };
            let leases: Vec<Lease> = client.call(Method::GET, path, None::<&()>).await?;
            output.print(&leases, |leases| list(leases))
        }
        LeaseCommand::Show(LeaseArg { lease }) => {
            let lease: Lease = client.call(Method::GET, &path(lease, ""), None::<&()>).await?;
            output.print(&lease, show)
        }
        LeaseCommand::Renew(args) => {
            let body = serde_json::json!({ "ttlSeconds": args.ttl.map(seconds) });
            let lease: Lease =
                client.call(Method::POST, &path(&args.lease, "/renew"), Some(&body)).await?;
            output.print(&lease, |lease| format!("{} until {}", lease.lease_id, lease.expires_at))
        }
        LeaseCommand::Revoke(args) => {
            let mut ids = args.leases.clone();
            if args.all {
                let leases: Vec<Lease> =
                    client.call(Method::GET, "/v1/leases", None::<&()>).await?;
                ids.extend(leases.into_iter().map(|lease| lease.lease_id));
            }
            let mut ended: Vec<Lease> = Vec::with_capacity(ids.len());
            for id in &ids {
                ended.push(client.call(Method::DELETE, &path(id, ""), None::<&()>).await?);
            }
            output.print(&ended, |ended| {
                let rows = ended.iter().map(|l| [l.lease_id.clone(), l.state.as_str().to_owned()]);
                table(["LEASE", "STATE"], &rows.collect::<Vec<_>>())
            })
        }
        LeaseCommand::Url(LeaseArg { lease }) => {
            let url: serde_json::Value =
                client.call(Method::GET, &path(lease, "/url"), None::<&()>).await?;
            output.print(&url, |url| url["databaseUrl"].as_str().unwrap_or_default().to_owned())
        }
    })
    .await
}

/// The path of a lease in the admin API.
pub fn path(lease: &str, tail: &str) -> String {
    format!("/v1/leases/{}{tail}", super::client::segment(lease))
}

fn seconds(Span(ttl): Span) -> u64 {
    // Part of a second counts as a whole one: a lease is never shorter than asked for.
    ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)
}

fn list(leases: &[Lease]) -> String {
    let rows: Vec<_> = leases
        .iter()
        .map(|l| {
            [
                l.lease_id.clone(),
                l.run_id.clone(),
                l.snapshot.clone(),
                l.capabilities.to_string(),
                l.state.as_str().to_owned(),
                remaining(l),
            ]
        })
        .collect();
    table(["LEASE", "RUN", "SNAPSHOT", "CAPABILITIES", "STATE", "ENDS IN"], &rows)
}

fn remaining(lease: &Lease) -> String {
    let left = lease.expires_at.duration_since(jiff::Timestamp::now()).as_secs();
    match u64::try_from(left) {
        Ok(left) if lease.ended_at.is_none() => {
            humantime::format_duration(Duration::from_secs(left)).to_string()
        }
        _ => "-".to_owned(),
    }
}

fn show(lease: &Lease) -> String {
    let rows = [
        ("lease", lease.lease_id.clone()),
        ("run", lease.run_id.clone()),
        ("revision", lease.revision.clone()),
        ("snapshot", lease.snapshot.clone()),
        ("branch", lease.branch_id.clone()),
        ("database", lease.database.clone()),
        ("capabilities", lease.capabilities.to_string()),
        ("state", lease.state.as_str().to_owned()),
        ("expires", lease.expires_at.to_string()),
        ("secret", lease.database_url_secret_ref.clone()),
    ]
    .map(|(name, value)| [name.to_owned(), value]);
    table(["", ""], &rows).trim_start().to_owned()
}
