//! The branches that are there: made, started when somebody comes, stopped, destroyed.
//!
//! Everything about one branch happens under that branch's own lock, and goes on when the caller
//! goes away, so that a client which hangs up leaves nothing half done.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use rusqlite::Transaction;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, OwnedMutexGuard, Semaphore};
use utoipa::ToSchema;

use super::clone::Usage;
use super::engine::{BranchError, Engine, Source};
use super::server::{Server, Stop};
use super::{ID_PREFIX, config, failpoint};
use crate::state::branch::{self, BranchRow, BranchState};
use crate::state::snapshot::{self, SnapshotState};
use crate::state::{DataDir, State, StateError, now_ms};

/// All branches of a data directory. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Branches {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) data: DataDir,
    pub(super) state: State,
    pub(super) engine: Arc<dyn Engine>,
    /// Every branch the state knows; in here before its row is written and until it is deleted.
    pub(super) live: DashMap<String, Arc<Live>>,
    /// More clones at once only make each slower.
    pub(super) clones: Semaphore,
    pub(super) closing: AtomicBool,
}

/// One branch.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) core: Arc<Mutex<Core>>,
    pub(super) sessions: AtomicU32,
    /// When a session last came or went, Unix milliseconds.
    pub(super) used_at: AtomicI64,
}

/// What only the holder of the branch's lock may look at.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) row: BranchRow,
    pub(super) server: Option<Server>,
    pub(super) gone: bool,
}

/// What a new branch is to be like.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BranchSpec {
    /// Nobody is to write for now: its server is a standby until a lease with more arrives.
    pub read_only: bool,
    /// Settings for its server on top of the snapshot's.
    pub settings: BTreeMap<String, String>,
}

/// How a branch's server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The socket file.
    pub socket: PathBuf,
    /// The directory of the socket file, as libpq's `host`.
    pub socket_dir: PathBuf,
    /// The port in the socket file's name.
    pub port: u16,
    /// The database's own name.
    pub database: String,
}

