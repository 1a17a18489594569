//! Lists, maps and sizes as columns.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StateError;

/// A value as the text of a column.
pub(super) fn json(value: &impl Serialize) -> Result<String, StateError> {
    serde_json::to_string(value)
        .map_err(|e| StateError::Conflict(format!("cannot be written as JSON: {e}")))
}

/// The text of a column as a value.
pub(super) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, StateError> {
    serde_json::from_str(text).map_err(|e| StateError::Corrupt(format!("a JSON column: {e}")))
}

/// SQLite has signed numbers only.
pub(super) fn stored_size(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// The opposite of [`stored_size`].
pub(super) fn size(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}
