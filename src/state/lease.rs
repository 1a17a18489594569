//! Rows of leases. A lease's secret is not here: only its verifier and where the secret is kept.

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{StateError, now_ms};

/// Whether a lease holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LeaseState {
    /// It holds.
    Active,
    /// Its lifetime is over.
    Expired,
    /// Somebody ended it.
    Revoked,
}

impl LeaseState {
    /// The word in the state and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }

    fn parse(word: &str) -> Result<Self, StateError> {
        [Self::Active, Self::Expired, Self::Revoked]
            .into_iter()
            .find(|s| s.as_str() == word)
            .ok_or_else(|| StateError::Corrupt(format!("lease state `{word}`")))
    }
}

/// A lease as the state knows it.
#[derive(Clone, PartialEq, Eq)]
pub struct LeaseRow {
    /// Its id, also the user name.
    pub id: String,
    /// The run that holds it.
    pub run_id: String,
    /// The repository revision the run works on.
    pub revision: String,
    /// The snapshot its branch comes from.
    pub snapshot_id: String,
    /// The branch it lands on.
    pub branch_id: String,
    /// What it may do: words joined by commas.
    pub capabilities: String,
    /// The policy it names.
    pub policy: Option<String>,
    /// The SCRAM-SHA-256 verifier.
    pub verifier: String,
    /// Where its URL is kept.
    pub secret_ref: String,
    /// The database it sees.
    pub database: String,
    /// How many connections it may have at once.
    pub max_connections: u32,
    /// What becomes of the branch when it ends.
    pub on_end: String,
    /// Its budget, JSON.
    pub budget: String,
    /// When it was made, Unix milliseconds.
    pub created_at: i64,
    /// When it ends, Unix milliseconds.
    pub expires_at: i64,
    /// Whether it holds.
    pub state: LeaseState,
    /// When it ended, Unix milliseconds.
    pub ended_at: Option<i64>,
    /// Why it ended.
    pub end_reason: Option<String>,
}

impl std::fmt::Debug for LeaseRow {
    /// Without the verifier: whoever has it can try tokens against it offline.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaseRow")
            .field("id", &self.id)
            .field("run_id", &self.run_id)
            .field("branch_id", &self.branch_id)
            .field("capabilities", &self.capabilities)
            .field("expires_at", &self.expires_at)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

const COLUMNS: &str = "id, run_id, revision, snapshot_id, branch_id, capabilities, policy, verifier, secret_ref, database, max_connections, on_end, budget, created_at, expires_at, state, ended_at, end_reason";

/// Writes a new one down.
pub fn insert(db: &Connection, row: &LeaseRow) -> Result<(), StateError> {
    db.prepare_cached(&format!(
        "INSERT INTO lease ({COLUMNS}) VALUES
         (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)"
    ))?
    .execute(params![
        row.id,
        row.run_id,
        row.revision,
        row.snapshot_id,
        row.branch_id,
        row.capabilities,
        row.policy,
        row.verifier,
        row.secret_ref,
        row.database,
        row.max_connections,
        row.on_end,
        row.budget,
        row.created_at,
        row.expires_at,
        row.state.as_str(),
        row.ended_at,
        row.end_reason,
    ])?;
    Ok(())
}

/// Ends one that holds; `false` when it had ended before.
pub fn end(db: &Connection, id: &str, state: LeaseState, reason: &str) -> Result<bool, StateError> {
    let changed = db
        .prepare_cached(
            "UPDATE lease SET state = ?2, ended_at = ?3, end_reason = ?4
             WHERE id = ?1 AND state = 'active'",
        )?
        .execute(params![id, state.as_str(), now_ms(), reason])?;
    Ok(changed == 1)
}

/// Moves the end of one that holds; `false` when it has ended.
pub fn renew(db: &Connection, id: &str, expires_at: i64) -> Result<bool, StateError> {
    let changed = db
        .prepare_cached("UPDATE lease SET expires_at = ?2 WHERE id = ?1 AND state = 'active'")?
        .execute(params![id, expires_at])?;
    Ok(changed == 1)
}

/// Gives one that holds another credential; `false` when it has ended.
pub fn set_credential(
    db: &Connection,
    id: &str,
    verifier: &str,
    secret_ref: &str,
) -> Result<bool, StateError> {
    let changed = db
        .prepare_cached(
            "UPDATE lease SET verifier = ?2, secret_ref = ?3 WHERE id = ?1 AND state = 'active'",
        )?
        .execute([id, verifier, secret_ref])?;
    Ok(changed == 1)
}

/// Finds one.
pub fn find(db: &Connection, id: &str) -> Result<Option<LeaseRow>, StateError> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM lease WHERE id = ?1"))?
        .query_row([id], |row| Ok(read(row)))
        .optional()?
        .transpose()
}

/// As [`find`]; not being there is an error.
pub fn get(db: &Connection, id: &str) -> Result<LeaseRow, StateError> {
    find(db, id)?.ok_or_else(|| StateError::NotFound { kind: "lease", id: id.to_owned() })
}

