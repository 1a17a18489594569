//! Applies what is not applied yet.

use std::path::Path;
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use super::super::fact::Digest;
use super::super::split::Statement;
use super::error::{MigrateError, StatementFailure};
use super::file::{MigrationFile, in_order, load};
use super::record::{Record, Recorder, State};

/// The session-level advisory lock that keeps two appliers of one branch apart.
const LOCK: i64 = 0x706f_7374_6572_6e01;

/// What an application of migrations did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied {
    /// How many files had been applied before.
    pub already: usize,
    /// The records of those applied now, in order.
    pub now: Vec<Record>,
}

/// Applies the files of `dir` in order, after those that the records say are applied.
///
/// A file is one transaction, or, if its head says `-- postern: no-transaction`, its statements are
/// committed one by one. Nothing is run before every file was read and checked. A file that fails
/// in its transaction leaves nothing; the next call tries it again. A file without a transaction
/// goes on at the statement that failed, provided what ran before it is unchanged.
///
/// `client` is connected as the role that shall own what the files make, outside of a transaction.
/// Each file starts with the settings the session has by default and the role it has now.
///
/// Not cancel-safe for the connection, which must then be closed; the records stay true, whenever
/// the future is dropped or the process dies: before a commit the transaction's identifier is
/// recorded, and the next call asks the server what became of it.
pub async fn apply(
    dir: &Path,
    client: &Client,
    recorder: &mut impl Recorder,
) -> Result<Applied, MigrateError> {
    let files = load(dir)?;
    let mut work = Vec::with_capacity(files.len());
    for file in &files {
        work.push((file, file.statements()?));
    }
    let row = client
        .query_one("SELECT pg_catalog.pg_try_advisory_lock($1), current_setting('role')", &[&LOCK])
        .await?;
    if !row.try_get::<_, bool>(0)? {
        return Err(MigrateError::Busy);
    }
    let role: String = row.try_get(1)?;
    let applied = Applier { client, recorder, role }.all(&files, &work).await;
    // After an error the connection may be gone; the lock is then, too.
    let unlocked = client.query("SELECT pg_catalog.pg_advisory_unlock($1)", &[&LOCK]).await;
    let applied = applied?;
    unlocked?;
    Ok(applied)
}

type Work<'a> = (&'a MigrationFile, Vec<Statement<'a>>);

struct Applier<'a, R> {
    client: &'a Client,
    recorder: &'a mut R,
    role: String,
}

