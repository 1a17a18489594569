//! The tables, and how an older file becomes a current one.

use rusqlite::{Connection, TransactionBehavior};

use super::StateError;

/// One script per version; a released script is never changed, only followed by another.
const MIGRATIONS: &[&str] = &[VERSION_1];

/// All times are Unix milliseconds; lists and maps are JSON.
const VERSION_1: &str = "
CREATE TABLE snapshot (
    id           TEXT    PRIMARY KEY,
    name         TEXT    NOT NULL UNIQUE,
    state        TEXT    NOT NULL CHECK (state IN ('importing', 'sealed', 'removing')),
    database     TEXT    NOT NULL,
    pg_version   TEXT    NOT NULL,
    pg_major     INTEGER NOT NULL,
    provider     TEXT    NOT NULL,
    bytes        INTEGER NOT NULL DEFAULT 0,
    files        INTEGER NOT NULL DEFAULT 0,
    source       TEXT    NOT NULL,
    sanitized_by TEXT    NOT NULL DEFAULT '[]',
    settings     TEXT    NOT NULL DEFAULT '{}',
    fingerprint  TEXT,
    created_at   INTEGER NOT NULL,
    sealed_at    INTEGER
) STRICT;

CREATE TABLE branch (
    id           TEXT    PRIMARY KEY,
    snapshot_id  TEXT    NOT NULL REFERENCES snapshot (id),
    parent_id    TEXT,
    state        TEXT    NOT NULL CHECK (state IN
                 ('creating', 'stopped', 'starting', 'running', 'stopping', 'destroying', 'failed')),
    provider     TEXT    NOT NULL,
    standby      INTEGER NOT NULL CHECK (standby IN (0, 1)),
    database     TEXT    NOT NULL,
    pg_major     INTEGER NOT NULL,
    settings     TEXT    NOT NULL DEFAULT '{}',
    server_pid   INTEGER,
    server_start INTEGER,
    boot_id      TEXT,
    failure      TEXT,
    created_at   INTEGER NOT NULL,
    used_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX branch_by_snapshot ON branch (snapshot_id);

CREATE TABLE lease (
    id              TEXT    PRIMARY KEY,
    run_id          TEXT    NOT NULL,
    revision        TEXT    NOT NULL,
    snapshot_id     TEXT    NOT NULL,
    branch_id       TEXT    NOT NULL,
    capabilities    TEXT    NOT NULL,
    policy          TEXT,
    verifier        TEXT    NOT NULL,
    secret_ref      TEXT    NOT NULL,
    database        TEXT    NOT NULL,
    max_connections INTEGER NOT NULL,
    on_end          TEXT    NOT NULL,
    budget          TEXT    NOT NULL DEFAULT '{}',
    created_at      INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    state           TEXT    NOT NULL CHECK (state IN ('active', 'expired', 'revoked')),
    ended_at        INTEGER,
    end_reason      TEXT
) STRICT;
CREATE INDEX lease_by_branch ON lease (branch_id);
CREATE INDEX lease_by_run ON lease (run_id);
CREATE INDEX lease_by_state ON lease (state, expires_at);

CREATE TABLE outbox (
    id         INTEGER PRIMARY KEY,
    kind       TEXT    NOT NULL,
    subject    TEXT    NOT NULL,
    detail     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 0,
    last_error TEXT
) STRICT;
";

/// Brings the file to the current version, one transaction per step.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), StateError> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if found > known {
        return Err(StateError::TooNew { found, known });
    }
    for (version, script) in (1i64..).zip(MIGRATIONS).filter(|(version, _)| *version > found) {
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        tx.execute_batch(script)?;
        tx.pragma_update(None, "user_version", version)?;
        tx.commit()?;
    }
    Ok(())
}
