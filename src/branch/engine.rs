//! What makes branches, as a trait, so that other engines can stand beside `instance`.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::clone::{CloneError, CloneProvider, Usage};
use super::pg::PgError;
use super::process::Postmaster;
use super::server::{Server, ServerError};
use crate::error::{ErrorKind, SqlState, UserFacingError};
use crate::state::StateError;
use crate::state::branch::BranchRow;

/// Makes, starts and removes branches. It touches the outside only; the state is the caller's
/// matter, who calls it for one branch at a time and writes down beforehand what is intended.
///
/// A future that is dropped half-way leaves what it has done so far; [`Engine::destroy`] removes
/// it.
pub trait Engine: std::fmt::Debug + Send + Sync {
    /// The provider it clones with.
    fn provider(&self) -> &Arc<dyn CloneProvider>;

    /// The name of the provider that clones what `made_by` has prepared.
    fn provider_for(&self, made_by: &str) -> &'static str {
        match self.provider().name() {
            // Only a subvolume can be snapshotted; a plain directory on btrfs shares by file.
            "btrfs" if made_by != "btrfs" => "reflink",
            name => name,
        }
    }

    /// Makes the files of a new branch from its source, in which no server runs.
    fn clone_data<'a>(
        &'a self,
        source: &'a Source,
        row: &'a BranchRow,
    ) -> BoxFuture<'a, Result<(), EngineError>>;

    /// Starts the branch's server, a standby when the row says so, and waits until it answers.
    fn start<'a>(&'a self, row: &'a BranchRow) -> BoxFuture<'a, Result<Server, EngineError>>;

    /// Takes over the branch's server if it runs: the very process the row names, or any that
    /// holds the data directory when the row names none.
    fn adopt<'a>(
        &'a self,
        row: &'a BranchRow,
    ) -> BoxFuture<'a, Result<Option<Server>, EngineError>>;

    /// Replaces the files of a stopped branch by a fresh clone of its source.
    fn reset<'a>(
        &'a self,
        source: &'a Source,
        row: &'a BranchRow,
    ) -> BoxFuture<'a, Result<(), EngineError>>;

    /// Removes everything of a branch whose server has been stopped: at once from where it was,
    /// in the background from the disk. Nothing happens when nothing is there.
    fn destroy<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), EngineError>>;

    /// What the branch takes on disk.
    fn usage<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Usage, EngineError>>;

    /// Are the branch's files there?
    fn has_files(&self, id: &str) -> bool;

    /// Everything of branches that is outside the state: what is known must be in the state.
    fn outside(&self) -> BoxFuture<'_, Result<Outside, EngineError>>;

    /// Ends a server that [`Engine::outside`] told of and that nobody should have.
    fn end_server<'a>(
        &'a self,
        server: &'a OutsideServer,
    ) -> BoxFuture<'a, Result<(), EngineError>>;

    /// Deletes what was thrown away and not yet deleted.
    fn empty_trash(&self) -> BoxFuture<'_, Result<(), EngineError>>;

    /// Cuts back the branch's log when it has grown too long.
    fn bound_log(&self, id: &str);
}

/// What a branch is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The data directory of a sealed snapshot.
    Sealed(PathBuf),
    /// The data directory of a branch whose server was shut down cleanly.
    Stopped(PathBuf),
}

impl Source {
    /// The directory to clone.
    pub fn data_dir(&self) -> &PathBuf {
        match self {
            Self::Sealed(dir) | Self::Stopped(dir) => dir,
        }
    }
}

/// What there is of branches, whether the state knows them or not.
#[derive(Debug, Clone, Default)]
pub struct Outside {
    /// Running servers.
    pub servers: Vec<OutsideServer>,
    /// Branches with files.
    pub ids: Vec<String>,
}

/// A running server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsideServer {
    /// Whose files it works in; `None` when they are in the trash.
    pub branch: Option<String>,
    /// The process.
    pub postmaster: Postmaster,
}

/// Why something outside could not be done.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The files could not be cloned, deleted or measured.
    #[error(transparent)]
    Clone(#[from] CloneError),
    /// The server could not be started or reached.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The server's version is not there.
    #[error(transparent)]
    Pg(#[from] PgError),
    /// A file or process could not be handled.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// What the kernel said.
        source: std::io::Error,
    },
}

impl EngineError {
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    fn inner(&self) -> Option<&dyn UserFacingError> {
        match self {
            Self::Clone(e) => Some(e),
            Self::Server(e) => Some(e),
            Self::Pg(e) => Some(e),
            Self::Io { .. } => None,
        }
    }
}

impl UserFacingError for EngineError {
    fn kind(&self) -> ErrorKind {
        self.inner().map_or(ErrorKind::Compute, UserFacingError::kind)
    }

    fn sqlstate(&self) -> SqlState {
        self.inner().map_or(SqlState::IO_ERROR, UserFacingError::sqlstate)
    }

    fn message(&self) -> String {
        self.inner().map_or_else(
            || "the branch's files could not be handled".to_owned(),
            UserFacingError::message,
        )
    }

    fn hint(&self) -> Option<String> {
        self.inner().and_then(UserFacingError::hint)
    }
}

/// Why a branch could not be made, reached or removed.
#[derive(Debug, thiserror::Error)]
pub enum BranchError {
    /// The state could not be read or changed, or does not know the branch or snapshot.
    #[error(transparent)]
    State(#[from] StateError),
    /// The outside could not be changed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The snapshot is being imported or removed.
    #[error("snapshot `{name}` is not sealed")]
    NotSealed {
        /// Its name.
        name: String,
    },
    /// The branch is of no more use.
    #[error("branch `{id}` has failed: {why}")]
    Failed {
        /// Its id.
        id: String,
        /// What happened.
        why: String,
    },
    /// The branch is being destroyed.
    #[error("branch `{id}` is gone")]
    Gone {
        /// Its id.
        id: String,
    },
    /// Sessions are on the branch.
    #[error("branch `{id}` is in use by {sessions} sessions")]
    InUse {
        /// Its id.
        id: String,
        /// How many.
        sessions: u32,
    },
    /// Postern is ending.
    #[error("postern is shutting down")]
    ShuttingDown,
}

impl UserFacingError for BranchError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::State(e) => e.kind(),
            Self::Engine(e) => e.kind(),
            Self::NotSealed { .. } | Self::InUse { .. } => ErrorKind::User,
            Self::Failed { .. } | Self::Gone { .. } => ErrorKind::Compute,
            Self::ShuttingDown => ErrorKind::Service,
        }
    }

    fn sqlstate(&self) -> SqlState {
        match self {
            Self::State(e) => e.sqlstate(),
            Self::Engine(e) => e.sqlstate(),
            Self::NotSealed { .. } | Self::Failed { .. } => {
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE
            }
            Self::InUse { .. } => SqlState::OBJECT_IN_USE,
            Self::Gone { .. } | Self::ShuttingDown => SqlState::ADMIN_SHUTDOWN,
        }
    }

    fn message(&self) -> String {
        match self {
            Self::State(e) => e.message(),
            Self::Engine(e) => e.message(),
            other => other.to_string(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::State(e) => e.hint(),
            Self::Engine(e) => e.hint(),
            Self::NotSealed { .. } => Some("Wait until the import is done.".to_owned()),
            Self::Failed { .. } => Some("Destroy the branch and make a new one.".to_owned()),
            Self::Gone { .. } => Some("Ask for a new lease.".to_owned()),
            Self::InUse { .. } => Some("End its sessions first.".to_owned()),
            Self::ShuttingDown => Some("Connect again when it is back.".to_owned()),
        }
    }
}
