//! What a session asks of the rooms above it, as a trait, so that imports point one way.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use secrecy::SecretString;

use super::control::{Control, Order};
use crate::error::{ErrorKind, SqlState, UserFacingError};
use crate::gate::Capabilities;
use crate::wire::scram::Verifier;

/// Knows the leases and can reach their branches.
///
/// `find` is called before authentication by anyone who can open a connection: it only looks into
/// memory and costs the same for a name that is there and one that is not.
pub trait Authority: Send + Sync + 'static {
    /// The lease with this user name, ended ones included for a while, so that a client which
    /// proves it knows the token is told why it is refused.
    fn find(&self, user: &str) -> Option<Arc<Grant>>;

    /// Makes sure that the branch's server answers and says how to reach it. Called after
    /// authentication, for each connection. Cancel-safe: dropping the future leaves a start that
    /// is under way to finish or to be undone by the branch room itself.
    fn reach(&self, grant: &Arc<Grant>)
    -> impl Future<Output = Result<Backend, ReachError>> + Send;

    /// The session to this lease's branch is over; paired with every successful `reach`.
    fn left(&self, grant: &Arc<Grant>);
}

/// The part of a lease that sessions need, shared by all of them.
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
    /// What is stored of its token.
    pub verifier: Verifier,
    /// What it may do.
    pub capabilities: Capabilities,
    /// The policy it names, if not the default of its capabilities.
    pub policy: Option<String>,
    /// The database name of the source; the only database it may connect to.
    pub database: String,
    /// How many connections it may have at once.
    pub max_connections: u32,
    /// Its sessions, and whether it is over.
    pub life: Life,
}

/// Whether a lease is over, and the sessions that must hear of it.
#[derive(Debug, Default)]
pub struct Life(Mutex<LifeState>);

#[derive(Debug, Default)]
struct LifeState {
    end: Option<LeaseEnd>,
    sessions: Vec<Arc<Control>>,
}

impl Life {
    /// The life of a lease that may be over already.
    pub fn new(end: Option<LeaseEnd>) -> Self {
        Self(Mutex::new(LifeState { end, sessions: Vec::new() }))
    }

    /// Why the lease is over, if it is.
    pub fn ended(&self) -> Option<LeaseEnd> {
        self.0.lock().end
    }

    /// The lease is over: no session begins any more, and those that are there end at once.
    pub fn end(&self, why: LeaseEnd) {
        let mut state = self.0.lock();
        state.end.get_or_insert(why);
        for session in state.sessions.drain(..) {
            session.order(Order::LeaseEnded(why));
        }
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.0.lock().sessions.len()
    }

    /// Lets a session begin, unless the lease is over or has `most` already.
    pub(super) fn admit(&self, session: &Arc<Control>, most: u32) -> Result<(), NotAdmitted> {
        let mut state = self.0.lock();
        if let Some(end) = state.end {
            return Err(NotAdmitted::Over(end));
        }
        if state.sessions.len() >= most as usize {
            return Err(NotAdmitted::TooMany);
        }
        state.sessions.push(Arc::clone(session));
        Ok(())
    }

    pub(super) fn leave(&self, session: &Arc<Control>) {
        self.0.lock().sessions.retain(|other| !Arc::ptr_eq(other, session));
    }
}

/// Why a session may not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotAdmitted {
    Over(LeaseEnd),
    TooMany,
}

/// Why a lease is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeaseEnd {
    /// Its lifetime is over.
    Expired,
    /// Somebody ended it.
    Revoked,
}

impl LeaseEnd {
    /// The word for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
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
