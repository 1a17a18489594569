//! Postern opened on a data directory: state, snapshots, branches and leases put together.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::branch::{BranchError, Branches, Snapshots};
use crate::config::Config;
use crate::error::{ErrorKind, SqlState, UserFacingError};
use crate::lease::{Advertised, LeaseError, LeaseSettings, Leases, SecretError, SecretFiles};
use crate::state::{StateError, Store};

/// Everything behind the admin API.
pub struct Service {
    /// The configuration it was opened with.
    pub config: Config,
    /// The snapshots.
    pub snapshots: Arc<Snapshots>,
    /// The branches.
    pub branches: Arc<Branches>,
    /// The leases.
    pub leases: Arc<Leases>,
    stop: CancellationToken,
    tasks: tokio::sync::Mutex<Vec<JoinHandle<()>>>,
}