/// A branch as people see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BranchInfo {
    /// Its id.
    pub id: String,
    /// The snapshot its data comes from.
    pub snapshot_id: String,
    /// The branch it was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// `creating`, `stopped`, `starting`, `running`, `stopping`, `destroying` or `failed`.
    pub state: String,
    /// How its files were cloned.
    pub provider: String,
    /// Is its server a standby, which cannot write?
    pub standby: bool,
    /// The database's own name.
    pub database: String,
    /// The major version of its server.
    pub pg_major: u32,
    /// Where its server's socket is when it runs, as libpq's `host`.
    pub socket_dir: String,
    /// The port in the socket's name.
    pub port: u16,
    /// How many sessions are on it.
    pub sessions: u32,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// When it was made (RFC 3339).
    pub created_at: String,
    /// When a session last came or went (RFC 3339).
    pub used_at: String,
    /// What it takes on disk, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl Branches {
    /// Takes over the branches of a data directory: finishes or undoes what was under way when
    /// the last postern ended, takes over servers that run, removes what the state does not know.
    pub async fn open(
        data: DataDir,
        state: State,
        engine: Arc<dyn Engine>,
    ) -> Result<Self, BranchError> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let branches = Self {
            inner: Arc::new(Inner {
                data,
                state,
                engine,
                live: DashMap::new(),
                clones: Semaphore::new(2 * cores),
                closing: AtomicBool::new(false),
            }),
        };
        branches.recover().await?;
        Ok(branches)
    }

    /// Makes a branch of a sealed snapshot, given by id or name. Its server is not started yet.
    ///
    /// `also` runs in the transaction that makes the branch known as ready, so that whatever
    /// holds the branch (a lease) is there when it is, and neither without the other.
    /// When the future is dropped the creation goes on: the branch and what `also` wrote are then
    /// both there, or neither is.
    pub async fn create<F>(
        &self,
        snapshot: &str,
        spec: BranchSpec,
        also: F,
    ) -> Result<BranchRow, BranchError>
    where
        F: FnOnce(&Transaction<'_>, &BranchRow) -> Result<(), StateError> + Send + 'static,
    {
        let (this, snapshot) = (self.clone(), snapshot.to_owned());
        detached(async move { this.create_now(&snapshot, spec, also).await }).await
    }

    /// Makes sure that the branch's server runs, and can write if that is needed, and says where
    /// it is. Many callers at once start it once. Cancel-safe: a start goes on without the caller.
    pub async fn ensure_started(
        &self,
        id: &str,
        needs_write: bool,
    ) -> Result<Endpoint, BranchError> {
        self.reach(id, needs_write).await.map(|(endpoint, _)| endpoint)
    }

    /// As [`ensure_started`](Self::ensure_started), for a session that is about to begin: the
    /// server is not stopped as idle until [`leave`](Self::leave) is called for it.
    pub async fn enter(&self, id: &str, needs_write: bool) -> Result<Endpoint, BranchError> {
        let live = self.live(id)?;
        // The lock is held until the session is counted, so no idle stop comes between.
        let (endpoint, _core) = self.reach(id, needs_write).await?;
        live.sessions.fetch_add(1, Ordering::AcqRel);
        live.used_at.store(now_ms(), Ordering::Release);
        Ok(endpoint)
    }

    /// A session that had entered is over.
    pub fn leave(&self, id: &str) {
        if let Some(live) = self.inner.live.get(id) {
            live.used_at.store(now_ms(), Ordering::Release);
            let _ = live
                .sessions
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1));
        }
    }

    /// Stops the branch's server cleanly, with whatever sessions it has. Nothing happens when
    /// none runs.
    pub async fn stop(&self, id: &str) -> Result<(), BranchError> {
        let (this, live) = (self.clone(), self.live(id)?);
        detached(async move {
            let mut core = live.core.clone().lock_owned().await;
            this.stop_locked(&mut core, Stop::Fast).await
        })
        .await
    }

    /// Ends the branch: its server at once, then its files and its row.
    pub async fn destroy(&self, id: &str) -> Result<(), BranchError> {
        let (this, live) = (self.clone(), self.live(id)?);
        detached(async move {
            let mut core = live.core.clone().lock_owned().await;
            this.destroy_locked(&mut core).await
        })
        .await
    }

    /// Stops servers that had no session for `idle`; says how many.
    pub async fn stop_idle(&self, idle: Duration) -> usize {
        let idle = i64::try_from(idle.as_millis()).unwrap_or(i64::MAX);
        let mut stopped = 0;
        for (id, live) in self.all_live() {
            // Somebody at work on it is no idleness.
            let Ok(mut core) = live.core.clone().try_lock_owned() else { continue };
            let quiet = now_ms().saturating_sub(live.used_at.load(Ordering::Acquire));
            if core.server.is_none() || live.sessions.load(Ordering::Acquire) > 0 || quiet < idle {
                continue;
            }
            match self.stop_locked(&mut core, Stop::Fast).await {
                Ok(()) => stopped += 1,
                Err(e) => tracing::warn!(branch = id, error = %e, "an idle server was not stopped"),
            }
        }
        stopped
    }

    /// All branches, oldest first, without their disk usage.
    pub async fn list(&self) -> Result<Vec<BranchInfo>, BranchError> {
        let rows = self.inner.state.call(|tx| branch::list(tx)).await?;
        Ok(rows.into_iter().map(|row| self.info(row, None)).collect())
    }

    /// One branch, with its disk usage.
    pub async fn show(&self, id: &str) -> Result<BranchInfo, BranchError> {
        let wanted = id.to_owned();
        let row = self.inner.state.call(move |tx| branch::get(tx, &wanted)).await?;
        let usage = self.inner.engine.usage(id).await?;
        Ok(self.info(row, Some(usage)))
    }

    /// Starts no more servers and stops all that run. Branches stay.
    pub async fn shutdown(&self) {
        self.inner.closing.store(true, Ordering::Release);
        let stops = self.all_live().into_iter().map(|(id, live)| async move {
            let mut core = live.core.clone().lock_owned().await;
            if let Err(e) = self.stop_locked(&mut core, Stop::Fast).await {
                tracing::error!(branch = id, error = %e, "a server was not stopped");
            }
        });
        futures_util::future::join_all(stops).await;
    }

    async fn create_now<F>(
        &self,
        snapshot: &str,
        spec: BranchSpec,
        also: F,
    ) -> Result<BranchRow, BranchError>
    where
        F: FnOnce(&Transaction<'_>, &BranchRow) -> Result<(), StateError> + Send + 'static,
    {
        let inner = &self.inner;
        let _permit = inner.clones.acquire().await.map_err(|_| BranchError::ShuttingDown)?;
        self.check_open()?;
        let name = snapshot.to_owned();
        let snapshot = inner.state.call(move |tx| snapshot::get(tx, &name)).await?;
        let mut settings = snapshot.settings.clone();
        settings.extend(spec.settings);
        let now = now_ms();
        let row = BranchRow {
            id: new_id(),
            snapshot_id: snapshot.id.clone(),
            parent_id: None,
            state: BranchState::Creating,
            provider: inner.engine.provider_for(&snapshot.provider).to_owned(),
            standby: spec.read_only,
            database: snapshot.database.clone(),
            pg_major: snapshot.pg_major,
            settings,
            server: None,
            failure: None,
            created_at: now,
            used_at: now,
        };

        let live = Live::new(row.clone(), None);
        let mut core = live.core.clone().lock_owned().await;
        inner.live.insert(row.id.clone(), live);
        let intended = row.clone();
        let intent = inner.state.call(move |tx| {
            // Looked at again here: it may be removed meanwhile, and from now on it cannot be.
            let sealed = snapshot::get(tx, &intended.snapshot_id)?.state == SnapshotState::Sealed;
            if sealed {
                branch::insert(tx, &intended)?;
            }
            Ok(sealed)
        });
        match intent.await {
            Ok(true) => {}
            refused => {
                core.gone = true;
                inner.live.remove(&row.id);
                refused?;
                return Err(BranchError::NotSealed { name: snapshot.name });
            }
        }
        failpoint::hit("create.intended");

        let source = Source::Sealed(inner.data.snapshot(&snapshot.id).join("data"));
        if let Err(e) = inner.engine.clone_data(&source, &core.row).await {
            return Err(self.undo(&mut core, e.into()).await);
        }
        failpoint::hit("create.cloned");

        let mut ready = row;
        ready.state = BranchState::Stopped;
        let written = ready.clone();
        let done = inner.state.call(move |tx| {
            branch::set_state(tx, &written.id, BranchState::Stopped, None)?;
            also(tx, &written)
        });
        if let Err(e) = done.await {
            return Err(self.undo(&mut core, e.into()).await);
        }
        core.row.state = BranchState::Stopped;
        failpoint::hit("create.done");
        Ok(ready)
    }

    /// The endpoint of the running server, and the lock under which it was seen running.
    async fn reach(
        &self,
        id: &str,
        needs_write: bool,
    ) -> Result<(Endpoint, OwnedMutexGuard<Core>), BranchError> {
        let live = self.live(id)?;
        let mut core = live.core.clone().lock_owned().await;
        if !core.is_reachable(needs_write) {
            let this = self.clone();
            core = detached(async move {
                this.start_locked(&mut core, needs_write).await?;
                Ok::<_, BranchError>(core)
            })
            .await?;
        }
        match &core.server {
            Some(server) => Ok((endpoint(server, &core.row), core)),
            None => Err(BranchError::Gone { id: id.to_owned() }),
        }
    }

    fn info(&self, row: BranchRow, usage: Option<Usage>) -> BranchInfo {
        let live = self.inner.live.get(&row.id);
        let used_at = live.as_ref().map_or(row.used_at, |l| l.used_at.load(Ordering::Acquire));
        BranchInfo {
            sessions: live.as_ref().map_or(0, |l| l.sessions.load(Ordering::Acquire)),
            socket_dir: self.inner.data.socket_dir(&row.id).display().to_string(),
            port: config::PORT,
            id: row.id,
            snapshot_id: row.snapshot_id,
            parent_id: row.parent_id,
            state: row.state.as_str().to_owned(),
            provider: row.provider,
            standby: row.standby,
            database: row.database,
            pg_major: row.pg_major,
            failure: row.failure,
            created_at: rfc3339(row.created_at),
            used_at: rfc3339(used_at),
            usage,
        }
    }

    pub(super) fn live(&self, id: &str) -> Result<Arc<Live>, BranchError> {
        let live = self.inner.live.get(id).map(|entry| Arc::clone(entry.value()));
        live.ok_or_else(|| StateError::NotFound { kind: "branch", id: id.to_owned() }.into())
    }

    pub(super) fn all_live(&self) -> Vec<(String, Arc<Live>)> {
        self.inner.live.iter().map(|e| (e.key().clone(), Arc::clone(e.value()))).collect()
    }

    pub(super) fn check_open(&self) -> Result<(), BranchError> {
        if self.inner.closing.load(Ordering::Acquire) {
            return Err(BranchError::ShuttingDown);
        }
        Ok(())
    }
}

