//! The wall: owners, roles and privileges, set before a snapshot is sealed.
//!
//! The SQL is in `sql/`, in the order of its use. It runs as the bootstrap superuser, whose
//! sessions must never run what the source or an agent brought along.

use tokio_postgres::Client;

use super::SnapshotError;

/// How the superuser works in a database that may hold anything: nothing of its own runs unasked.
const QUIET: &str = "SET session_replication_role = 'replica'; SET client_min_messages = 'error';
SET search_path = pg_catalog, pg_temp; SET row_security = off; SET statement_timeout = 0;
SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET check_function_bodies = off;
SET default_transaction_read_only = off; SET transaction_read_only = off;";

/// Made before the restore, so that a dump may name them.
pub(super) const ROLES: &str = include_str!("sql/roles.sql");

/// What is done to the restored database, each in a transaction of its own.
const STEPS: [&str; 4] = [
    include_str!("sql/strip.sql"),
    include_str!("sql/own.sql"),
    include_str!("sql/wall.sql"),
    include_str!("sql/finish.sql"),
];

/// Catalogs that held secrets of the source; rewritten, so that no page keeps them.
const SECRET_CATALOGS: [&str; 5] = [
    "pg_catalog.pg_authid",
    "pg_catalog.pg_subscription",
    "pg_catalog.pg_user_mapping",
    "pg_catalog.pg_foreign_server",
    "pg_catalog.pg_db_role_setting",
];

/// Refuses what a snapshot cannot have: files outside the data directory.
pub(super) async fn check_cluster(admin: &Client) -> Result<(), SnapshotError> {
    let spaces = admin.query("SELECT spcname FROM pg_tablespace WHERE oid >= 16384", &[]).await?;
    match spaces.first() {
        None => Ok(()),
        Some(row) => Err(SnapshotError::Invalid(format!(
            "the script makes the tablespace `{}`: dump without tablespaces (--no-tablespaces)",
            row.try_get::<_, String>(0)?
        ))),
    }
}

/// Has superuser sessions run nothing that the database brings along.
pub(super) async fn quiet(client: &Client) -> Result<(), SnapshotError> {
    Ok(client.batch_execute(QUIET).await?)
}

/// Sets owners, roles and privileges in the restored database. The client must be quiet.
pub(super) async fn build(admin: &Client) -> Result<(), SnapshotError> {
    let unasked = admin.query(include_str!("sql/refusals.sql"), &[]).await?;
    if !unasked.is_empty() {
        let names: Vec<String> =
            unasked.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        return Err(SnapshotError::Unasked(names.join(", ")));
    }
    for step in STEPS {
        // Several statements in one message are one transaction.
        admin.batch_execute(step).await?;
    }
    Ok(())
}

/// Freezes and analyses, so that the first reads of a branch write nothing.
pub(super) async fn vacuum(admin: &Client) -> Result<(), SnapshotError> {
    for catalog in SECRET_CATALOGS {
        admin.batch_execute(&format!("VACUUM (FULL, FREEZE) {catalog}")).await?;
    }
    admin.batch_execute("VACUUM (FREEZE, ANALYZE)").await?;
    admin.batch_execute("CHECKPOINT").await?;
    Ok(())
}
