//! The wall: what each role may do is set, and then tried, before a snapshot is sealed.

use tokio_postgres::Client;

use super::super::server::Server;
use super::SnapshotError;

/// How the superuser works in a database that may hold anything: nothing of its own runs unasked.
const QUIET: &str = "SET session_replication_role = 'replica'; SET client_min_messages = 'error';
SET search_path = pg_catalog; SET row_security = off; SET statement_timeout = 0; SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;";

/// Made before the restore, so that a dump may name them.
pub const ROLES: &str = "
CREATE ROLE postern_owner NOLOGIN;
CREATE ROLE postern_read LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
CREATE ROLE postern_write LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
CREATE ROLE postern_migrate LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
CREATE ROLE postern_import LOGIN SUPERUSER;";

/// What nobody may, whatever the lease.
const NOBODY: [(&str, &str); 14] = [
    ("become a superuser", "SET SESSION AUTHORIZATION postern"),
    ("take the superuser's role", "SET ROLE postern"),
    ("read password hashes", "SELECT rolpassword FROM pg_authid LIMIT 1"),
    ("change the server's configuration", "ALTER SYSTEM SET work_mem = '1MB'"),
    ("run programs", "COPY (SELECT 1) TO PROGRAM 'true'"),
    ("write files", "COPY (SELECT 1) TO '/dev/null'"),
    ("read files", "SELECT pg_read_file('PG_VERSION')"),
    ("list directories", "SELECT pg_ls_dir('.')"),
    ("import files", "SELECT lo_import('/dev/null')"),
    ("load libraries", "LOAD 'auto_explain'"),
    ("make roles", "CREATE ROLE postern_probe"),
    (
        "make functions in C",
        "CREATE FUNCTION pg_temp.postern_probe() RETURNS int LANGUAGE c AS 'x', 'y'",
    ),
    ("end other sessions", "SELECT pg_terminate_backend(-1)"),
    ("log statements of its own", "SET log_statement = 'all'"),
];

/// What only a lease with `migrate` may.
const OWNER: [(&str, &str); 5] = [
    ("make schemas", "CREATE SCHEMA postern_probe"),
    ("run anonymous blocks", "DO 'begin end'"),
    ("take the owner's role", "SET ROLE postern_owner"),
    (
        "make functions",
        "CREATE FUNCTION pg_temp.postern_probe() RETURNS int LANGUAGE sql AS 'select 1'",
    ),
    ("make roles its members", "GRANT postern_owner TO postern_read"),
];

/// What only a lease with `write` or `migrate` may.
const WRITER: [(&str, &str); 4] = [
    ("make temporary tables", "CREATE TEMPORARY TABLE postern_probe ()"),
    ("make large objects", "SELECT lo_create(0)"),
    ("write large objects", "SELECT lo_from_bytea(0, 'x')"),
    ("notify", "SELECT pg_notify('postern_probe', '')"),
];

/// Has superuser sessions run nothing that the database brings along.
pub async fn quiet(client: &Client) -> Result<(), SnapshotError> {
    Ok(client.batch_execute(QUIET).await?)
}

/// Sets owners, roles and privileges in the restored database.
pub async fn build(admin: &Client) -> Result<(), SnapshotError> {
    let unasked = admin.query(include_str!("refusals.sql"), &[]).await?;
    if !unasked.is_empty() {
        let names: Vec<String> = unasked.iter().map(|row| row.get(0)).collect();
        return Err(SnapshotError::Unasked(names.join(", ")));
    }
    admin.batch_execute(include_str!("wall.sql")).await?;
    admin.batch_execute("DROP OWNED BY postern_import; DROP ROLE postern_import").await?;
    Ok(())
}

/// Tries to get through as each role. Whatever gets through is an error.
pub async fn verify(server: &Server, admin: &Client, database: &str) -> Result<(), SnapshotError> {
    let tables = admin
        .query(
            "SELECT format('%I.%I', n.nspname, c.relname), c.relkind = 'S' FROM pg_class c
             JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE c.relkind IN ('r', 'p', 'f', 'S') AND n.nspname !~ '^pg_'
               AND n.nspname <> 'information_schema'",
            &[],
        )
        .await?;
    let read = server.connect("postern_read", database).await?;
    let write = server.connect("postern_write", database).await?;
    let migrate = server.connect("postern_migrate", database).await?;
    for (role, client) in
        [("postern_read", &read), ("postern_write", &write), ("postern_migrate", &migrate)]
    {
        try_all(role, client, &NOBODY).await?;
    }
    try_all("postern_write", &write, &OWNER).await?;
    try_all("postern_read", &read, &OWNER).await?;
    try_all("postern_read", &read, &WRITER).await?;
    for row in &tables {
        let (name, sequence): (String, bool) = (row.get(0), row.get(1));
        if sequence {
            let name = name.replace('\'', "''");
            attempt("postern_read", &read, "move a sequence", &format!("SELECT nextval('{name}')"))
                .await?;
        } else {
            for sql in [
                format!("INSERT INTO {name} DEFAULT VALUES"),
                format!("DELETE FROM {name} WHERE false"),
                format!("TRUNCATE {name}"),
                format!("LOCK TABLE {name} IN SHARE MODE"),
            ] {
                attempt("postern_read", &read, "write a table", &sql).await?;
            }
            let drop = format!("ALTER TABLE {name} ADD COLUMN postern_probe int");
            attempt("postern_write", &write, "change a table", &drop).await?;
        }
    }
    Ok(())
}

async fn try_all(
    role: &str,
    client: &Client,
    attempts: &[(&str, &str)],
) -> Result<(), SnapshotError> {
    for (what, sql) in attempts {
        attempt(role, client, what, sql).await?;
    }
    Ok(())
}

async fn attempt(role: &str, client: &Client, what: &str, sql: &str) -> Result<(), SnapshotError> {
    client.batch_execute("BEGIN READ WRITE").await?;
    let got_through = client.batch_execute(sql).await.is_ok();
    client.batch_execute("ROLLBACK").await?;
    if got_through {
        let what = format!("{what} ({sql})");
        return Err(SnapshotError::Wall { role: role.to_owned(), what });
    }
    Ok(())
}

/// Freezes and analyses, so that the first reads of a branch write nothing.
pub async fn vacuum(admin: &Client) -> Result<(), SnapshotError> {
    admin.batch_execute("VACUUM (FREEZE, ANALYZE)").await?;
    admin.batch_execute("CHECKPOINT").await?;
    Ok(())
}
