//! Rows of branches.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::json::{from_json, json, size, stored_size};
use super::{StateError, now_ms};

/// How far a branch is. The words ending in `-ing` are intents: what they say is about to be done
/// or being done, and the reconciler finishes or undoes it when nobody else does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BranchState {
    /// Its files are being cloned.
    Creating,
    /// Its files are there, no server runs.
    Stopped,
    /// A server is being started.
    Starting,
    /// A server runs.
    Running,
    /// The server is being stopped.
    Stopping,
    /// Everything of it is being deleted.
    Destroying,
    /// It cannot be used any more; `failure` says why.
    Failed,
}

impl BranchState {
    const ALL: [Self; 7] = [
        Self::Creating,
        Self::Stopped,
        Self::Starting,
        Self::Running,
        Self::Stopping,
        Self::Destroying,
        Self::Failed,
    ];

    /// The word in the state and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Destroying => "destroying",
            Self::Failed => "failed",
        }
    }

    fn parse(word: &str) -> Result<Self, StateError> {
        Self::ALL
            .into_iter()
            .find(|s| s.as_str() == word)
            .ok_or_else(|| StateError::Corrupt(format!("branch state `{word}`")))
    }
}

/// Which process a branch's server is. A process id alone is used again by the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerProcess {
    /// The postmaster's process id.
    pub pid: u32,
    /// When it started, in clock ticks since boot (`/proc/<pid>/stat`, field 22).
    pub start: u64,
    /// Which boot of the machine that was.
    pub boot_id: String,
}

/// A branch as the state knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchRow {
    /// Its id.
    pub id: String,
    /// The snapshot its data comes from, directly or through other branches.
    pub snapshot_id: String,
    /// The branch it was made from, if not from the snapshot itself.
    pub parent_id: Option<String>,
    /// How far it is.
    pub state: BranchState,
    /// The clone provider that made its files.
    pub provider: String,
    /// Is its server a standby, which cannot write?
    pub standby: bool,
    /// The database's own name.
    pub database: String,
    /// The major version of its server.
    pub pg_major: u32,
    /// Settings for its server beyond the profile.
    pub settings: BTreeMap<String, String>,
    /// Its server, while there is one.
    pub server: Option<ServerProcess>,
    /// Why it failed.
    pub failure: Option<String>,
    /// When it was made, Unix milliseconds.
    pub created_at: i64,
    /// When a session last began or ended, Unix milliseconds.
    pub used_at: i64,
}

const COLUMNS: &str = "id, snapshot_id, parent_id, state, provider, standby, database, pg_major, settings, server_pid, server_start, boot_id, failure, created_at, used_at";

/// Writes a new one down.
pub fn insert(db: &Connection, row: &BranchRow) -> Result<(), StateError> {
    let (pid, start, boot_id) = columns(row.server.as_ref());
    db.prepare_cached(&format!(
        "INSERT INTO branch ({COLUMNS})
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)"
    ))?
    .execute(params![
        row.id,
        row.snapshot_id,
        row.parent_id,
        row.state.as_str(),
        row.provider,
        row.standby,
        row.database,
        row.pg_major,
        json(&row.settings)?,
        pid,
        start,
        boot_id,
        row.failure,
        row.created_at,
        row.used_at,
    ])?;
    Ok(())
}

/// Moves one to another state, with the server it has there.
pub fn set_state(
    db: &Connection,
    id: &str,
    state: BranchState,
    server: Option<&ServerProcess>,
) -> Result<(), StateError> {
    let (pid, start, boot_id) = columns(server);
    let changed = db
        .prepare_cached(
            "UPDATE branch SET state = ?2, server_pid = ?3, server_start = ?4, boot_id = ?5
             WHERE id = ?1",
        )?
        .execute(params![id, state.as_str(), pid, start, boot_id])?;
    expect_one(changed, id)
}

/// Marks one as of no more use. Its server, if any, is still to be stopped.
pub fn set_failed(db: &Connection, id: &str, why: &str) -> Result<(), StateError> {
    let changed = db
        .prepare_cached("UPDATE branch SET state = 'failed', failure = ?2 WHERE id = ?1")?
        .execute([id, why])?;
    expect_one(changed, id)
}

/// Its server is, or is no more, a standby.
pub fn set_standby(db: &Connection, id: &str, standby: bool) -> Result<(), StateError> {
    let changed = db
        .prepare_cached("UPDATE branch SET standby = ?2 WHERE id = ?1")?
        .execute(params![id, standby])?;
    expect_one(changed, id)
}

/// A session began or ended just now.
pub fn touch(db: &Connection, id: &str) -> Result<(), StateError> {
    db.prepare_cached("UPDATE branch SET used_at = ?2 WHERE id = ?1")?
        .execute(params![id, now_ms()])?;
    Ok(())
}

/// Finds one.
pub fn find(db: &Connection, id: &str) -> Result<Option<BranchRow>, StateError> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM branch WHERE id = ?1"))?
        .query_row([id], |row| Ok(read(row)))
        .optional()?
        .transpose()
}

/// As [`find`]; not being there is an error.
pub fn get(db: &Connection, id: &str) -> Result<BranchRow, StateError> {
    find(db, id)?.ok_or_else(|| StateError::NotFound { kind: "branch", id: id.to_owned() })
}

/// All of them, oldest first, unfinished ones included.
pub fn list(db: &Connection) -> Result<Vec<BranchRow>, StateError> {
    let mut statement =
        db.prepare_cached(&format!("SELECT {COLUMNS} FROM branch ORDER BY created_at, id"))?;
    let rows = statement.query_map([], |row| Ok(read(row)))?;
    rows.map(|row| row.map_err(StateError::from).flatten()).collect()
}

/// Forgets one, when nothing of it is left.
pub fn delete(db: &Connection, id: &str) -> Result<(), StateError> {
    db.prepare_cached("DELETE FROM branch WHERE id = ?1")?.execute([id])?;
    Ok(())
}

fn columns(server: Option<&ServerProcess>) -> (Option<u32>, Option<i64>, Option<&str>) {
    (
        server.map(|s| s.pid),
        server.map(|s| stored_size(s.start)),
        server.map(|s| s.boot_id.as_str()),
    )
}

fn read(row: &Row<'_>) -> Result<BranchRow, StateError> {
    let server = match (row.get(9)?, row.get::<_, Option<i64>>(10)?, row.get(11)?) {
        (Some(pid), Some(start), Some(boot_id)) => {
            Some(ServerProcess { pid, start: size(start), boot_id })
        }
        _ => None,
    };
    Ok(BranchRow {
        id: row.get(0)?,
        snapshot_id: row.get(1)?,
        parent_id: row.get(2)?,
        state: BranchState::parse(&row.get::<_, String>(3)?)?,
        provider: row.get(4)?,
        standby: row.get(5)?,
        database: row.get(6)?,
        pg_major: row.get(7)?,
        settings: from_json(&row.get::<_, String>(8)?)?,
        server,
        failure: row.get(12)?,
        created_at: row.get(13)?,
        used_at: row.get(14)?,
    })
}

fn expect_one(changed: usize, id: &str) -> Result<(), StateError> {
    if changed == 1 {
        Ok(())
    } else {
        Err(StateError::NotFound { kind: "branch", id: id.to_owned() })
    }
}
