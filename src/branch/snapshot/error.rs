//! Why a snapshot cannot be made, found or removed.

use std::io;
use std::path::{Path, PathBuf};

use tokio_postgres::error::SqlState as SqlCode;

use super::super::clone::CloneError;
use super::super::pg::PgError;
use super::super::server::ServerError;
use crate::error::{ErrorKind, SqlState, UserFacingError};
use crate::state::StateError;

/// Errors of snapshots.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// A part of the request cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// A statement of the source or of a sanitizing script failed.
    #[error("{phase} failed at {place}: {message}")]
    Statement {
        /// `restore` or `sanitize`.
        phase: &'static str,
        /// File and line, or the object of the dump.
        place: String,
        /// What the server said.
        message: String,
        /// The statement's text, shortened.
        statement: Option<String>,
    },
    /// A program failed before any statement did.
    #[error("{program} failed: {message}")]
    Program {
        /// Its name.
        program: String,
        /// What it said last.
        message: String,
    },
    /// The source's locale is not installed here.
    #[error("the source's database cannot be made here: {0}")]
    Locale(String),
    /// A role can do more than its capabilities say.
    #[error("the wall does not hold: {0}")]
    Wall(String),
    /// Functions that run unasked with their owner's rights.
    #[error("functions that run unasked are SECURITY DEFINER: {0}")]
    Unasked(String),
    /// The import was cancelled.
    #[error("the import was cancelled")]
    Cancelled,
    /// The import's server failed.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The server refused a statement of ours.
    #[error("the import's server refused: {0}")]
    Sql(#[from] tokio_postgres::Error),
    /// The clone provider failed.
    #[error(transparent)]
    Clone(#[from] CloneError),
    /// PostgreSQL is missing.
    #[error(transparent)]
    Pg(#[from] PgError),
    /// The state failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// A file cannot be used.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl SnapshotError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    /// Was it that no space was left?
    fn is_full(&self) -> bool {
        match self {
            Self::Statement { message, .. } | Self::Program { message, .. } => {
                message.contains("No space left on device")
            }
            Self::Sql(e) => e.code() == Some(&SqlCode::DISK_FULL),
            Self::Io { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            _ => false,
        }
    }

    fn inner(&self) -> Option<&dyn UserFacingError> {
        match self {
            Self::Server(e) => Some(e),
            Self::Clone(e) => Some(e),
            Self::Pg(e) => Some(e),
            Self::State(e) => Some(e),
            _ => None,
        }
    }
}

impl UserFacingError for SnapshotError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(_)
            | Self::Statement { .. }
            | Self::Unasked(_)
            | Self::Locale(_)
            | Self::Cancelled => ErrorKind::User,
            Self::Program { .. } | Self::Sql(_) => ErrorKind::Postgres,
            Self::Wall(_) | Self::Io { .. } => ErrorKind::Compute,
            other => other.inner().map_or(ErrorKind::Compute, UserFacingError::kind),
        }
    }

    fn sqlstate(&self) -> SqlState {
        match self {
            _ if self.is_full() => SqlState::DISK_FULL,
            Self::Invalid(_) => SqlState("22023"),
            Self::Statement { .. } | Self::Program { .. } | Self::Sql(_) => SqlState("38000"),
            Self::Wall(_) | Self::Unasked(_) | Self::Locale(_) => {
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE
            }
            Self::Cancelled => SqlState::QUERY_CANCELED,
            Self::Io { .. } => SqlState::IO_ERROR,
            other => other.inner().map_or(SqlState::INTERNAL_ERROR, UserFacingError::sqlstate),
        }
    }

    fn message(&self) -> String {
        self.inner().map_or_else(
            || match self {
                Self::Sql(error) => {
                    let said = error.as_db_error().map(|db| db.message().to_owned());
                    format!(
                        "the import's server refused: {}",
                        said.unwrap_or_else(|| error.to_string())
                    )
                }
                other => other.to_string(),
            },
            UserFacingError::message,
        )
    }

    fn detail(&self) -> Option<String> {
        match self {
            Self::Statement { statement, .. } => {
                statement.as_ref().map(|text| format!("The statement: {text}"))
            }
            other => other.inner().and_then(UserFacingError::detail),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            _ if self.is_full() => Some(
                "Free space on the file system of the data directory and import again; nothing \
                 was sealed and nothing is left."
                    .to_owned(),
            ),
            Self::Locale(_) => Some(
                "Install the locale on this machine (Debian: add it to /etc/locale.gen and run \
                 `locale-gen`) and import again; with another one text would sort differently."
                    .to_owned(),
            ),
            Self::Statement { .. } => Some(
                "Nothing was sealed and nothing is left. Mend the statement and import again."
                    .to_owned(),
            ),
            Self::Unasked(_) => Some(
                "Operators, types and operator classes run them without asking; make them SECURITY INVOKER in a --sanitize script.".to_owned(),
            ),
            Self::Wall(_) => Some(
                "A --sanitize script can revoke what gives the role this; no lease is handed out on such a snapshot.".to_owned(),
            ),
            other => other.inner().and_then(UserFacingError::hint),
        }
    }
}
