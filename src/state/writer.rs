//! The writer thread: every look and every change goes through it, one after the other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

use super::{DataDir, StateError, schema};

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// How long to wait for another program that looks into the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// A handle to the state. Cheap to clone; the thread ends with the last clone.
#[derive(Debug, Clone)]
pub struct State {
    jobs: mpsc::Sender<Job>,
}

impl State {
    /// Opens the state of a data directory, brings it to the current version and checks it.
    /// Blocks.
    pub fn open(data: &DataDir) -> Result<Self, StateError> {
        Self::open_file(&data.state_file())
    }

    fn open_file(path: &Path) -> Result<Self, StateError> {
        let mut connection = Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_WRITE
                | OpenFlags::SQLITE_OPEN_CREATE
                | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        restrict(path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", "ON")?;
        connection.pragma_update(None, "trusted_schema", "OFF")?;
        let check: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if check != "ok" {
            return Err(StateError::Corrupt(check));
        }
        schema::migrate(&mut connection)?;

        let (jobs, queue) = mpsc::channel::<Job>();
        std::thread::Builder::new()
            .name("postern-state".to_owned())
            .spawn(move || {
                while let Ok(job) = queue.recv() {
                    // A bug in one job must not close the state for everybody: the caller gets
                    // `Closed`, the transaction was rolled back by the unwinding.
                    let _ = catch_unwind(AssertUnwindSafe(|| job(&mut connection)));
                }
            })
            .map_err(|source| StateError::Dir { path: path.to_owned(), source })?;
        Ok(Self { jobs })
    }

    /// Runs `work` in one transaction on the writer thread; its changes are on disk when this
    /// returns `Ok`, and undone when `work` fails.
    ///
    /// Not undone by dropping the future: what was handed over runs to its end.
    pub async fn call<T, F>(&self, work: F) -> Result<T, StateError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T, StateError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.jobs
            .send(Box::new(move |connection| {
                let _ = reply.send(in_transaction(connection, work));
            }))
            .map_err(|_| StateError::Closed)?;
        answer.await.map_err(|_| StateError::Closed)?
    }
}

fn in_transaction<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, StateError>,
) -> Result<T, StateError> {
    // Immediate: a transaction that starts by reading could not be upgraded if another program
    // wrote meanwhile.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let value = work(&transaction)?;
    transaction.commit()?;
    Ok(value)
}

/// The state names runs and holds verifiers: it is for postern's user alone.
fn restrict(path: &Path) -> Result<(), StateError> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .map_err(|source| StateError::Dir { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{SqlState, UserFacingError as _};

    fn open(dir: &tempfile::TempDir) -> Result<State, StateError> {
        State::open(&DataDir::open(dir.path())?)
    }

    #[tokio::test]
    async fn a_failed_change_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let state = open(&dir).unwrap();
        let result: Result<(), _> = state
            .call(|tx| {
                tx.execute("INSERT INTO outbox (kind, subject, detail, created_at) VALUES ('a','b','{}',1)", [])?;
                Err(StateError::Conflict("no".into()))
            })
            .await;
        assert!(matches!(result, Err(StateError::Conflict(_))));
        let rows: i64 = state
            .call(|tx| Ok(tx.query_row("SELECT count(*) FROM outbox", [], |r| r.get(0))?))
            .await
            .unwrap();
        assert_eq!(rows, 0);
    }

    #[tokio::test]
    async fn a_panic_in_one_job_does_not_hang_the_caller() {
        let dir = tempfile::tempdir().unwrap();
        let state = open(&dir).unwrap();
        let result: Result<(), _> = state.call(|_| panic!("on purpose")).await;
        assert!(matches!(result, Err(StateError::Closed)));
        assert_eq!(state.call(|_| Ok(7)).await.unwrap(), 7);
    }

    #[test]
    fn a_damaged_file_is_told_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let junk = vec![0x5a; 8192];
        std::fs::write(dir.path().join("state.db"), &junk).unwrap();
        let error = open(&dir).unwrap_err();
        assert!(matches!(error, StateError::Corrupt(_)), "{error}");
        assert_eq!(error.sqlstate(), SqlState::IO_ERROR);
        assert_eq!(std::fs::read(dir.path().join("state.db")).unwrap(), junk);
    }

    #[test]
    fn a_later_version_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        drop(open(&dir).unwrap());
        let connection = Connection::open(dir.path().join("state.db")).unwrap();
        connection.pragma_update(None, "user_version", 9999).unwrap();
        drop(connection);
        assert!(matches!(open(&dir), Err(StateError::TooNew { found: 9999, .. })));
    }

    #[tokio::test]
    async fn a_full_disk_is_told_as_such() {
        let dir = tempfile::tempdir().unwrap();
        let state = open(&dir).unwrap();
        let result: Result<(), _> = state
            .call(|tx| {
                let pages: i64 = tx.query_row("PRAGMA page_count", [], |r| r.get(0))?;
                tx.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?;
                tx.execute("INSERT INTO outbox (kind, subject, detail, created_at) VALUES ('a', ?1, '{}', 1)", ["x".repeat(100_000)])?;
                Ok(())
            })
            .await;
        let error = result.unwrap_err();
        assert_eq!(error.sqlstate(), SqlState::DISK_FULL, "{error}");
    }
}
