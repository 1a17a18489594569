//! The wall is verified, not assumed: before a snapshot is sealed, its catalogs are asked what each
//! role could do, and each role tries it.

use tokio_postgres::Client;

use super::super::server::Server;
use super::SnapshotError;

/// How many breaches an error tells of.
const TOLD: usize = 5;

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

/// Looks for what a role could do beyond its capabilities, and tries to get through as each.
/// Whatever gets through is an error. `admin` must be quiet.
pub(super) async fn verify(
    server: &Server,
    admin: &Client,
    database: &str,
) -> Result<(), SnapshotError> {
    let breaches = admin.query(include_str!("sql/breaches.sql"), &[]).await?;
    let mut found = Vec::new();
    for row in &breaches {
        found.push((row.try_get::<_, String>(0)?, row.try_get::<_, String>(1)?));
    }
    if found.is_empty() {
        found = try_all_roles(server, admin, database).await?;
    }
    if found.is_empty() {
        return Ok(());
    }
    for (role, what) in &found {
        tracing::error!(role, what, "the wall does not hold");
    }
    let more = found.len().saturating_sub(TOLD);
    let mut told: Vec<String> =
        found.iter().take(TOLD).map(|(role, what)| format!("{role} could {what}")).collect();
    if more > 0 {
        told.push(format!("{more} more"));
    }
    Err(SnapshotError::Wall(told.join("; ")))
}

type Breaches = Vec<(String, String)>;

async fn try_all_roles(
    server: &Server,
    admin: &Client,
    database: &str,
) -> Result<Breaches, SnapshotError> {
    let relations = admin
        .query(
            "SELECT format('%I.%I', n.nspname, c.relname), c.relkind = 'S'
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE c.relkind IN ('r', 'p', 'S') AND c.oid >= 16384
             ORDER BY c.oid LIMIT 500",
            &[],
        )
        .await?;
    let mut found = Breaches::new();
    for (role, write, truncate, migrate) in [
        ("postern_read", false, false, false),
        ("postern_write", true, false, false),
        ("postern_truncate", true, true, false),
        ("postern_migrate", true, true, true),
    ] {
        let client = server.connect(role, database).await?;
        let mut attempts: Vec<(String, String)> = NOBODY.map(owned).to_vec();
        if !migrate {
            attempts.extend(OWNER.map(owned));
        }
        if !write {
            attempts.extend(WRITER.map(owned));
        }
        for row in &relations {
            let (name, sequence): (String, bool) = (row.try_get(0)?, row.try_get(1)?);
            if sequence && !write {
                let quoted = name.replace('\'', "''");
                attempts.push((format!("move {name}"), format!("SELECT nextval('{quoted}')")));
            }
            if sequence {
                continue;
            }
            if !write {
                attempts.push((
                    format!("insert {name}"),
                    format!("INSERT INTO {name} SELECT * FROM {name} WHERE false"),
                ));
                attempts
                    .push((format!("delete {name}"), format!("DELETE FROM {name} WHERE false")));
                attempts.push((format!("lock {name}"), format!("LOCK TABLE {name} IN SHARE MODE")));
            }
            if !truncate {
                attempts.push((format!("truncate {name}"), format!("TRUNCATE {name}")));
            }
            if !migrate {
                let sql = format!("ALTER TABLE {name} ADD COLUMN postern_probe int");
                attempts.push((format!("alter {name}"), sql));
            }
        }
        for (what, sql) in attempts {
            client.batch_execute("BEGIN READ WRITE").await?;
            let got_through = client.batch_execute(&sql).await.is_ok();
            client.batch_execute("ROLLBACK").await?;
            if got_through {
                found.push((role.to_owned(), format!("{what} ({sql})")));
            }
        }
    }
    Ok(found)
}

fn owned((what, sql): (&str, &str)) -> (String, String) {
    (what.to_owned(), sql.to_owned())
}
