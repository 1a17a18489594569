//! One PostgreSQL server: started, watched, promoted and stopped.
//!
//! The postmaster is spawned directly and told everything by files of ours and its command line.
//! It goes on when postern ends, so that a later postern can take it over with [`Server::adopt`].

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;

use super::account::Account;
use super::config::{Config, SUPERUSER};
use super::pg::Install;
use super::process::{Postmaster, Process};
use super::{failpoint, files, pidfile};
use crate::error::{ErrorKind, SqlState, UserFacingError};

/// How long a server may take from spawn to ready. Crash recovery of a busy branch is the long
/// case.
const START_PATIENCE: Duration = Duration::from_mins(2);

/// How long a fast shutdown may take before it becomes an immediate one.
const FAST_PATIENCE: Duration = Duration::from_secs(30);

/// How long an immediate shutdown may take before the kernel ends it. The postmaster itself kills
/// children that do not react within 5 seconds.
const IMMEDIATE_PATIENCE: Duration = Duration::from_secs(10);

/// How long a promotion may take.
const PROMOTE_PATIENCE: Duration = Duration::from_mins(1);

/// A server's log is cut back when it is longer than this.
pub const LOG_LIMIT: u64 = 4 << 20;

/// Everything a server needs to be started.
#[derive(Debug, Clone)]
pub struct ServerSpec {
    /// Which PostgreSQL.
    pub install: Install,
    /// As whom, behind which walls.
    pub account: Account,
    /// Its data directory, absolute; belongs to the servers' user, mode 0700.
    pub data_dir: PathBuf,
    /// What its configuration says.
    pub config: Config,
    /// Where its log goes.
    pub log_file: PathBuf,
    /// Start as a standby with no upstream: nobody can write until it is promoted.
    pub standby: bool,
}

/// How a server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Sessions are ended, a checkpoint is written: the data directory is consistent (SIGINT).
    Fast,
    /// At once; the next start recovers from the WAL (SIGQUIT).
    Immediate,
}

/// A server that accepted connections when it was started or adopted. Dropping it leaves the
/// server running.
#[derive(Debug, Clone)]
pub struct Server {
    spec: ServerSpec,
    process: Process,
    socket: PathBuf,
}

