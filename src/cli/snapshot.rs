//! `postern snapshot`: the snapshots.

use std::path::PathBuf;

use axum::http::Method;
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::client::segment;
use super::output::{bytes, table};
use super::{CliError, Client, Global, Output, Session};
use crate::admin::ImportEvent;
use crate::branch::{ImportRequest, Progress, Snapshot};

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
#[command(after_help = "Example:\n  postern snapshot import shop --from-sql shop.sql --sanitize mask-emails.sql\n  postern snapshot import shop --from-url \"$PRODUCTION_REPLICA_URL\"")]
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
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct SourceArgs {
    /// A plain SQL script
    #[arg(long, value_name = "FILE")]
    from_sql: Option<PathBuf>,
    /// A dump by pg_dump: custom, directory or tar format
    #[arg(long, value_name = "FILE")]
    from_dump: Option<PathBuf>,
    /// A running server, same major version or older than ours
    #[arg(long, value_name = "URL")]
    from_url: Option<String>,
}
