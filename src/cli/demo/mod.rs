//! `postern demo`: the main job, end to end, on a generated shop or on the user's own database.

mod tour;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::serve::init_log;
use super::{CliError, Global, Output};
use crate::branch::snapshot::{ImportRequest, ImportSource, SourceUrl};
use crate::config::{self, Config, LogConfig};
use crate::gate::{Capabilities, Capability};
use crate::lease::{Lease, NewLease, OnEnd};
use crate::serve::Running;
use crate::service::Service;

/// The generated shop.
const SHOP: &str = include_str!("shop.sql");
/// The name of the demo's snapshot.
const SNAPSHOT: &str = "shop";

/// Seal a snapshot, make three leases on it and show the walls between them
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  postern demo\n  postern demo --once --from-sql my-database.sql"
)]
pub struct DemoArgs {
    /// Exit after the tour instead of staying up
    #[arg(long)]
    once: bool,
    /// Use this SQL script instead of the generated shop
    #[arg(long, value_name = "FILE", conflicts_with = "from_url")]
    from_sql: Option<PathBuf>,
    /// Use this running database instead of the generated shop
    #[arg(long, value_name = "URL")]
    from_url: Option<String>,
    /// TCP address of the proxy
    #[arg(long, value_name = "ADDRESS", default_value = config::DEFAULT_LISTEN)]
    listen: String,
}

/// What `--json` prints.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    leases: Vec<Lease>,
    steps: Vec<Step>,
}

/// One thing shown, and how long it took.
#[derive(Debug, Serialize)]
struct Step {
    what: String,
    result: String,
    milliseconds: u128,
}

/// Runs `postern demo`.
pub async fn run(global: &Global, args: DemoArgs, output: Output) -> Result<(), CliError> {
    let mut config = global.config(&[("listen.tcp", Some(args.listen.clone()))])?;
    if global.data_dir.is_none() {
        config.data_dir = config::default_data_dir("postern-demo");
    }
    init_log(&LogConfig { filter: "warn".to_owned(), ..config.log.clone() })?;
    clear(&config).await?;
    let running = Running::start(config).await?;
    let result = tokio::select! {
        result = show(&running, &args, output) => result,
        _ = tokio::signal::ctrl_c() => Err(CliError::Interrupted),
    };
    if result.is_ok() && !args.once {
        output
            .note("\nThe leases are yours for an hour. Ctrl-C ends the demo and everything in it.");
        tokio::signal::ctrl_c().await.map_err(CliError::broken)?;
    }
    let hurry = CancellationToken::new();
    hurry.cancel();
    let config = running.service().config.clone();
    running.stop(hurry).await;
    clear(&config).await?;
    result
}

async fn show(running: &Running, args: &DemoArgs, output: Output) -> Result<(), CliError> {
    let mut report = Report::default();
    let service = running.service();
    let own = args.from_sql.is_some() || args.from_url.is_some();

    output.note("Sealing a snapshot …");
    let began = Instant::now();
    let snapshot = {
        let scratch = tempfile(&service.config)?;
        let source = match (&args.from_sql, &args.from_url) {
            (Some(file), _) => ImportSource::Sql { path: absolute(file)? },
            (None, Some(url)) => ImportSource::Url { url: SourceUrl::new(url.clone()) },
            (None, None) => ImportSource::Sql { path: scratch.clone() },
        };
        let request = ImportRequest::new(SNAPSHOT, source);
        let sealed = service.snapshots.import(request, |_| {}, CancellationToken::new()).await;
        drop(std::fs::remove_file(scratch));
        sealed?
    };
    let bytes = super::output::bytes(snapshot.bytes);
    report.step(output, "seal the snapshot", began, format!("{bytes}, {}", snapshot.provider));

    let mut urls = Vec::new();
    for capabilities in
        [Capabilities::READ, Capabilities::READ.with(Capability::Write), Capabilities::ALL]
    {
        let began = Instant::now();
        let made = service
            .leases
            .create(NewLease {
                run_id: "demo".to_owned(),
                revision: "demo".to_owned(),
                snapshot: Some(SNAPSHOT.to_owned()),
                branch: None,
                capabilities,
                ttl_seconds: Some(3600),
                policy: None,
                on_end: Some(OnEnd::Destroy),
            })
            .await?;
        report.step(
            output,
            &format!("lease a branch to {capabilities}"),
            began,
            made.lease.branch_id.clone(),
        );
        urls.push(made.database_url.clone());
        report.leases.push(made.lease);
    }
    output.note("\nDATABASE_URLs (any PostgreSQL driver will do):");
    for (lease, url) in report.leases.iter().zip(&urls) {
        if output == Output::Text {
            output.print("", |_| format!("  {:<20} {url}", lease.capabilities.to_string()))?;
        }
    }
    output.note("\nThrough the proxy:");
    tour::take(&mut report, output, &urls, own).await?;
    if output == Output::Json {
        output.print(&report, |_| String::new())?;
    }
    Ok(())
}

impl Report {
    fn step(&mut self, output: Output, what: &str, began: Instant, result: String) {
        let milliseconds = began.elapsed().as_millis();
        output.note(&format!("  {what:<44} {milliseconds:>6} ms  {result}"));
        self.steps.push(Step { what: what.to_owned(), result, milliseconds });
    }
}

/// Ends and removes what an earlier demo left in its data directory.
async fn clear(config: &Config) -> Result<(), CliError> {
    if config.data_dir.join("state.db").exists() {
        let service = Service::open(config.clone()).await?;
        let emptied = service.destroy_all().await;
        // Lets go of the data directory, which is opened again at once.
        service.close().await;
        emptied?;
    }
    Ok(())
}

/// A file as the service needs it named.
pub(super) fn absolute(path: &std::path::Path) -> Result<PathBuf, CliError> {
    std::path::absolute(path).map_err(CliError::broken)
}

fn tempfile(config: &Config) -> Result<PathBuf, CliError> {
    let path = config.data_dir.join("shop.sql");
    std::fs::write(&path, SHOP).map_err(CliError::broken)?;
    Ok(path)
}
