//! `postern branch`: the branches.

use axum::http::Method;
use clap::Subcommand;

use super::client::segment;
use super::output::{bytes, table};
use super::{CliError, Global, Output, Session};
use crate::branch::BranchInfo;

/// Look at branches
#[derive(Debug, Subcommand)]
pub enum BranchCommand {
    /// List the branches
    #[command(after_help = "Example:\n  postern branch list --json")]
    List,
    /// Show one branch
    #[command(after_help = "Example:\n  postern branch show br_0195…")]
    Show {
        /// The branch's id
        branch: String,
    },
}

/// Runs `postern branch …`.
pub async fn run(global: &Global, command: BranchCommand, output: Output) -> Result<(), CliError> {
    Session::with(global, async |client| match &command {
        BranchCommand::List => {
            let branches: Vec<BranchInfo> =
                client.call(Method::GET, "/v1/branches", None::<&()>).await?;
            output.print(&branches, |branches| list(branches))
        }
        BranchCommand::Show { branch } => {
            let path = format!("/v1/branches/{}", segment(branch));
            let branch: BranchInfo = client.call(Method::GET, &path, None::<&()>).await?;
            output.print(&branch, |branch| list(std::slice::from_ref(branch)))
        }
    })
    .await
}

fn list(branches: &[BranchInfo]) -> String {
    let rows: Vec<_> = branches
        .iter()
        .map(|b| {
            let disk = b.usage.map_or_else(
                || "-".to_owned(),
                |usage| bytes(usage.own_bytes.unwrap_or(usage.bytes)),
            );
            [
                b.id.clone(),
                b.snapshot_id.clone(),
                b.state.clone(),
                if b.standby { "standby" } else { "primary" }.to_owned(),
                b.provider.clone(),
                b.sessions.to_string(),
                disk,
                b.socket_dir.clone(),
            ]
        })
        .collect();
    let head =
        ["BRANCH", "SNAPSHOT", "STATE", "SERVER", "PROVIDER", "SESSIONS", "OWN DISK", "SOCKET"];
    table(head, &rows)
}
