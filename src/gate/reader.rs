//! Readers: parsers that know a statement's names. They may raise what the floor found, and never
//! lower it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use parking_lot::Mutex;

use super::class::Classes;
use super::facts::Name;

/// A parser behind the floor.
///
/// It gets one statement in canonical form: no comments, every string as `'…'`, every quoted name
/// as `"…"`, tokens one blank apart. It must have read to the end of what it got or fail. It may
/// recurse deeply and panic: it runs on threads of its own.
pub trait Reader: Send + Sync + 'static {
    /// What it is called in evidence.
    fn name(&self) -> &'static str;

    /// Reads one statement.
    fn read(&self, statement: &str) -> Result<Reading, NotRead>;
}

/// What a reader found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// Classes to add.
    pub classes: Classes,
    /// Tables, WITH queries left out.
    pub tables: Vec<Name>,
    /// Columns.
    pub columns: Vec<Name>,
    /// Functions.
    pub functions: Vec<Name>,
    /// A table's name or alias stands where a value does.
    pub whole_rows: bool,
}

/// Why a reader has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRead {
    /// It does not know the syntax.
    #[error("not parsed: {0}")]
    Syntax(String),
    /// It stopped before the end.
    #[error("not read to its end")]
    Unfinished,
    /// It crashed.
    #[error("the parser failed")]
    Panicked,
    /// All threads are busy, or it took too long.
    #[error("no parser was free in time")]
    Busy,
    /// Over a cap.
    #[error("over the cap on {0}")]
    Cap(&'static str),
}

struct Job {
    statement: String,
    answer: SyncSender<Result<Reading, NotRead>>,
}

/// Threads with large stacks on which a reader runs.
#[derive(Debug)]
pub(super) struct Readers {
    jobs: SyncSender<Job>,
    patience: Duration,
}

/// `sqlparser` uses up to a few hundred KiB per level in debug builds.
const STACK: usize = 64 << 20;
const THREADS: usize = 2;
/// More waiting statements than this are refused at once rather than queued.
const WAITING: usize = 64;

impl Readers {
    /// Starts the threads. They end when this is dropped.
    pub(super) fn start(reader: Arc<dyn Reader>, patience: Duration) -> std::io::Result<Self> {
        let (jobs, queue) = sync_channel::<Job>(WAITING);
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..THREADS {
            let (reader, queue) = (Arc::clone(&reader), Arc::clone(&queue));
            std::thread::Builder::new()
                .name(format!("gate-reader-{number}"))
                .stack_size(STACK)
                .spawn(move || serve(&*reader, &queue))?;
        }
        Ok(Self { jobs, patience })
    }

    /// Asks for the names of a statement; waits no longer than the patience.
    pub(super) fn ask(&self, statement: String) -> Result<Reading, NotRead> {
        let (answer, answered) = sync_channel(1);
        self.jobs.try_send(Job { statement, answer }).map_err(|_| NotRead::Busy)?;
        answered.recv_timeout(self.patience).map_err(|_| NotRead::Busy)?
    }
}

fn serve(reader: &dyn Reader, queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = queue.lock().recv();
        let Ok(Job { statement, answer }) = job else { return };
        let read = std::panic::AssertUnwindSafe(|| reader.read(&statement));
        let result = std::panic::catch_unwind(read).unwrap_or(Err(NotRead::Panicked));
        // Nobody waits any more: fine.
        let _ = answer.send(result);
    }
}
