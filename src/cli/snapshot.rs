//! `postern snapshot`: the snapshots.

use std::path::PathBuf;

use axum::http::Method;
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::client::segment;
use super::output::{bytes, table};
use super::{CliError, Client, Global, Output, Session};
use crate::admin::ImportEvent;
use crate::branch::snapshot::{ImportRequest, ImportSource, Progress, Snapshot, SourceUrl};
use crate::error::SqlState;

/// Import, list and remove snapshots
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    Import(ImportArgs),
    /// List the snapshots
    #[command(after_help = "Example:\n  postern snapshot list --json")]
    List,
    /// Show one snapshot
    #[command(after_help = "Example:\n  postern snapshot show shop")]
    Show {
        /// Its name or id
        name: String,
    },
    /// Remove a snapshot; refused while branches of it exist
    #[command(after_help = "Example:\n  postern snapshot rm shop")]
    Rm {
        /// Its name or id
        name: String,
    },
}

/// Restore a database, sanitize it and seal it as a snapshot
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  postern snapshot import shop --from-sql shop.sql --sanitize mask-emails.sql\n  postern snapshot import shop --from-url \"$PRODUCTION_REPLICA_URL\""
)]
pub struct ImportArgs {
    /// The snapshot's name
    name: String,
    #[command(flatten)]
    source: SourceArgs,
    /// A script of SQL that runs before sealing, in a transaction of its own; may be repeated
    #[arg(long, value_name = "FILE.sql")]
    sanitize: Vec<PathBuf>,
    /// The database's name, where the source does not tell it
    #[arg(long)]
    database: Option<String>,
    /// How many jobs dump and restore at once
    #[arg(long, short = 'j')]
    jobs: Option<u32>,
}

/// Where a database comes from.
#[expect(clippy::struct_field_names, reason = "the names of the options")]
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct SourceArgs {
    /// A plain SQL script
    #[arg(long, value_name = "FILE")]
    from_sql: Option<PathBuf>,
    /// A dump by `pg_dump`: custom, directory or tar format
    #[arg(long, value_name = "FILE")]
    from_dump: Option<PathBuf>,
    /// A running server, same major version or older than ours
    #[arg(long, value_name = "URL")]
    from_url: Option<String>,
}

/// Runs `postern snapshot …`.
pub async fn run(
    global: &Global,
    command: SnapshotCommand,
    output: Output,
) -> Result<(), CliError> {
    Session::with(global, async |client| match &command {
        SnapshotCommand::Import(args) => {
            let snapshot = import(client, args, output).await?;
            output.print(&snapshot, |snapshot| {
                format!("{} {} ({})", snapshot.id, snapshot.name, bytes(snapshot.bytes))
            })
        }
        SnapshotCommand::List => {
            let snapshots: Vec<Snapshot> =
                client.call(Method::GET, "/v1/snapshots", None::<&()>).await?;
            output.print(&snapshots, |snapshots| list(snapshots))
        }
        SnapshotCommand::Show { name } => {
            let snapshot: Snapshot = client.call(Method::GET, &path(name), None::<&()>).await?;
            output.print(&snapshot, |snapshot| list(std::slice::from_ref(snapshot)))
        }
        SnapshotCommand::Rm { name } => {
            let snapshot: Snapshot = client.call(Method::DELETE, &path(name), None::<&()>).await?;
            output.print(&snapshot, |snapshot| format!("{} removed", snapshot.name))
        }
    })
    .await
}

async fn import(client: &Client, args: &ImportArgs, output: Output) -> Result<Snapshot, CliError> {
    let absolute = |path: &PathBuf| std::path::absolute(path).map_err(CliError::broken);
    let source = match &args.source {
        SourceArgs { from_sql: Some(path), .. } => ImportSource::Sql { path: absolute(path)? },
        SourceArgs { from_dump: Some(path), .. } => ImportSource::Dump { path: absolute(path)? },
        SourceArgs { from_url: Some(url), .. } => {
            ImportSource::Url { url: SourceUrl::new(url.clone()) }
        }
        _ => return Err(CliError::broken("no source was given")),
    };
    let request = ImportRequest {
        name: args.name.clone(),
        source,
        sanitize: args.sanitize.iter().map(absolute).collect::<Result<_, _>>()?,
        database: args.database.clone(),
        jobs: args.jobs,
    };
    let bar = bar(output);
    let mut last = None;
    let streamed =
        client.stream(Method::POST, "/v1/snapshots", Some(&request), |event| match event {
            ImportEvent::Progress(Progress { phase, step, steps, .. }) => {
                bar.set_length(steps.into());
                bar.set_position(step.saturating_sub(1).into());
                bar.set_message(phase);
            }
            event => last = Some(event),
        });
    streamed.await?;
    bar.finish_and_clear();
    match last {
        Some(ImportEvent::Sealed(snapshot)) => Ok(*snapshot),
        Some(ImportEvent::Failed(error)) => Err(CliError::Refused(error)),
        _ => Err(CliError::broken(format!(
            "the import ended without a result ({})",
            SqlState::CONNECTION_FAILURE
        ))),
    }
}

/// A bar on a terminal, nothing elsewhere.
fn bar(output: Output) -> ProgressBar {
    let bar = ProgressBar::new(1);
    if output == Output::Json {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}

fn path(name: &str) -> String {
    format!("/v1/snapshots/{}", segment(name))
}

fn list(snapshots: &[Snapshot]) -> String {
    let rows: Vec<_> = snapshots
        .iter()
        .map(|s| {
            [
                s.name.clone(),
                s.id.clone(),
                s.database.clone(),
                s.pg_version.clone(),
                bytes(s.bytes),
                s.provider.clone(),
                s.created_at.to_string(),
            ]
        })
        .collect();
    table(["NAME", "ID", "DATABASE", "POSTGRESQL", "SIZE", "PROVIDER", "SEALED"], &rows)
}
