//! The command line: one file per command.
//!
//! Owns: arguments, what is printed, exit codes (0 done, 1 failed, 2 wrong usage).
//! May use: everything. Never here: decisions that the admin API would have to repeat.

mod branch;
mod client;
mod completions;
mod demo;
mod doctor;
mod error;
mod lease;
mod output;
mod psql;
mod serve;
mod snapshot;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Parser, Subcommand};
use secrecy::SecretString;

use crate::admin;
use crate::config::{self, Config};
use crate::service::Service;

pub use client::Client;
pub use error::CliError;
pub use output::Output;

/// The guarded side gate of a PostgreSQL: every agent run gets its own disposable branch.
#[derive(Debug, Parser)]
#[command(name = "postern", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
struct Global {
    /// The configuration file [default: ./postern.toml or /etc/postern/postern.toml, if there]
    #[arg(long, global = true, env = "POSTERN_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where state, snapshots and branches are kept
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The directory with PostgreSQL's programs
    #[arg(long, global = true, value_name = "DIR")]
    pg_bin: Option<PathBuf>,
    /// The operating-system user that servers run as when postern is root
    #[arg(long, global = true, value_name = "USER")]
    pg_user: Option<String>,
    /// Talk to a postern over TCP instead of the unix socket; the token is read from
    /// `POSTERN_ADMIN_TOKEN`
    #[arg(long, global = true, env = "POSTERN_ADMIN_URL", value_name = "HOST:PORT")]
    admin_url: Option<String>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Serve(serve::ServeArgs),
    #[command(subcommand)]
    Snapshot(snapshot::SnapshotCommand),
    #[command(subcommand)]
    Lease(lease::LeaseCommand),
    #[command(subcommand)]
    Branch(branch::BranchCommand),
    Psql(psql::PsqlArgs),
    Doctor(doctor::DoctorArgs),
    Completions(completions::CompletionsArgs),
}

/// Reads the arguments, runs the command and says how it went.
pub fn run() -> ExitCode {
    let cli = Cli::parse(); // exits with 2 on wrong usage
    let output = if cli.global.json { Output::Json } else { Output::Text };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return CliError::broken(error).report(output),
    };
    match runtime.block_on(dispatch(cli, output)) {
        Ok(code) => code,
        Err(error) => error.report(output),
    }
}

async fn dispatch(cli: Cli, output: Output) -> Result<ExitCode, CliError> {
    let Cli { global, command } = cli;
    match command {
        Command::Serve(args) => serve::run(&global, args, output).await?,
        Command::Demo(args) => demo::run(&global, args, output).await?,
        Command::Snapshot(command) => snapshot::run(&global, command, output).await?,
        Command::Lease(command) => lease::run(&global, command, output).await?,
        Command::Branch(command) => branch::run(&global, command, output).await?,
        Command::Psql(args) => return psql::run(&global, args).await,
        Command::Doctor(args) => doctor::run(&global, args, output).await?,
        Command::Completions(args) => completions::run(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Global {
    /// The configuration after file, environment and flags; `more` are a command's own flags.
    fn config(&self, more: &[(&'static str, Option<String>)]) -> Result<Config, CliError> {
        let file = self.config.clone().or_else(config::find_file);
        let path = |path: &Option<PathBuf>| path.as_ref().map(|p| p.display().to_string());
        let own = [
            ("data_dir", path(&self.data_dir)),
            ("postgres.bin", path(&self.pg_bin)),
            ("postgres.user", self.pg_user.clone()),
        ];
        let flags: Vec<_> = own
            .into_iter()
            .chain(more.iter().cloned())
            .filter_map(|(key, value)| Some((key, value?)))
            .collect();
        let env = std::env::vars_os()
            .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        Ok(Config::load(file.as_deref(), env, &flags)?)
    }
}

/// A way to the admin API, and what must be closed when the command is done with it.
struct Session {
    client: Client,
    local: Option<Arc<Service>>,
}

impl Session {
    /// Reaches the running postern that the options name; without one, opens the data directory.
    async fn open(global: &Global) -> Result<Self, CliError> {
        if let Some(address) = &global.admin_url {
            let token = std::env::var("POSTERN_ADMIN_TOKEN").map_err(|_| CliError::NoToken)?;
            let client = Client::Tcp(address.clone(), SecretString::from(token));
            return Ok(Self { client, local: None });
        }
        let config = global.config(&[])?;
        let socket = config.admin_socket();
        if tokio::net::UnixStream::connect(&socket).await.is_ok() {
            return Ok(Self { client: Client::Socket(socket), local: None });
        }
        let service = Arc::new(Service::open(config).await?);
        let client = Client::Local(admin::router(Arc::clone(&service)));
        Ok(Self { client, local: Some(service) })
    }

    /// Ends what `open` began. A command on the data directory leaves no server running.
    async fn close(self) {
        if let Some(service) = self.local {
            service.close().await;
        }
    }

    /// Runs `work` with the client and closes afterwards, also when `work` failed or the user
    /// pressed Ctrl-C.
    async fn with<T>(
        global: &Global,
        work: impl AsyncFnOnce(&Client) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let session = Self::open(global).await?;
        let result = tokio::select! {
            result = work(&session.client) => result,
            _ = tokio::signal::ctrl_c() => Err(CliError::Interrupted),
        };
        session.close().await;
        result
    }
}
