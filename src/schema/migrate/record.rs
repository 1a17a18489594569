//! What is known of each migration.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::fact::Digest;
use super::error::StatementFailure;

/// Where records are kept: outside of the branch, where an agent cannot change them.
///
/// A method returns when the record would survive a crash.
pub trait Recorder: Send {
    /// All records of this branch, in the order their files were first recorded.
    fn records(&mut self) -> impl Future<Output = Result<Vec<Record>, RecorderError>> + Send;

    /// Writes a record, in the place of an earlier one of the same file.
    fn write(&mut self, record: &Record) -> impl Future<Output = Result<(), RecorderError>> + Send;
}

/// Records cannot be read or written. The text is safe to show.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct RecorderError(pub String);

/// The record of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The file's name.
    pub file: String,
    /// The SHA-256 of the file as it was tried or applied.
    pub checksum: Digest,
    /// How long its statements took, so far.
    #[serde(rename = "durationMs", with = "milliseconds")]
    pub duration: Duration,
    /// How far it came.
    pub state: State,
}

/// How far a file came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum State {
    /// Its transaction is about to be committed. The server knows whether it was.
    Committing {
        /// The transaction's identifier (`pg_current_xact_id`).
        transaction: String,
    },
    /// A file without a transaction: `done` statements are, and the next one is being run.
    Running {
        /// How many statements have succeeded.
        done: usize,
        /// The SHA-256 of the file up to the end of the last of them.
        checksum: Digest,
    },
    /// A statement failed. In a file with a transaction nothing of it remains.
    Failed {
        /// How many statements have succeeded and remain.
        done: usize,
        /// The SHA-256 of the file up to the end of the last of them.
        checksum: Digest,
        /// The statement and the error.
        failure: StatementFailure,
    },
    /// All of it.
    Applied,
}

mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(of: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(of.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}
