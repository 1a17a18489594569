//! What can go wrong with the log, and what a client is told then.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{ErrorKind, SqlState, UserFacingError};

/// A record could not be written. Cheap to clone: everybody whose record was in the same group
/// gets it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EvidenceError {
    /// No space is left.
    #[error("the evidence log cannot be written: no space is left on its file system")]
    DiskFull,
    /// Another I/O error.
    #[error("the evidence log cannot be written: {0}")]
    Io(Arc<io::Error>),
    /// The last fsync failed and what follows is not yet safe.
    #[error("the evidence log cannot be made durable: {0}")]
    Sync(Arc<io::Error>),
    /// The log is being closed.
    #[error("the evidence log is closed")]
    Closed,
}

impl EvidenceError {
    /// The error of a failed write.
    pub fn of_write(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull,
            _ => Self::Io(Arc::new(error)),
        }
    }
}

impl UserFacingError for EvidenceError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Service
    }

    fn sqlstate(&self) -> SqlState {
        match self {
            Self::Closed => SqlState::ADMIN_SHUTDOWN,
            _ => SqlState::IO_ERROR,
        }
    }

    fn message(&self) -> String {
        match self {
            // An operating system's text may name a path; a client is told the kind only.
            Self::Io(error) => format!("the evidence log cannot be written: {}", error.kind()),
            Self::Sync(error) => {
                format!("the evidence log cannot be made durable: {}", error.kind())
            }
            Self::DiskFull | Self::Closed => self.to_string(),
        }
    }

    fn detail(&self) -> Option<String> {
        Some("Nothing runs that is not recorded first, so the statement was not sent.".into())
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Closed => Some("Connect again when postern is back.".into()),
            _ => Some(
                "Try again later; tell the operator to free space for, or mend, the evidence directory."
                    .into(),
            ),
        }
    }
}

/// The log could not be opened, read or changed from outside a session.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A file or directory could not be used.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process writes this log.
    #[error("another postern writes the evidence in {}", .0.display())]
    Locked(PathBuf),
    /// There are segments but the key that signed them is gone.
    #[error("the evidence in {} has segments but no signing key", .0.display())]
    KeyMissing(PathBuf),
    /// The key file is no Ed25519 key.
    #[error("{} holds no Ed25519 key in PKCS#8", .0.display())]
    BadKey(PathBuf),
    /// The key file can be read by others.
    #[error("{} can be read by others than its owner", .0.display())]
    ExposedKey(PathBuf),
    /// There is no log here.
    #[error("{} holds no evidence log", .0.display())]
    NoLog(PathBuf),
    /// A public key was given that is none.
    #[error("a public key is 64 hexadecimal digits")]
    BadPublicKey,
    /// A redaction rule cannot be read.
    #[error("redaction rule {number}: {problem}")]
    BadRule {
        /// Which, from 1.
        number: usize,
        /// Why.
        problem: String,
    },
    /// A filter cannot be read.
    #[error("{0}")]
    BadFilter(String),
    /// A segment cannot be read.
    #[error("segment {segment} cannot be read: {problem}")]
    Damaged {
        /// Which.
        segment: u64,
        /// Why.
        problem: String,
    },
    /// SQLite failed.
    #[error("the evidence index: {0}")]
    Index(#[from] rusqlite::Error),
    /// A record could not be written.
    #[error(transparent)]
    Append(#[from] EvidenceError),
}

impl LogError {
    /// For `map_err`: an I/O error with the path it was about.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }
}

impl UserFacingError for LogError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NoLog(_) | Self::BadPublicKey | Self::BadFilter(_) => ErrorKind::User,
            Self::BadRule { .. } => ErrorKind::ControlPlane,
            _ => ErrorKind::Service,
        }
    }

    fn sqlstate(&self) -> SqlState {
        match self {
            Self::Locked(_) => SqlState::OBJECT_IN_USE,
            Self::BadRule { .. } => SqlState::CONFIG_FILE_ERROR,
            Self::NoLog(_) | Self::BadPublicKey | Self::BadFilter(_) => SqlState::UNDEFINED_OBJECT,
            Self::KeyMissing(_) | Self::BadKey(_) | Self::ExposedKey(_) => {
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE
            }
            Self::Append(error) => error.sqlstate(),
            Self::File { .. } | Self::Damaged { .. } | Self::Index(_) => SqlState::IO_ERROR,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::KeyMissing(dir) => Some(format!(
                "Put signing.key back into {}, or move the whole directory away to begin a new log.",
                dir.display()
            )),
            Self::ExposedKey(path) => Some(format!("chmod 600 {}", path.display())),
            Self::Damaged { .. } => Some("`postern log verify` says what was changed.".into()),
            Self::Append(error) => error.hint(),
            _ => None,
        }
    }
}
