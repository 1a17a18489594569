//! Changes of the outside world that were intended and are not yet known to be done.

use rusqlite::{Connection, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{StateError, now_ms};

/// One intended change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// Its number.
    pub id: i64,
    /// What is to be done, a fixed word of the room that does it.
    pub kind: String,
    /// What it is about: the id of a snapshot, branch or lease.
    pub subject: String,
    /// What else is needed to finish or undo it, as JSON without secrets.
    pub detail: String,
    /// How often it was tried.
    pub attempts: i64,
    /// Why the last try failed.
    pub last_error: Option<String>,
}

impl Intent {
    /// The detail as a value.
    pub fn detail<T: DeserializeOwned>(&self) -> Result<T, StateError> {
        serde_json::from_str(&self.detail)
            .map_err(|e| StateError::Corrupt(format!("outbox {}: {e}", self.id)))
    }
}

/// Writes down what is about to be done. In the same transaction as the row it belongs to.
pub fn intend(
    db: &Connection,
    kind: &str,
    subject: &str,
    detail: &impl Serialize,
) -> Result<i64, StateError> {
    let detail = serde_json::to_string(detail)
        .map_err(|e| StateError::Conflict(format!("cannot write down an intent: {e}")))?;
    db.prepare_cached(
        "INSERT INTO outbox (kind, subject, detail, created_at) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![kind, subject, detail, now_ms()])?;
    Ok(db.last_insert_rowid())
}

/// It is done, or undone: either way nothing is left of it.
pub fn done(db: &Connection, id: i64) -> Result<(), StateError> {
    db.prepare_cached("DELETE FROM outbox WHERE id = ?1")?.execute([id])?;
    Ok(())
}

/// It was tried and failed; it stays to be tried again.
pub fn failed(db: &Connection, id: i64, error: &str) -> Result<(), StateError> {
    db.prepare_cached("UPDATE outbox SET attempts = attempts + 1, last_error = ?2 WHERE id = ?1")?
        .execute(params![id, error])?;
    Ok(())
}

/// What is pending, oldest first; of one kind when one is given.
pub fn pending(db: &Connection, kind: Option<&str>) -> Result<Vec<Intent>, StateError> {
    let mut statement = db.prepare_cached(
        "SELECT id, kind, subject, detail, attempts, last_error FROM outbox
         WHERE ?1 IS NULL OR kind = ?1 ORDER BY id",
    )?;
    let rows = statement.query_map([kind], |row| {
        Ok(Intent {
            id: row.get(0)?,
            kind: row.get(1)?,
            subject: row.get(2)?,
            detail: row.get(3)?,
            attempts: row.get(4)?,
            last_error: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
