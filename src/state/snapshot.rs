//! Rows of snapshots.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::StateError;
use super::json::{from_json, json, size, stored_size};

/// How far a snapshot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SnapshotState {
    /// Being restored and sealed; no branch may be made of it.
    Importing,
    /// Ready.
    Sealed,
    /// Being deleted.
    Removing,
}

impl SnapshotState {
    /// The word in the state and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Importing => "importing",
            Self::Sealed => "sealed",
            Self::Removing => "removing",
        }
    }

    fn parse(word: &str) -> Result<Self, StateError> {
        [Self::Importing, Self::Sealed, Self::Removing]
            .into_iter()
            .find(|s| s.as_str() == word)
            .ok_or_else(|| StateError::Corrupt(format!("snapshot state `{word}`")))
    }
}

/// A snapshot as the state knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotRow {
    /// Its id.
    pub id: String,
    /// The name people give it.
    pub name: String,
    /// How far it is.
    pub state: SnapshotState,
    /// The database's own name.
    pub database: String,
    /// The server version it was made with.
    pub pg_version: String,
    /// Its major version.
    pub pg_major: u32,
    /// The clone provider its files are laid out for.
    pub provider: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
    /// Where it came from, without a password.
    pub source: String,
    /// The sanitizing scripts, in order.
    pub sanitized_by: Vec<String>,
    /// The source's settings that a branch takes over.
    pub settings: BTreeMap<String, String>,
    /// The schema fingerprint.
    pub fingerprint: Option<String>,
    /// When the import began, Unix milliseconds.
    pub created_at: i64,
    /// When it was sealed, Unix milliseconds.
    pub sealed_at: Option<i64>,
}

const COLUMNS: &str = "id, name, state, database, pg_version, pg_major, provider, bytes, files, source, sanitized_by, settings, fingerprint, created_at, sealed_at";

/// Writes a new one down. A taken name is a conflict.
pub fn insert(db: &Connection, row: &SnapshotRow) -> Result<(), StateError> {
    if find(db, &row.name)?.is_some() {
        return Err(StateError::Conflict(format!("there is a snapshot `{}` already", row.name)));
    }
    db.prepare_cached(&format!(
        "INSERT INTO snapshot ({COLUMNS})
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)"
    ))?
    .execute(params![
        row.id,
        row.name,
        row.state.as_str(),
        row.database,
        row.pg_version,
        row.pg_major,
        row.provider,
        stored_size(row.bytes),
        stored_size(row.files),
        row.source,
        json(&row.sanitized_by)?,
        json(&row.settings)?,
        row.fingerprint,
        row.created_at,
        row.sealed_at,
    ])?;
    Ok(())
}

/// Writes a known one anew, whole.
pub fn update(db: &Connection, row: &SnapshotRow) -> Result<(), StateError> {
    let changed = db
        .prepare_cached(
            "UPDATE snapshot SET name = ?2, state = ?3, database = ?4, pg_version = ?5,
             pg_major = ?6, provider = ?7, bytes = ?8, files = ?9, source = ?10,
             sanitized_by = ?11, settings = ?12, fingerprint = ?13, created_at = ?14,
             sealed_at = ?15 WHERE id = ?1",
        )?
        .execute(params![
            row.id,
            row.name,
            row.state.as_str(),
            row.database,
            row.pg_version,
            row.pg_major,
            row.provider,
            stored_size(row.bytes),
            stored_size(row.files),
            row.source,
            json(&row.sanitized_by)?,
            json(&row.settings)?,
            row.fingerprint,
            row.created_at,
            row.sealed_at,
        ])?;
    if changed == 0 { Err(not_found(&row.id)) } else { Ok(()) }
}

/// Finds one by id or name.
pub fn find(db: &Connection, id_or_name: &str) -> Result<Option<SnapshotRow>, StateError> {
    db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM snapshot WHERE id = ?1 OR name = ?1 ORDER BY id = ?1 DESC LIMIT 1"
    ))?
    .query_row([id_or_name], |row| Ok(read(row)))
    .optional()?
    .transpose()
}

/// As [`find`]; not being there is an error.
pub fn get(db: &Connection, id_or_name: &str) -> Result<SnapshotRow, StateError> {
    find(db, id_or_name)?.ok_or_else(|| not_found(id_or_name))
}

/// All of them by name, unfinished ones included.
pub fn list(db: &Connection) -> Result<Vec<SnapshotRow>, StateError> {
    let mut statement =
        db.prepare_cached(&format!("SELECT {COLUMNS} FROM snapshot ORDER BY name"))?;
    let rows = statement.query_map([], |row| Ok(read(row)))?;
    rows.map(|row| row.map_err(StateError::from).flatten()).collect()
}

/// Forgets one. Refused while branches are made of it.
pub fn delete(db: &Connection, id: &str) -> Result<(), StateError> {
    let branches = branches(db, id)?;
    if branches > 0 {
        return Err(StateError::Conflict(format!(
            "{branches} branches are made of snapshot `{id}`"
        )));
    }
    db.prepare_cached("DELETE FROM snapshot WHERE id = ?1")?.execute([id])?;
    Ok(())
}

/// How many branches are made of it.
pub fn branches(db: &Connection, id: &str) -> Result<u64, StateError> {
    let count: i64 = db
        .prepare_cached("SELECT count(*) FROM branch WHERE snapshot_id = ?1")?
        .query_row([id], |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

fn read(row: &Row<'_>) -> Result<SnapshotRow, StateError> {
    Ok(SnapshotRow {
        id: row.get(0)?,
        name: row.get(1)?,
        state: SnapshotState::parse(&row.get::<_, String>(2)?)?,
        database: row.get(3)?,
        pg_version: row.get(4)?,
        pg_major: row.get(5)?,
        provider: row.get(6)?,
        bytes: size(row.get(7)?),
        files: size(row.get(8)?),
        source: row.get(9)?,
        sanitized_by: from_json(&row.get::<_, String>(10)?)?,
        settings: from_json(&row.get::<_, String>(11)?)?,
        fingerprint: row.get(12)?,
        created_at: row.get(13)?,
        sealed_at: row.get(14)?,
    })
}

fn not_found(id: &str) -> StateError {
    StateError::NotFound { kind: "snapshot", id: id.to_owned() }
}
