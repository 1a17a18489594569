//! Postern opened on a data directory: state, snapshots, branches and leases put together.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::branch::account::{Account, AccountError};
use crate::branch::clone::{self, CloneError};
use crate::branch::instance::Instance;
use crate::branch::pg::{Installs, PgError};
use crate::branch::snapshot::{SnapshotError, Snapshots};
use crate::branch::{BranchError, Branches};
use crate::config::Config;
use crate::error::{ErrorKind, SqlState, UserFacingError};
use crate::lease::{Advertised, LeaseError, LeaseSettings, Leases, SecretError, SecretFiles};
use crate::state::{DataDir, State, StateError};

/// How often state and outside are compared.
const RECONCILE: Duration = Duration::from_secs(5);

/// Everything behind the admin API.
pub struct Service {
    /// The configuration it was opened with.
    pub config: Config,
    /// The snapshots.
    pub snapshots: Arc<Snapshots>,
    /// The branches.
    pub branches: Branches,
    /// The leases.
    pub leases: Arc<Leases>,
    stop: CancellationToken,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Service {
    /// Opens the data directory of `config`, finishes or undoes what a crash cut off, and keeps
    /// doing so until [`close`](Self::close).
    pub async fn open(config: Config) -> Result<Self, ServiceError> {
        let blocking = config.clone();
        let (data, state, account, installs, provider) = tokio::task::spawn_blocking(move || {
            let postgres = &blocking.postgres;
            let data = DataDir::open(&blocking.data_dir)?;
            let state = State::open(&data)?;
            let account = Account::detect(postgres.user.as_deref())?;
            let installs = Installs::find(postgres.bin.as_deref())?;
            let wanted = blocking.branches.provider.as_deref();
            let (provider, _) = clone::choose(data.root(), wanted)?;
            Ok::<_, ServiceError>((data, state, account, installs, provider))
        })
        .await
        .map_err(|_| ServiceError::Aborted)??;
        let engine =
            Instance::new(data.clone(), account.clone(), installs.clone(), Arc::clone(&provider))?;
        let snapshots = Arc::new(
            Snapshots::open(data.clone(), state.clone(), account, installs, provider).await?,
        );
        let branches = Branches::open(data.clone(), state.clone(), Arc::new(engine)).await?;
        let secrets = SecretFiles::open(&data.secrets())?;
        let settings = lease_settings(&config);
        let leases = Arc::new(Leases::open(state, branches.clone(), secrets, settings).await?);
        let service = Self {
            config,
            snapshots,
            branches,
            leases,
            stop: CancellationToken::new(),
            tasks: Mutex::default(),
        };
        service.keep(Arc::clone(&service.leases).expire(service.stop.clone()));
        let branches = service.branches.clone();
        service.keep(async move { branches.keep(RECONCILE).await });
        Ok(service)
    }

    /// Takes over what can change while running.
    pub fn reload(&self, config: &Config) {
        self.leases.set_settings(lease_settings(config));
    }

    /// Stops all servers and lets go of the data directory. Branches and leases stay.
    pub async fn close(&self) {
        self.stop.cancel();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for task in tasks {
            task.abort();
            // It ends now, one way or the other.
            drop(task.await);
        }
        self.branches.shutdown().await;
    }

    /// Ends all leases, destroys all branches and removes all snapshots.
    pub async fn destroy_all(&self) -> Result<(), ServiceError> {
        for lease in self.leases.list(false).await? {
            self.leases.revoke(&lease.lease_id).await?;
        }
        for branch in self.branches.list().await? {
            self.branches.destroy(&branch.id).await?;
        }
        for snapshot in self.snapshots.list().await? {
            self.snapshots.remove(&snapshot.name).await?;
        }
        Ok(())
    }

    fn keep(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = work => {}
                () = stop.cancelled() => {}
            }
        });
        self.tasks.lock().push(task);
    }
}

fn lease_settings(config: &Config) -> LeaseSettings {
    LeaseSettings {
        default_ttl: config.leases.default_ttl.0,
        max_ttl: config.leases.max_ttl.0,
        max_connections: config.limits.connections_per_lease,
        advertised: Advertised::from_config(config),
    }
}

/// Why a data directory cannot be opened or emptied.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The state failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// Servers cannot run as wished.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// No usable PostgreSQL.
    #[error(transparent)]
    Pg(#[from] PgError),
    /// No usable clone provider.
    #[error(transparent)]
    Clone(#[from] CloneError),
    /// The branch room failed.
    #[error(transparent)]
    Branch(#[from] BranchError),
    /// The snapshots failed.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The leases failed.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// Secrets cannot be kept.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A task was ended from outside.
    #[error("opening the data directory was aborted")]
    Aborted,
}

impl ServiceError {
    fn inner(&self) -> Option<&dyn UserFacingError> {
        match self {
            Self::State(e) => Some(e),
            Self::Account(e) => Some(e),
            Self::Pg(e) => Some(e),
            Self::Clone(e) => Some(e),
            Self::Branch(e) => Some(e),
            Self::Snapshot(e) => Some(e),
            Self::Lease(e) => Some(e),
            Self::Secret(e) => Some(e),
            Self::Aborted => None,
        }
    }
}

impl UserFacingError for ServiceError {
    fn kind(&self) -> ErrorKind {
        self.inner().map_or(ErrorKind::Service, UserFacingError::kind)
    }
    fn sqlstate(&self) -> SqlState {
        self.inner().map_or(SqlState::INTERNAL_ERROR, UserFacingError::sqlstate)
    }
    fn message(&self) -> String {
        self.inner().map_or_else(|| self.to_string(), UserFacingError::message)
    }
    fn detail(&self) -> Option<String> {
        self.inner().and_then(UserFacingError::detail)
    }
    fn hint(&self) -> Option<String> {
        self.inner().and_then(UserFacingError::hint)
    }
}
