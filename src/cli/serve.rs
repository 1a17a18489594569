//! `postern serve`: the proxy and the admin API.

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{CliError, Global, Output};
use crate::config::{Config, LogConfig, LogFormat};
use crate::serve::Running;

/// Run the proxy and the admin API until SIGTERM or Ctrl-C
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  postern serve --config postern.toml\n\nSIGHUP reloads the configuration. SIGTERM waits for transactions to end, a second one does not."
)]
pub struct ServeArgs {
    /// TCP addresses, with commas between [default: 127.0.0.1:7432]
    #[arg(long, value_name = "ADDRESS,…")]
    listen: Option<String>,
    /// The directory of the unix socket [default: `run` in the data directory]
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<String>,
    /// The unix socket of the admin API [default: `admin.sock` in the data directory]
    #[arg(long, value_name = "PATH")]
    admin_socket: Option<String>,
    /// Check the configuration and exit
    #[arg(long)]
    check: bool,
}

/// Runs `postern serve`.
pub async fn run(global: &Global, args: ServeArgs, output: Output) -> Result<(), CliError> {
    let load = || {
        global.config(&[
            ("listen.tcp", args.listen.clone()),
            ("listen.socket_dir", args.socket_dir.clone()),
            ("admin.socket", args.admin_socket.clone()),
        ])
    };
    let config = load()?;
    if args.check {
        return output.print(&config, |_| "the configuration is valid".to_owned());
    }
    init_log(&config.log)?;
    raise_open_files();
    let mut hangup = signal(SignalKind::hangup()).map_err(CliError::broken)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(CliError::broken)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(CliError::broken)?;

    let running = Running::start(config).await?;
    output.note(&format!("postern is ready on {}", running.places().join(" and ")));
    loop {
        tokio::select! {
            _ = hangup.recv() => reload(&running, load()),
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
    }
    tracing::info!("shutting down: no new connections, transactions may end");
    let hurry = CancellationToken::new();
    let stopping = running.stop(hurry.clone());
    tokio::pin!(stopping);
    loop {
        tokio::select! {
            () = &mut stopping => return Ok(()),
            _ = terminate.recv() => hurry.cancel(),
            _ = interrupt.recv() => hurry.cancel(),
        }
    }
}

/// Takes over what can change while running, and says what cannot. A bad file changes nothing.
fn reload(running: &Running, config: Result<Config, CliError>) {
    match config.and_then(|config| Ok(running.reload(config)?)) {
        Ok(unchanged) if unchanged.is_empty() => tracing::info!("configuration reloaded"),
        Ok(unchanged) => tracing::warn!(
            keys = unchanged.join(", "),
            "configuration reloaded; changes of these keys need a restart"
        ),
        Err(error) => tracing::error!(%error, "the configuration was not reloaded"),
    }
}

/// Sends log lines to standard error.
pub fn init_log(log: &LogConfig) -> Result<(), CliError> {
    let filter = tracing_subscriber::EnvFilter::try_new(&log.filter)
        .map_err(|e| CliError::broken(format!("log.filter: {e}")))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match log.format {
        LogFormat::Json => builder.json().init(),
        LogFormat::Text => builder.with_target(false).init(),
    }
    Ok(())
}

/// Lifts the soft limit on open files to the hard one: each session takes two.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "the limit on open files could not be raised");
    }
}
