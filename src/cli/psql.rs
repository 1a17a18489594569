//! `postern psql`: psql on a lease.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use axum::http::Method;
use clap::Args;

use super::{CliError, Global, Session, lease};
use crate::branch::pg::Installs;

/// Open psql on a lease, without the secret on any command line
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  postern psql lease_0195… -- -c 'SELECT count(*) FROM orders'")]
pub struct PsqlArgs {
    /// The lease's id
    lease: String,
    /// Arguments for psql
    #[arg(last = true)]
    args: Vec<String>,
}

/// Runs `postern psql`.
pub async fn run(global: &Global, args: PsqlArgs) -> Result<ExitCode, CliError> {
    let url: serde_json::Value = Session::with(global, async |client| {
        client.call(Method::GET, &lease::path(&args.lease, "/url"), None::<&()>).await
    })
    .await?;
    let url = url["databaseUrl"].as_str().unwrap_or_default();
    let config: tokio_postgres::Config = url.parse().map_err(CliError::broken)?;
    let postgres = global.config(&[])?.postgres;
    let installs = Installs::find(postgres.bin.as_deref())?;
    let psql = installs.newest()?.program("psql");
    let mut command = Command::new(psql);
    // The password goes by the environment: an argument would stand in the process list.
    for (name, value) in environment(&config) {
        command.env(name, value);
    }
    if url.contains("sslmode=") {
        command
            .env("PGSSLMODE", if url.contains("sslmode=require") { "require" } else { "disable" });
    }
    // Replaces this process, so that psql owns the terminal and Ctrl-C.
    Err(CliError::broken(command.args(&args.args).exec()))
}

/// libpq's environment variables (PostgreSQL manual, "34.15. Environment Variables").
fn environment(config: &tokio_postgres::Config) -> Vec<(&'static str, String)> {
    use tokio_postgres::config::Host;
    let mut out = Vec::new();
    if let Some(host) = config.get_hosts().first() {
        let host = match host {
            Host::Tcp(host) => host.clone(),
            Host::Unix(dir) => dir.display().to_string(),
        };
        out.push(("PGHOST", host));
    }
    out.extend(config.get_ports().first().map(|port| ("PGPORT", port.to_string())));
    out.extend(config.get_user().map(|user| ("PGUSER", user.to_owned())));
    out.extend(config.get_dbname().map(|name| ("PGDATABASE", name.to_owned())));
    if let Some(password) = config.get_password() {
        out.push(("PGPASSWORD", String::from_utf8_lossy(password).into_owned()));
    }
    out
}
