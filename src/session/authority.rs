//! What a session asks of the rooms above it, as a trait, so that imports point one way.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use secrecy::SecretString;
use tokio::sync::watch;

use crate::error::{ErrorKind, SqlState, UserFacingError};
use crate::gate::Capabilities;

/// Knows the leases and can reach their branches.
///
/// `find` is called before authentication by anyone who can open a connection: it only looks into
/// memory and costs the same for a name that is there and one that is not.
pub trait Authority: Send + Sync + 'static {
    /// The lease with this user name, expired and revoked ones included (for a while), so that a
    /// client which proves it knows the token is told why it is refused.
    fn find(&self, user: &str) -> Option<Arc<Grant>>;

    /// Makes sure that the branch's server answers and says how to reach it. Called after
    /// authentication, for each connection. Cancel-safe: dropping the future leaves a start that
    /// is under way to finish or to be undone by the branch room itself.
    fn reach(&self, grant: &Arc<Grant>)
    -> impl Future<Output = Result<Backend, ReachError>> + Send;

    /// The session to this lease's branch is over; paired with every successful `reach`.
    fn left(&self, grant: &Arc<Grant>);
}

/// The part of a lease that a session needs. Shared by all its sessions.
#[derive(Debug)]
pub struct Grant {
    /// The lease's id, which is also its user name.
    pub lease: String,
    /// The run that holds it.
    pub run: String,
    /// The repository revision it works on.
    pub revision: String,
    /// The branch it lands on.
    pub branch: String,
    /// The SCRAM-SHA-256 verifier in the form of `pg_authid.rolpassword`.
    pub verifier: String,
    /// What it may do.
    pub capabilities: Capabilities,
    /// The policy it names, if not the default of its capabilities.
    pub policy: Option<String>,
    /// The database name of the source; the only database it may connect to.
    pub database: String,
    /// When it ends. Moves when the lease is renewed; `end` is signalled by the lease room.
    pub expires_at: watch::Receiver<SystemTime>,
    /// Some once the lease is over; its sessions end at once then.
    pub end: watch::Receiver<Option<LeaseEnd>>,
    /// How many connections it may have at once.
    pub max_connections: u32,
    /// How many it has. Kept by the session room.
    pub connections: std::sync::atomic::AtomicU32,
}

/// Why a lease is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeaseEnd {
    /// Its lifetime is over.
    Expired,
    /// Somebody ended it.
    Revoked,
    /// Its branch was destroyed or lost.
    BranchGone,
}

/// Where a branch's server listens and whom to log in as.
#[derive(Debug, Clone)]
pub struct Backend {
    /// Where it listens.
    pub address: BackendAddress,
    /// The role of the lease's class.
    pub role: String,
    /// The database on the server.
    pub database: String,
    /// The role's password; `None` where the server knows us by our operating-system user (peer).
    pub password: Option<SecretString>,
}

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BackendAddress {
    /// The socket file itself (`…/.s.PGSQL.5432`).
    Unix(PathBuf),
    /// Host and port, for attached databases.
    Tcp(String, u16),
}

/// Why a branch cannot be reached. The text is safe to show to the client.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ReachError {
    /// Whose fault.
    pub kind: ErrorKind,
    /// The SQLSTATE for the client.
    pub sqlstate: SqlState,
    /// The message for the client.
    pub message: String,
    /// What can be done.
    pub hint: Option<String>,
}

impl UserFacingError for ReachError {
    fn kind(&self) -> ErrorKind {
        self.kind
    }
    fn sqlstate(&self) -> SqlState {
        self.sqlstate
    }
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}