impl Server {
    /// Starts a server and waits until it accepts connections (as a standby: read-only ones).
    ///
    /// Whoever started it must stop it. When the future is dropped before it is done the process
    /// may be there: stop it with [`Server::adopt`] or [`end_postmaster`].
    pub async fn start(spec: ServerSpec) -> Result<Self, ServerError> {
        let socket = spec.config.socket().map_err(ServerError::SocketPath)?;
        if let Some(pid) = pidfile::running(&spec.data_dir) {
            return Err(ServerError::Running { pid });
        }
        files::remove_leftovers(&spec.data_dir).await;
        let prepared = spec.clone();
        let (log, log_start) = tokio::task::spawn_blocking(move || files::prepare(&prepared))
            .await
            .map_err(|e| ServerError::files("the server's files", std::io::Error::other(e)))??;
        let stderr = log.try_clone().map_err(|e| ServerError::files("the log", e))?;

        let mut command = spec.account.walled(&spec.install.program("postgres"));
        command.arg("-D").arg(&spec.data_dir);
        for (name, value) in spec.config.arguments(&spec.data_dir) {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        let mut child = command
            // A postmaster is known by the directory it works in, from its first instant on.
            .current_dir(&spec.data_dir)
            // A terminal's Ctrl-C is for postern, which then stops its servers in order.
            .process_group(0)
            .stdout(Stdio::from(log))
            .stderr(Stdio::from(stderr))
            .kill_on_drop(false)
            .spawn()
            .map_err(|e| ServerError::Spawn { why: e.to_string() })?;
        let held = child.id().map(|pid| Process::hold(pid, None));
        failpoint::hit("start.spawned");
        // Reaps it whenever it ends; until then the number stays its own.
        tokio::spawn(async move { child.wait().await });

        let log_file = spec.log_file.clone();
        let died = move || ServerError::Died { log: files::log_tail(&log_file, log_start) };
        let process = match held {
            Some(Ok(Some(process))) => process,
            Some(Err(e)) => return Err(ServerError::Spawn { why: e.to_string() }),
            Some(Ok(None)) | None => return Err(died()),
        };
        let server = Self { spec, process, socket };
        match server.ready(START_PATIENCE).await {
            Ok(()) => Ok(server),
            Err(NotReady::Ended) => Err(died()),
            Err(NotReady::Late) => {
                server.stop(Stop::Immediate).await;
                Err(ServerError::Late { seconds: START_PATIENCE.as_secs() })
            }
        }
    }

    /// Takes over a server that another postern started: the process must be there, have started
    /// at `start`, and hold the lock of this very data directory. `None` when it does not.
    pub async fn adopt(
        spec: ServerSpec,
        pid: u32,
        start: Option<u64>,
    ) -> Result<Option<Self>, ServerError> {
        let socket = spec.config.socket().map_err(ServerError::SocketPath)?;
        let held = Process::hold(pid, start)
            .map_err(|e| ServerError::Spawn { why: format!("cannot take over {pid}: {e}") })?;
        let Some(process) = held else { return Ok(None) };
        if pidfile::running(&spec.data_dir) != Some(pid) {
            return Ok(None);
        }
        let server = Self { spec, process, socket };
        match server.ready(START_PATIENCE).await {
            Ok(()) => Ok(Some(server)),
            Err(NotReady::Ended) => Ok(None),
            Err(NotReady::Late) => Err(ServerError::Late { seconds: START_PATIENCE.as_secs() }),
        }
    }

    /// The postmaster.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The socket file to connect to.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// What it was started with.
    pub fn spec(&self) -> &ServerSpec {
        &self.spec
    }

    /// Opens a connection as one of the roles of its configuration. The connection's task ends
    /// with the client.
    pub async fn connect(
        &self,
        role: &str,
        database: &str,
    ) -> Result<tokio_postgres::Client, ServerError> {
        let mut config = tokio_postgres::Config::new();
        if role == SUPERUSER {
            // Whatever an agent left in the database must not run as the superuser.
            config.options(if self.spec.config.major >= 17 {
                "-c session_replication_role=replica -c search_path=pg_catalog,pg_temp -c event_triggers=off"
            } else {
                "-c session_replication_role=replica -c search_path=pg_catalog,pg_temp"
            });
        }
        let (client, connection) = config
            .host_path(&self.spec.config.socket_dir)
            .port(super::config::PORT)
            .user(role)
            .dbname(database)
            .application_name("postern")
            .connect(tokio_postgres::NoTls)
            .await?;
        tokio::spawn(async move {
            if let Err(e) = connection.await {
                tracing::debug!(error = %e, "a connection to a branch server ended");
            }
        });
        Ok(client)
    }

    /// Makes a standby writable. Sessions that are there go on. Nothing happens when it is
    /// writable already.
    pub async fn promote(&self) -> Result<(), ServerError> {
        // The maintenance database: agents have no way into it, so nothing of theirs runs here.
        let client = self.connect(SUPERUSER, "postgres").await?;
        let deadline = Instant::now() + PROMOTE_PATIENCE;
        let in_recovery = client.prepare("SELECT pg_catalog.pg_is_in_recovery()").await?;
        if !client.query_one(&in_recovery, &[]).await?.try_get::<_, bool>(0)? {
            return Ok(());
        }
        // Its own waiting looks every 100 ms; it is done much earlier.
        client.query_one("SELECT pg_catalog.pg_promote(false)", &[]).await?;
        while client.query_one(&in_recovery, &[]).await?.try_get::<_, bool>(0)? {
            if Instant::now() > deadline {
                return Err(ServerError::Promote { seconds: PROMOTE_PATIENCE.as_secs() });
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// Stops the server and waits until it is gone. Escalates: fast, immediate, and only then the
    /// kernel's kill, after which what is left (shared memory, lock file, socket) is removed.
    ///
    /// Cancel-safe: a dropped stop has sent what it has sent and can be called again.
    pub async fn stop(&self, how: Stop) {
        end(&self.process, &self.spec.data_dir, how).await;
        files::remove_sockets(&self.spec.config.socket_dir);
    }

    /// Waits until the server has ended, for whatever reason. Cancel-safe.
    pub async fn ended(&self) {
        self.process.ended().await;
    }

    /// Waits for the status line of its lock file to say `ready`.
    async fn ready(&self, patience: Duration) -> Result<(), NotReady> {
        let deadline = Instant::now() + patience;
        let mut pause = Duration::from_millis(1);
        loop {
            if pidfile::is_ready(&self.spec.data_dir, self.process.pid()) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(NotReady::Late);
            }
            tokio::select! {
                () = self.process.ended() => return Err(NotReady::Ended),
                () = tokio::time::sleep(pause) => {}
            }
            // A start takes 30 ms, a crash recovery seconds: look often at first.
            pause = (pause * 21 / 20).min(Duration::from_millis(20));
        }
    }
}

/// Ends a postmaster that nobody holds, at once.
pub async fn end_postmaster(postmaster: &Postmaster) -> std::io::Result<()> {
    if let Some(process) = Process::hold(postmaster.pid, Some(postmaster.start))? {
        end(&process, &postmaster.data_dir, Stop::Immediate).await;
    }
    Ok(())
}

enum NotReady {
    Ended,
    Late,
}

async fn end(process: &Process, data_dir: &Path, how: Stop) {
    // A stopped process does not see signals until it goes on.
    process.signal(Signal::CONT);
    if how == Stop::Fast {
        process.signal(Signal::INT);
        if ended_within(process, FAST_PATIENCE).await {
            return;
        }
        tracing::warn!(pid = process.pid(), "a server did not stop in time: stopping it at once");
    }
    process.signal(Signal::QUIT);
    if !ended_within(process, IMMEDIATE_PATIENCE).await {
        tracing::error!(pid = process.pid(), "a server does not stop: killing it");
        process.signal(Signal::KILL);
        process.ended().await;
    }
    files::remove_leftovers(data_dir).await;
}

async fn ended_within(process: &Process, patience: Duration) -> bool {
    tokio::time::timeout(patience, process.ended()).await.is_ok()
}

/// Why a server could not be started, reached or promoted.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The data directory lies too deep.
    #[error("{0}")]
    SocketPath(String),
    /// There is one in this data directory already.
    #[error("a server runs in the data directory already (process {pid})")]
    Running {
        /// Its process id.
        pid: u32,
    },
    /// One of its files could not be written.
    #[error("cannot prepare {what}: {source}")]
    Files {
        /// Which file.
        what: String,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The process could not be made.
    #[error("cannot start the server: {why}")]
    Spawn {
        /// What the kernel said.
        why: String,
    },
    /// It ended instead of accepting connections.
    #[error("the server ended while it started: {log}")]
    Died {
        /// The end of its log.
        log: String,
    },
    /// It did not accept connections in time.
    #[error("the server was not ready within {seconds} s")]
    Late {
        /// How long was waited.
        seconds: u64,
    },
    /// It stayed a standby.
    #[error("the standby was not promoted within {seconds} s")]
    Promote {
        /// How long was waited.
        seconds: u64,
    },
    /// It answered with an error, or not at all.
    #[error("the server cannot be used: {0}")]
    Client(#[from] tokio_postgres::Error),
}

impl ServerError {
    pub(super) fn files(what: impl Into<String>, source: std::io::Error) -> Self {
        Self::Files { what: what.into(), source }
    }
}

impl UserFacingError for ServerError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Compute
    }

    fn sqlstate(&self) -> SqlState {
        match self {
            Self::Files { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                SqlState::DISK_FULL
            }
            Self::Files { .. } => SqlState::IO_ERROR,
            Self::SocketPath(_) => SqlState::CONFIG_FILE_ERROR,
            Self::Running { .. } => SqlState::OBJECT_IN_USE,
            Self::Died { .. } | Self::Late { .. } | Self::Promote { .. } => {
                SqlState::CANNOT_CONNECT_NOW
            }
            Self::Spawn { .. } => SqlState::SYSTEM_ERROR,
            Self::Client(_) => SqlState::CONNECTION_FAILURE,
        }
    }

    /// Without paths and the server's log, which are the operator's matter.
    fn message(&self) -> String {
        match self {
            Self::Files { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                "the branch's server could not be started: the disk is full".to_owned()
            }
            Self::Files { .. } | Self::Spawn { .. } | Self::Running { .. } => {
                "the branch's server could not be started".to_owned()
            }
            Self::Died { .. } => "the branch's server ended while it started".to_owned(),
            Self::Client(_) => "the branch's server cannot be used".to_owned(),
            other => other.to_string(),
        }
    }

    fn hint(&self) -> Option<String> {
        Some(
            match self {
                Self::SocketPath(_) => "Choose a data directory with a shorter path.",
                Self::Late { .. } | Self::Promote { .. } => "Try again; the machine may be busy.",
                Self::Client(_) => "Connect again.",
                _ => "The operator finds the reason in postern's log and the branch's log file.",
            }
            .to_owned(),
        )
    }
}
