//! Snapshots: a database restored, sanitized, walled off and sealed, for branches to be made of.
//!
//! Owns `snapshots/<id>`: the sealed data directory, and while an import runs its server, its
//! configuration and its dump. An import that fails, is cancelled or is killed leaves nothing.

mod error;
mod import;
mod program;
mod restore;
mod script;
mod url;
mod verify;
mod wall;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::account::Account;
use super::clone::{self, CloneProvider};
use super::pg::Installs;
use super::{files, pidfile};
use crate::state::snapshot::{self as rows, SnapshotRow, SnapshotState};
use crate::state::{DataDir, State, StateError};

pub use error::SnapshotError;

/// What every snapshot's id begins with.
const ID_PREFIX: &str = "sn_";

/// All snapshots of a data directory. Cheap to clone.
#[derive(Clone)]
pub struct Snapshots {
    data: DataDir,
    state: State,
    account: Account,
    installs: Installs,
    provider: Arc<dyn CloneProvider>,
}

/// What an import starts from.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportRequest {
    /// The snapshot's name.
    pub name: String,
    /// Where the database comes from.
    pub source: ImportSource,
    /// Scripts that run before sealing, each in a transaction of its own. Absolute paths.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub sanitize: Vec<PathBuf>,
    /// The database's name where the source does not tell it.
    #[serde(default)]
    pub database: Option<String>,
    /// How many jobs dump and restore at once; the number of processors when absent.
    #[serde(default)]
    pub jobs: Option<u32>,
}

/// Where a database comes from. Paths are absolute, on the machine that postern runs on.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ImportSource {
    /// A plain SQL script.
    Sql {
        /// The script.
        #[schema(value_type = String)]
        path: PathBuf,
    },
    /// A dump by `pg_dump` in custom, directory or tar format.
    Dump {
        /// The dump.
        #[schema(value_type = String)]
        path: PathBuf,
    },
    /// A running server.
    Url {
        /// Its URL.
        url: SourceUrl,
    },
}

/// The URL of a running server, which may hold a password.
#[derive(Clone, Deserialize, ToSchema)]
#[schema(value_type = String)]
pub struct SourceUrl(SecretString);

impl SourceUrl {
    /// A URL.
    pub fn new(url: String) -> Self {
        Self(SecretString::from(url))
    }

    fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl Serialize for SourceUrl {
    /// For the way from the command line to the admin API and nowhere else.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.expose())
    }
}

impl ImportRequest {
    /// An import of `source` as `name`, with everything else as usual.
    pub fn new(name: &str, source: ImportSource) -> Self {
        let name = name.to_owned();
        Self { name, source, sanitize: Vec::new(), database: None, jobs: None }
    }
}

/// How far an import is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// What is being done: `prepare`, `restore`, `sanitize`, `wall`, `seal`.
    pub phase: String,
    /// The step's number, from 1.
    pub step: u32,
    /// How many steps there are.
    pub steps: u32,
    /// How much of the step is done: bytes of a script, tables of a dump.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<u64>,
    /// Of how much, when that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// A sealed snapshot as people see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The database's own name.
    pub database: String,
    /// The server version it was made with.
    pub pg_version: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
    /// The clone provider its branches are made with.
    pub provider: String,
    /// Where it came from, without a password.
    pub source: String,
    /// The sanitizing scripts, in order.
    pub sanitized_by: Vec<String>,
    /// The source's settings that its branches take over.
    pub settings: BTreeMap<String, String>,
    /// When it was made (RFC 3339).
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

impl From<SnapshotRow> for Snapshot {
    fn from(row: SnapshotRow) -> Self {
        Self {
            id: row.id,
            name: row.name,
            database: row.database,
            pg_version: row.pg_version,
            bytes: row.bytes,
            files: row.files,
            provider: row.provider,
            source: row.source,
            sanitized_by: row.sanitized_by,
            settings: row.settings,
            created_at: Timestamp::from_millisecond(row.created_at).unwrap_or_default(),
        }
    }
}

impl Snapshots {
    /// Opens the snapshots of a data directory: what an import or a removal that was cut off left
    /// is removed.
    pub async fn open(
        data: DataDir,
        state: State,
        account: Account,
        installs: Installs,
        provider: Arc<dyn CloneProvider>,
    ) -> Result<Self, SnapshotError> {
        let snapshots = Self { data, state, account, installs, provider };
        let rows = snapshots.state.call(|db| rows::list(db)).await?;
        for row in rows.iter().filter(|row| row.state != SnapshotState::Sealed) {
            snapshots.clear(&row.id, &row.provider).await?;
            let id = row.id.clone();
            snapshots.state.call(move |db| rows::delete(db, &id)).await?;
        }
        let known = |name: &str| {
            rows.iter().any(|row| row.state == SnapshotState::Sealed && row.id == name)
        };
        let mut strays = Vec::new();
        for dir in [snapshots.data.snapshots(), snapshots.data.socket_dirs()] {
            let entries = std::fs::read_dir(&dir).map_err(SnapshotError::io(&dir))?;
            strays.extend(entries.flatten().filter_map(|e| e.file_name().into_string().ok()));
        }
        for stray in strays.iter().filter(|name| name.starts_with(ID_PREFIX) && !known(name)) {
            snapshots.clear(stray, snapshots.provider.name()).await?;
        }
        Ok(snapshots)
    }

