//! `postern doctor`: what this machine offers, and what each lack costs.

use std::fmt::Write as _;

use clap::Args;

use super::{CliError, Global, Output};
use crate::branch::probe::{self, Finding};

/// Tell what this machine offers for branches, and what each lack costs
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  postern doctor --data-dir /srv/postern")]
pub struct DoctorArgs {}

/// Runs `postern doctor`. What is missing is told, not an error: postern works without much of it.
pub async fn run(global: &Global, _args: DoctorArgs, output: Output) -> Result<(), CliError> {
    let config = global.config(&[])?;
    let findings = tokio::task::spawn_blocking(move || {
        std::fs::create_dir_all(&config.data_dir)?;
        let postgres = &config.postgres;
        std::io::Result::Ok(probe::probe(
            &config.data_dir,
            postgres.bin.as_deref(),
            postgres.user.as_deref(),
        ))
    })
    .await
    .map_err(CliError::broken)?
    .map_err(|e| CliError::broken(format!("the data directory cannot be used: {e}")))?;
    output.print(&findings, |findings| findings.iter().map(line).collect())
}

fn line(finding: &Finding) -> String {
    let mark = if finding.ok { "ok  " } else { "lack" };
    let mut text = format!("{mark}  {:<18} {}\n", finding.topic, finding.found);
    if let Some(costs) = &finding.costs {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:24} {costs}", "");
    }
    text
}