impl<R: Recorder> Applier<'_, R> {
    async fn all(
        mut self,
        files: &[MigrationFile],
        work: &[Work<'_>],
    ) -> Result<Applied, MigrateError> {
        let mut records = self.recorder.records().await?;
        for record in &mut records {
            self.settle(record).await?;
        }
        check_applied(files, &records)?;
        let mut applied = Applied::default();
        for (file, statements) in work {
            let record = records.iter().find(|record| record.file == file.name);
            if record.is_some_and(|record| record.state == State::Applied) {
                applied.already += 1;
                continue;
            }
            self.client.batch_execute("RESET ALL").await?;
            self.client
                .query("SELECT pg_catalog.set_config('role', $1, false)", &[&self.role])
                .await?;
            let record = if file.in_transaction() {
                self.in_transaction(file, statements, record).await?
            } else {
                self.one_by_one(file, statements, record).await?
            };
            self.recorder.write(&record).await?;
            applied.now.push(record);
        }
        Ok(applied)
    }

    /// Finds out what became of a transaction whose end was not recorded.
    async fn settle(&mut self, record: &mut Record) -> Result<(), MigrateError> {
        let transaction = match &record.state {
            State::Committing { transaction } => transaction,
            State::Running { done, .. } => {
                return Err(MigrateError::Unknown {
                    file: record.file.clone(),
                    statement: done + 1,
                });
            }
            State::Failed { .. } | State::Applied => return Ok(()),
        };
        let row = self
            .client
            .query_one("SELECT pg_catalog.pg_xact_status($1::text::xid8)", &[transaction])
            .await;
        // An identifier from the server's future is an error: a crash lost the transaction.
        let status: Option<String> = match row {
            Ok(row) => row.try_get(0)?,
            Err(error) if error.code().is_some_and(|code| code.code() == "22023") => {
                Some("aborted".to_owned())
            }
            Err(error) => return Err(error.into()),
        };
        match status.as_deref() {
            Some("committed") => {
                record.state = State::Applied;
                self.recorder.write(record).await?;
            }
            Some("aborted") => {
                // As if it had not been tried.
                let failure = StatementFailure {
                    file: record.file.clone(),
                    statement: 0,
                    line: 1,
                    position: None,
                    sqlstate: None,
                    message: "the transaction was interrupted before it was committed".to_owned(),
                    detail: None,
                    hint: None,
                };
                record.state = State::Failed { done: 0, checksum: Digest::of(b""), failure };
                self.recorder.write(record).await?;
            }
            _ => {
                return Err(MigrateError::Unknown { file: record.file.clone(), statement: 1 });
            }
        }
        Ok(())
    }

    async fn in_transaction(
        &mut self,
        file: &MigrationFile,
        statements: &[Statement<'_>],
        earlier: Option<&Record>,
    ) -> Result<Record, MigrateError> {
        // What an earlier content of the file left when it ran without a transaction remains.
        if earlier.is_some_and(|record| matches!(record.state, State::Failed { done: 1.., .. })) {
            return Err(MigrateError::Changed(file.name.clone()));
        }
        let started = Instant::now();
        let result = self.transaction(file, statements, started).await;
        match result {
            Ok(()) => Ok(Record {
                file: file.name.clone(),
                checksum: file.checksum,
                duration: started.elapsed(),
                state: State::Applied,
            }),
            Err(error) => {
                if let MigrateError::Statement(failure) = &error {
                    self.client.batch_execute("ROLLBACK").await.ok();
                    self.failed(file, started.elapsed(), 0, Digest::of(b""), failure).await?;
                }
                Err(error)
            }
        }
    }

    async fn transaction(
        &mut self,
        file: &MigrationFile,
        statements: &[Statement<'_>],
        started: Instant,
    ) -> Result<(), MigrateError> {
        const XID: &str = "SELECT pg_catalog.pg_current_xact_id()::text";
        self.client.batch_execute("BEGIN").await?;
        let transaction: String = self.client.query_one(XID, &[]).await?.try_get(0)?;
        for (i, statement) in statements.iter().enumerate() {
            self.client.batch_execute(statement.text).await.map_err(|error| {
                MigrateError::Statement(Box::new(StatementFailure::new(
                    file,
                    i + 1,
                    statement.start,
                    &error,
                )))
            })?;
        }
        let now: String = self.client.query_one(XID, &[]).await?.try_get(0)?;
        if now != transaction {
            self.client.batch_execute("ROLLBACK").await?;
            return Err(MigrateError::TransactionEnded(file.name.clone()));
        }
        let committing = Record {
            file: file.name.clone(),
            checksum: file.checksum,
            duration: started.elapsed(),
            state: State::Committing { transaction },
        };
        if let Err(error) = self.recorder.write(&committing).await {
            self.client.batch_execute("ROLLBACK").await?;
            return Err(error.into());
        }
        // A deferred constraint fails here: it is the file's last statement that is to blame.
        let last = statements.last().map_or(0, |statement| statement.start);
        self.client.batch_execute("COMMIT").await.map_err(|error| {
            if error.as_db_error().is_none() {
                // The connection broke: the server alone knows.
                return MigrateError::Postgres(error);
            }
            let failure = StatementFailure::new(file, statements.len(), last, &error);
            MigrateError::Statement(Box::new(failure))
        })
    }

    async fn one_by_one(
        &mut self,
        file: &MigrationFile,
        statements: &[Statement<'_>],
        earlier: Option<&Record>,
    ) -> Result<Record, MigrateError> {
        let upto = |done: usize| match done.checked_sub(1).and_then(|last| statements.get(last)) {
            Some(statement) => {
                Digest::of(&file.sql.as_bytes()[..statement.start + statement.text.len()])
            }
            None => Digest::of(b""),
        };
        let (first, mut duration) = match earlier {
            Some(Record { state: State::Failed { done, checksum, .. }, duration, .. }) => {
                if *done > statements.len() || upto(*done) != *checksum {
                    return Err(MigrateError::Changed(file.name.clone()));
                }
                (*done, *duration)
            }
            _ => (0, Duration::ZERO),
        };
        for (done, statement) in statements.iter().enumerate().skip(first) {
            let running = Record {
                file: file.name.clone(),
                checksum: file.checksum,
                duration,
                state: State::Running { done, checksum: upto(done) },
            };
            self.recorder.write(&running).await?;
            let started = Instant::now();
            let result = self.client.batch_execute(statement.text).await;
            duration += started.elapsed();
            let Err(error) = result else { continue };
            if error.as_db_error().is_none() {
                return Err(error.into());
            }
            let failure = StatementFailure::new(file, done + 1, statement.start, &error);
            self.failed(file, duration, done, upto(done), &failure).await?;
            return Err(MigrateError::Statement(Box::new(failure)));
        }
        Ok(Record {
            file: file.name.clone(),
            checksum: file.checksum,
            duration,
            state: State::Applied,
        })
    }

    async fn failed(
        &mut self,
        file: &MigrationFile,
        duration: Duration,
        done: usize,
        checksum: Digest,
        failure: &StatementFailure,
    ) -> Result<(), MigrateError> {
        let state = State::Failed { done, checksum, failure: failure.clone() };
        let record = Record { file: file.name.clone(), checksum: file.checksum, duration, state };
        Ok(self.recorder.write(&record).await?)
    }
}

/// Refuses files that do not fit what is applied: one missing, one changed, one in between.
fn check_applied(files: &[MigrationFile], records: &[Record]) -> Result<(), MigrateError> {
    let done = |record: &&Record| match record.state {
        State::Applied => true,
        // Part of such a file is applied, too.
        State::Failed { done, .. } => done > 0,
        State::Committing { .. } | State::Running { .. } => false,
    };
    for record in records.iter().filter(done) {
        let Some(file) = files.iter().find(|file| file.name == record.file) else {
            return Err(MigrateError::Missing(record.file.clone()));
        };
        if record.state == State::Applied && file.checksum != record.checksum {
            return Err(MigrateError::Changed(record.file.clone()));
        }
    }
    let Some(last) = records.iter().filter(done).max_by(|a, b| in_order(&a.file, &b.file)) else {
        return Ok(());
    };
    let applied = |name: &str| records.iter().filter(done).any(|record| record.file == name);
    match files.iter().take_while(|file| file.name != last.file).find(|file| !applied(&file.name)) {
        Some(file) => {
            Err(MigrateError::Reordered { file: file.name.clone(), applied: last.file.clone() })
        }
        None => Ok(()),
    }
}
