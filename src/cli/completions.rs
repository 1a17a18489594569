//! `postern completions`: completions for the user's shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::output::write_stdout;
use super::{Cli, CliError};

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  postern completions bash > /etc/bash_completion.d/postern")]
pub struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

/// Runs `postern completions`.
pub fn run(args: &CompletionsArgs) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "postern", &mut script);
    write_stdout(&script)
}