    /// Restores, sanitizes, walls off and seals a database. Ends with everything or nothing;
    /// `cancel` ends it with nothing.
    ///
    /// When the future is dropped the import is cancelled; what it had made is removed by a task
    /// of its own.
    pub async fn import(
        &self,
        request: ImportRequest,
        progress: impl Fn(Progress) + Send + Sync,
        cancel: CancellationToken,
    ) -> Result<Snapshot, SnapshotError> {
        let cancel = cancel.child_token();
        let _dropped = cancel.clone().drop_guard();
        let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
        let this = self.clone();
        let mut work = tokio::spawn(async move {
            let tell = move |event| {
                // Nobody listens when the import is being cancelled.
                let _ = sender.send(event);
            };
            import::run(&this, request, &tell, cancel).await
        });
        loop {
            tokio::select! {
                // What was said before the end is heard before it.
                biased;
                Some(event) = events.recv() => progress(event),
                ended = &mut work => return ended.map_err(|_| SnapshotError::Cancelled)?,
            }
        }
    }

    /// The sealed snapshots, by name.
    pub async fn list(&self) -> Result<Vec<Snapshot>, SnapshotError> {
        let rows = self.state.call(|db| rows::list(db)).await?;
        let sealed = rows.into_iter().filter(|row| row.state == SnapshotState::Sealed);
        Ok(sealed.map(Snapshot::from).collect())
    }

    /// One sealed snapshot, by name or id.
    pub async fn show(&self, name: &str) -> Result<Snapshot, SnapshotError> {
        let wanted = name.to_owned();
        let row = self.state.call(move |db| rows::get(db, &wanted)).await?;
        if row.state == SnapshotState::Sealed {
            Ok(row.into())
        } else {
            Err(StateError::NotFound { kind: "snapshot", id: name.to_owned() }.into())
        }
    }

    /// Removes a snapshot. Refused while branches of it exist.
    pub async fn remove(&self, name: &str) -> Result<Snapshot, SnapshotError> {
        let wanted = name.to_owned();
        let row = self
            .state
            .call(move |db| {
                let mut row = rows::get(db, &wanted)?;
                let branches = rows::branches(db, &row.id)?;
                if branches > 0 {
                    return Err(StateError::Conflict(format!(
                        "snapshot {} has {branches} branches",
                        row.name
                    )));
                }
                if row.state == SnapshotState::Importing {
                    return Err(StateError::Conflict(format!(
                        "snapshot {} is being imported",
                        row.name
                    )));
                }
                row.state = SnapshotState::Removing;
                rows::update(db, &row)?;
                Ok(row)
            })
            .await?;
        self.clear(&row.id, &row.provider).await?;
        let id = row.id.clone();
        self.state.call(move |db| rows::delete(db, &id)).await?;
        Ok(row.into())
    }

    /// Removes every trace of a snapshot outside the state: its server, processes and files.
    async fn clear(&self, id: &str, provider: &str) -> Result<(), SnapshotError> {
        let dir = self.data.snapshot(id);
        let data = dir.join("data");
        if let Some(pid) = pidfile::running(&data) {
            let held = super::process::Process::hold(pid, None);
            if let Ok(Some(process)) = held {
                process.signal(rustix::process::Signal::QUIT);
                process.ended().await;
            }
        }
        files::remove_leftovers(&data).await;
        files::kill_rest(&data).await;
        let working = dir.clone();
        tokio::task::spawn_blocking(move || program::kill_in(&working))
            .await
            .map_err(|_| SnapshotError::Cancelled)?;
        let (socket_dir, log) =
            (self.data.socket_dir(id), self.data.logs().join(format!("{id}.log")));
        let provider = clone::by_name(provider)?;
        tokio::task::spawn_blocking(move || {
            for gone in [std::fs::remove_dir_all(&socket_dir), std::fs::remove_file(&log)] {
                match gone {
                    Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                        return Err(SnapshotError::io(&socket_dir)(e));
                    }
                    _ => {}
                }
            }
            if dir.exists() {
                provider.destroy(&dir)?;
            }
            Ok(())
        })
        .await
        .map_err(|_| SnapshotError::Cancelled)?
    }
}
