//! What the demo shows by doing it, through the proxy, with an ordinary driver.

use std::time::Instant;

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use super::Report;
use crate::cli::{CliError, Output};

/// The three leases' connections, and what is done on them.
struct Tour {
    read: Client,
    write: Client,
    migrate: Client,
    table: String,
}

/// Shows the walls. Fails when one does not hold.
pub(super) async fn take(
    report: &mut Report,
    output: Output,
    urls: &[String],
    own: bool,
) -> Result<(), CliError> {
    let [read, write, migrate] = urls else {
        return Err(CliError::broken("the tour needs three leases"));
    };
    let began = Instant::now();
    let read = connect(read).await?;
    let table = if own { biggest_table(&read).await? } else { "orders".to_owned() };
    let tour = Tour { read, write: connect(write).await?, migrate: connect(migrate).await?, table };
    report.step(output, "three drivers connect", began, "SCRAM-SHA-256".to_owned());
    let table = &tour.table;

    let began = Instant::now();
    let before = count(&tour.read, table).await?;
    report.step(output, &format!("read: SELECT count(*) FROM {table}"), began, before.to_string());

    let began = Instant::now();
    let delete = format!("DELETE FROM {table}");
    let refused = match tour.read.batch_execute(&delete).await {
        Ok(()) => return Err(CliError::broken("the read lease could write")),
        Err(error) => refusal(&error)?,
    };
    report.step(
        output,
        &format!("read: {delete}"),
        began,
        format!("refused by the server: {refused}"),
    );

    let began = Instant::now();
    // An own database may have rows that others point to; emptying with all that follows shows
    // the same: nobody else is touched.
    let gone = if own {
        delete_referring(&tour.migrate, table).await?
    } else {
        tour.write.execute(&delete, &[]).await.map_err(told)?
    };
    let who = if own { "read,write,migrate" } else { "read,write" };
    report.step(output, &format!("{who}: {delete}"), began, format!("{gone} rows deleted"));

    let began = Instant::now();
    let migration = format!("ALTER TABLE {table} ADD COLUMN postern_demo text DEFAULT 'new'");
    tour.migrate.batch_execute(&migration).await.map_err(told)?;
    report.step(output, "read,write,migrate: ALTER TABLE … ADD COLUMN", began, "done".to_owned());

    let began = Instant::now();
    let after = count(&tour.read, table).await?;
    let columns =
        "SELECT count(*) FROM information_schema.columns WHERE column_name = 'postern_demo'";
    let columns: i64 = tour.read.query_one(columns, &[]).await.map_err(told)?.get(0);
    if after != before || columns != 0 {
        return Err(CliError::broken("one branch saw what another did"));
    }
    report.step(
        output,
        "the read branch afterwards",
        began,
        format!("{after} rows, no new column"),
    );
    Ok(())
}

/// Connects like any driver would.
pub(super) async fn connect(url: &str) -> Result<Client, CliError> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(told)?;
    tokio::spawn(connection);
    Ok(client)
}

async fn count(client: &Client, table: &str) -> Result<i64, CliError> {
    Ok(client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.map_err(told)?.get(0))
}

async fn biggest_table(client: &Client) -> Result<String, CliError> {
    let sql = "SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c \
               JOIN pg_namespace n ON n.oid = c.relnamespace \
               WHERE c.relkind = 'r' AND n.nspname NOT LIKE 'pg\\_%' \
               AND n.nspname <> 'information_schema' ORDER BY c.reltuples DESC LIMIT 1";
    let row = client.query_opt(sql, &[]).await.map_err(told)?;
    row.map(|row| row.get(0)).ok_or_else(|| CliError::broken("the database has no table"))
}

async fn delete_referring(client: &Client, table: &str) -> Result<u64, CliError> {
    let rows = u64::try_from(count(client, table).await?).unwrap_or_default();
    client.batch_execute(&format!("TRUNCATE {table} CASCADE")).await.map_err(told)?;
    Ok(rows)
}

/// What a driver's error says, the server's words included.
fn told(error: tokio_postgres::Error) -> CliError {
    match error.as_db_error() {
        Some(db) => CliError::broken(format!("{} {}", db.code().code(), db.message())),
        None => CliError::broken(error),
    }
}

/// The text of a refusal by the wall; any other error is a failure of the demo.
fn refusal(error: &tokio_postgres::Error) -> Result<String, CliError> {
    match error.as_db_error() {
        Some(db)
            if *db.code() == SqlState::READ_ONLY_SQL_TRANSACTION
                || *db.code() == SqlState::INSUFFICIENT_PRIVILEGE =>
        {
            Ok(format!("{} {}", db.code().code(), db.message()))
        }
        _ => Err(CliError::broken(format!("not refused by the wall: {error}"))),
    }
}