/// All of them, oldest first; those in one state when one is given.
pub fn list(db: &Connection, state: Option<LeaseState>) -> Result<Vec<LeaseRow>, StateError> {
    let mut statement = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM lease WHERE ?1 IS NULL OR state = ?1 ORDER BY created_at, id"
    ))?;
    let rows = statement.query_map([state.map(LeaseState::as_str)], |row| Ok(read(row)))?;
    rows.map(|row| row.map_err(StateError::from).flatten()).collect()
}

/// Those that land on a branch and hold.
pub fn active_on_branch(db: &Connection, branch_id: &str) -> Result<Vec<LeaseRow>, StateError> {
    let mut statement = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM lease WHERE branch_id = ?1 AND state = 'active' ORDER BY created_at"
    ))?;
    let rows = statement.query_map([branch_id], |row| Ok(read(row)))?;
    rows.map(|row| row.map_err(StateError::from).flatten()).collect()
}

/// Those that land or ever landed on a branch.
pub fn on_branch(db: &Connection, branch_id: &str) -> Result<Vec<LeaseRow>, StateError> {
    let mut statement = db
        .prepare_cached(&format!("SELECT {COLUMNS} FROM lease WHERE branch_id = ?1 ORDER BY id"))?;
    let rows = statement.query_map([branch_id], |row| Ok(read(row)))?;
    rows.map(|row| row.map_err(StateError::from).flatten()).collect()
}

/// Forgets one that has ended.
pub fn delete(db: &Connection, id: &str) -> Result<(), StateError> {
    db.prepare_cached("DELETE FROM lease WHERE id = ?1 AND state <> 'active'")?.execute([id])?;
    Ok(())
}

fn read(row: &Row<'_>) -> Result<LeaseRow, StateError> {
    Ok(LeaseRow {
        id: row.get(0)?,
        run_id: row.get(1)?,
        revision: row.get(2)?,
        snapshot_id: row.get(3)?,
        branch_id: row.get(4)?,
        capabilities: row.get(5)?,
        policy: row.get(6)?,
        verifier: row.get(7)?,
        secret_ref: row.get(8)?,
        database: row.get(9)?,
        max_connections: row.get(10)?,
        on_end: row.get(11)?,
        budget: row.get(12)?,
        created_at: row.get(13)?,
        expires_at: row.get(14)?,
        state: LeaseState::parse(&row.get::<_, String>(15)?)?,
        ended_at: row.get(16)?,
        end_reason: row.get(17)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{DataDir, State};

    fn row(id: &str) -> LeaseRow {
        LeaseRow {
            id: id.to_owned(),
            run_id: "run-1".to_owned(),
            revision: "abc".to_owned(),
            snapshot_id: "sn".to_owned(),
            branch_id: "br".to_owned(),
            capabilities: "read,write".to_owned(),
            policy: None,
            verifier: "SCRAM-SHA-256$4096:c2FsdA==$a:b".to_owned(),
            secret_ref: "file:secrets/x".to_owned(),
            database: "shop".to_owned(),
            max_connections: 10,
            on_end: "destroy".to_owned(),
            budget: "{}".to_owned(),
            created_at: 1,
            expires_at: 2,
            state: LeaseState::Active,
            ended_at: None,
            end_reason: None,
        }
    }

    #[tokio::test]
    async fn a_lease_ends_once_and_is_then_beyond_change() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(&DataDir::open(dir.path()).unwrap()).unwrap();
        state
            .call(|tx| insert(tx, &row("one")).and_then(|()| insert(tx, &row("two"))))
            .await
            .unwrap();
        assert_eq!(state.call(|tx| get(tx, "one")).await.unwrap(), row("one"));
        assert!(state.call(|tx| insert(tx, &row("one"))).await.is_err());

        assert!(state.call(|tx| renew(tx, "one", 9)).await.unwrap());
        assert!(state.call(|tx| set_credential(tx, "one", "v", "file:y")).await.unwrap());
        assert!(state.call(|tx| end(tx, "one", LeaseState::Revoked, "by hand")).await.unwrap());
        assert!(!state.call(|tx| end(tx, "one", LeaseState::Expired, "late")).await.unwrap());
        assert!(!state.call(|tx| renew(tx, "one", 99)).await.unwrap());
        assert!(!state.call(|tx| set_credential(tx, "one", "w", "file:z")).await.unwrap());
        let ended = state.call(|tx| get(tx, "one")).await.unwrap();
        assert_eq!((ended.state, ended.expires_at), (LeaseState::Revoked, 9));
        assert_eq!(ended.end_reason.as_deref(), Some("by hand"));

        let active = state.call(|tx| active_on_branch(tx, "br")).await.unwrap();
        assert_eq!(active, [row("two")]);
        assert_eq!(state.call(|tx| list(tx, None)).await.unwrap().len(), 2);
        state.call(|tx| delete(tx, "two").and_then(|()| delete(tx, "one"))).await.unwrap();
        let left = state.call(|tx| list(tx, None)).await.unwrap();
        assert_eq!(left, [row("two")], "one that holds is not forgotten");
    }

    #[test]
    fn a_verifier_is_not_printed() {
        assert!(!format!("{:?}", row("one")).contains("SCRAM"));
    }
}
