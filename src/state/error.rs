//! What can go wrong with the state.

use std::path::PathBuf;

use rusqlite::ErrorCode;

use crate::error::{ErrorKind, SqlState, UserFacingError};

/// Why the state could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Another postern works on the data directory.
    #[error("the data directory {} is in use by process {pid}", dir.display())]
    InUse {
        /// The data directory.
        dir: PathBuf,
        /// The process that holds it, or `?`.
        pid: String,
    },
    /// The data directory cannot be used.
    #[error("cannot use {}: {source}", path.display())]
    Dir {
        /// What could not be made or opened.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// No space is left for the state.
    #[error("the disk is full: the state could not be written")]
    DiskFull,
    /// The state's file is damaged.
    #[error("the state is damaged: {0}")]
    Corrupt(String),
    /// The state was written by a later version.
    #[error("the state has version {found}; this postern knows versions up to {known}")]
    TooNew {
        /// The version of the file.
        found: i64,
        /// The latest version known here.
        known: i64,
    },
    /// Somebody else has the state's file locked.
    #[error("the state is locked by another program")]
    Locked,
    /// What was to be changed is not there.
    #[error("there is no {kind} `{id}`")]
    NotFound {
        /// `snapshot`, `branch` or `lease`.
        kind: &'static str,
        /// The id or name that was asked for.
        id: String,
    },
    /// The change does not go with what is there.
    #[error("{0}")]
    Conflict(String),
    /// The state could not be read or written for another reason.
    #[error("the state could not be read or written: {0}")]
    Sql(#[source] rusqlite::Error),
    /// The writer thread has ended.
    #[error("the state is closed")]
    Closed,
}

impl From<rusqlite::Error> for StateError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::DiskFull,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Corrupt(error.to_string())
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked,
            _ => Self::Sql(error),
        }
    }
}

impl UserFacingError for StateError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } | Self::Conflict(_) => ErrorKind::User,
            _ => ErrorKind::ControlPlane,
        }
    }

    fn sqlstate(&self) -> SqlState {
        match self {
            Self::DiskFull => SqlState::DISK_FULL,
            Self::NotFound { .. } => SqlState::UNDEFINED_OBJECT,
            Self::Conflict(_) | Self::InUse { .. } => SqlState::OBJECT_IN_USE,
            Self::TooNew { .. } => SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            _ => SqlState::IO_ERROR,
        }
    }

    fn message(&self) -> String {
        match self {
            // SQLite's own words may quote a statement or a path; they are for the log.
            Self::Sql(_) => "the state could not be read or written".to_owned(),
            other => other.to_string(),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::InUse { .. } => "Stop the other postern, or give this one its own --data-dir.",
            Self::Dir { .. } => "The directory must belong to postern's user and be writable.",
            Self::DiskFull => {
                "Free space on the file system of the data directory; nothing was changed."
            }
            Self::Corrupt(_) => {
                "Restore state.db from a backup, or start with an empty data directory."
            }
            Self::TooNew { .. } => "Use the postern that wrote it, or a later one.",
            Self::Locked => "Only postern may open state.db; close the other program.",
            Self::NotFound { .. } | Self::Conflict(_) | Self::Sql(_) | Self::Closed => return None,
        };
        Some(hint.to_owned())
    }
}
