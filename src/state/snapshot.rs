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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::branch::{self, BranchRow, BranchState};
    use crate::state::{DataDir, State, outbox};

    #[tokio::test]
    async fn a_name_is_taken_once_and_a_used_snapshot_stays() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(&DataDir::open(dir.path()).unwrap()).unwrap();
        let mut row = SnapshotRow {
            id: "sn_1".to_owned(),
            name: "shop".to_owned(),
            state: SnapshotState::Importing,
            database: "shop".to_owned(),
            pg_version: "15.18".to_owned(),
            pg_major: 15,
            provider: "copy".to_owned(),
            bytes: u64::MAX,
            files: 3,
            source: "file".to_owned(),
            sanitized_by: vec!["a.sql".to_owned()],
            settings: BTreeMap::from([("jit".to_owned(), "off".to_owned())]),
            fingerprint: None,
            created_at: 1,
            sealed_at: None,
        };
        let first = row.clone();
        state.call(move |tx| insert(tx, &first)).await.unwrap();
        let (mut again, mut sealed) = (row.clone(), row.clone());
        again.id = "sn_2".to_owned();
        let taken = state.call(move |tx| insert(tx, &again)).await.unwrap_err();
        assert!(matches!(taken, StateError::Conflict(_)), "{taken}");

        sealed.state = SnapshotState::Sealed;
        sealed.bytes = 42;
        row = sealed.clone();
        state.call(move |tx| update(tx, &sealed)).await.unwrap();
        assert_eq!(state.call(|tx| get(tx, "shop")).await.unwrap(), row);
        assert_eq!(state.call(|tx| list(tx)).await.unwrap(), [row]);

        let made = BranchRow {
            id: "br_1".to_owned(),
            snapshot_id: "sn_1".to_owned(),
            parent_id: None,
            state: BranchState::Stopped,
            provider: "copy".to_owned(),
            standby: true,
            database: "shop".to_owned(),
            pg_major: 15,
            settings: BTreeMap::new(),
            server: None,
            failure: None,
            created_at: 1,
            used_at: 1,
        };
        let expected = made.clone();
        state.call(move |tx| branch::insert(tx, &made)).await.unwrap();
        assert_eq!(state.call(|tx| branch::get(tx, "br_1")).await.unwrap(), expected);
        assert!(matches!(state.call(|tx| delete(tx, "sn_1")).await, Err(StateError::Conflict(_))));
        state.call(|tx| branch::delete(tx, "br_1")).await.unwrap();
        state.call(|tx| delete(tx, "sn_1")).await.unwrap();
    }

    #[tokio::test]
    async fn an_intent_stays_until_it_is_done() {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::open(dir.path()).unwrap();
        let state = State::open(&data).unwrap();
        let id = state.call(|tx| outbox::intend(tx, "secret", "lease-1", &["x"])).await.unwrap();
        state.call(move |tx| outbox::failed(tx, id, "disk")).await.unwrap();
        drop(state);
        let state = State::open(&data).unwrap();
        let pending = state.call(|tx| outbox::pending(tx, Some("secret"))).await.unwrap();
        assert_eq!((pending.len(), pending[0].attempts), (1, 1));
        assert_eq!(pending[0].detail::<Vec<String>>().unwrap(), ["x"]);
        state.call(move |tx| outbox::done(tx, id)).await.unwrap();
        assert!(state.call(|tx| outbox::pending(tx, None)).await.unwrap().is_empty());
    }
}