impl Live {
    pub(super) fn new(row: BranchRow, server: Option<Server>) -> Arc<Self> {
        Arc::new(Self {
            sessions: AtomicU32::new(0),
            used_at: AtomicI64::new(row.used_at),
            core: Arc::new(Mutex::new(Core { row, server, gone: false })),
        })
    }
}

impl Core {
    fn is_reachable(&self, needs_write: bool) -> bool {
        !self.gone
            && self.row.state == BranchState::Running
            && !(needs_write && self.row.standby)
            && self.server.as_ref().is_some_and(|server| !server.process().has_ended())
    }
}

/// Runs work to its end whether or not the caller waits for it.
async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, BranchError>> + Send + 'static,
) -> Result<T, BranchError> {
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
        // The runtime is going down.
        Err(_) => Err(BranchError::ShuttingDown),
    }
}

fn endpoint(server: &Server, row: &BranchRow) -> Endpoint {
    Endpoint {
        socket: server.socket().to_owned(),
        socket_dir: server.spec().config.socket_dir.clone(),
        port: config::PORT,
        database: row.database.clone(),
    }
}

/// 60 random bits are enough that no two branches of a data directory meet, and short enough for
/// a socket's path.
fn new_id() -> String {
    const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut bits = uuid::Uuid::new_v4().as_u128();
    let mut id = String::from(ID_PREFIX);
    for _ in 0..12 {
        // The low end of a version 4 UUID is random throughout.
        id.push(char::from(LETTERS[usize::try_from(bits & 31).unwrap_or(0)]));
        bits >>= 5;
    }
    id
}

fn rfc3339(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |t| t.to_string())
}
