//! Why a migration is refused or fails.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::super::read::reason;
use super::file::{BadFile, MigrationFile};
use super::record::RecorderError;
use crate::error::{ErrorKind, SqlState, UserFacingError};

/// A statement that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatementFailure {
    /// The file.
    pub file: String,
    /// Which statement of the file, counted from 1.
    pub statement: usize,
    /// The line of the file, counted from 1: that of the error where the server told its position,
    /// else the statement's first.
    pub line: usize,
    /// The character of the statement at which the server saw the error, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u32>,
    /// The server's SQLSTATE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sqlstate: Option<String>,
    /// The server's message.
    pub message: String,
    /// The server's detail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The server's hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl StatementFailure {
    pub(super) fn new(
        file: &MigrationFile,
        statement: usize,
        start: usize,
        error: &tokio_postgres::Error,
    ) -> Self {
        let server = error.as_db_error();
        let position = match server.and_then(tokio_postgres::error::DbError::position) {
            Some(tokio_postgres::error::ErrorPosition::Original(position)) => Some(*position),
            _ => None,
        };
        // The server counts characters, from 1.
        let offset = position.map_or(0, |position| {
            let characters = usize::try_from(position).unwrap_or(usize::MAX).saturating_sub(1);
            let text = &file.sql[start..];
            text.char_indices().nth(characters).map_or(text.len(), |(byte, _)| byte)
        });
        Self {
            file: file.name.clone(),
            statement,
            line: file.line(start + offset),
            position,
            sqlstate: error.code().map(|code| code.code().to_owned()),
            message: reason(error),
            detail: server.and_then(|db| db.detail()).map(str::to_owned),
            hint: server.and_then(|db| db.hint()).map(str::to_owned),
        }
    }
}

impl fmt::Display for StatementFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, statement, message, .. } = self;
        write!(f, "{file}:{line}: statement {statement} failed: {message}")?;
        self.sqlstate.as_ref().map_or(Ok(()), |state| write!(f, " ({state})"))
    }
}

/// Why migrations were not applied.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// A file or the directory cannot be used.
    #[error(transparent)]
    File(#[from] BadFile),
    /// An applied file is not in the directory.
    #[error("the migration {0:?} was applied but its file is missing")]
    Missing(String),
    /// An applied file, or the applied part of one, was changed.
    #[error("the migration {0:?} was changed after it was applied")]
    Changed(String),
    /// A file comes before one that was applied already.
    #[error("the migration {file:?} comes before {applied:?}, which was applied without it")]
    Reordered {
        /// The file.
        file: String,
        /// The applied file that comes after it.
        applied: String,
    },
    /// Another client applies migrations to this branch.
    #[error("other migrations are being applied to this branch")]
    Busy,
    /// A statement failed.
    #[error("{0}")]
    Statement(Box<StatementFailure>),
    /// A file ended the transaction it ran in.
    #[error("{0:?} ended its own transaction; part of it may be applied")]
    TransactionEnded(String),
    /// A statement was interrupted, or the server does not know what became of a transaction.
    #[error("it is not known whether {file:?} was applied from statement {statement} on")]
    Unknown {
        /// The file.
        file: String,
        /// The statement, counted from 1.
        statement: usize,
    },
    /// The records failed.
    #[error("the record of migrations failed: {0}")]
    Recorder(#[from] RecorderError),
    /// The server or the connection failed outside of a file's statements.
    #[error("the server failed while migrations were applied: {}", reason(.0))]
    Postgres(#[from] tokio_postgres::Error),
}

impl UserFacingError for MigrateError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Recorder(_) => ErrorKind::ControlPlane,
            Self::Postgres(_) => ErrorKind::Postgres,
            _ => ErrorKind::User,
        }
    }

    fn sqlstate(&self) -> SqlState {
        match self {
            Self::Busy => SqlState::OBJECT_IN_USE,
            Self::Recorder(_) => SqlState::IO_ERROR,
            Self::Postgres(_) => SqlState::SYSTEM_ERROR,
            _ => SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        }
    }

    fn detail(&self) -> Option<String> {
        match self {
            Self::Statement(failure) => failure.detail.clone(),
            _ => None,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::File(BadFile::Refused { what: "transaction control", .. }) => {
                "A file is one transaction; with `-- postern: no-transaction` at its head each \
                 statement is committed on its own."
            }
            Self::File(BadFile::Refused { .. }) => "Use SQL statements such as INSERT.",
            Self::Missing(_) | Self::Changed(_) => {
                "Restore the file as it was and put the change into a new one, or reset the branch."
            }
            Self::Reordered { .. } => {
                "Give the file a name that comes after the applied ones, or reset the branch."
            }
            Self::Busy => "Wait until they are done.",
            Self::TransactionEnded(_) | Self::Unknown { .. } => {
                "Reset the branch and apply the migrations again."
            }
            Self::Statement(failure) => return failure.hint.clone(),
            Self::File(_) | Self::Recorder(_) | Self::Postgres(_) => return None,
        };
        Some(hint.to_owned())
    }
}
