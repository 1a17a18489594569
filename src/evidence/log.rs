//! The log: records come in from all sessions and go out in groups.
//!
//! Whoever finds nobody writing writes, for itself and for all who come meanwhile; the next group
//! is what came during the write. So one session pays one system call and no task switch, and many
//! share one. A thread of its own writes what nobody waits for and makes everything durable.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::task::{Poll, Wake, Waker};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};

use super::event::Event;
use super::head::Head;
use super::keeper::{self, Task};
use super::key::{PublicKey, SigningKey};
use super::queue::{Batch, Queue, Slot};
use super::recover::{State, recover};
use super::redact::Redactor;
use super::writer::{End, Unsynced, Writer};
use super::{Durability, EvidenceError, LogError, Settings, encode, ticker};

/// Groups that one session writes for others before it hands over.
const ROUNDS: usize = 8;

/// The evidence log. Clones are the same log; it is closed when the last is gone or by
/// [`Evidence::close`].
#[derive(Debug, Clone)]
pub struct Evidence(Arc<Open>);

#[derive(Debug)]
struct Open {
    shared: Arc<Shared>,
    threads: Mutex<Option<Threads>>,
    _lock: File,
}

#[derive(Debug)]
struct Threads {
    ticker: JoinHandle<()>,
    keeper: JoinHandle<()>,
    tasks: mpsc::Sender<Task>,
}

/// What sessions and threads share.
#[derive(Debug)]
pub struct Shared {
    /// Where the log lies.
    pub dir: PathBuf,
    /// How it is kept.
    pub settings: Settings,
    /// What signs it.
    pub key: Arc<SigningKey>,
    /// What is hidden in it.
    pub redactor: Redactor,
    /// Records on their way.
    pub queue: Mutex<Queue>,
    /// Who writes them. Locked only by whoever made the queue busy, and for moments by a sync.
    pub writer: Mutex<Writer>,
    /// The last write failed.
    pub unwell: AtomicBool,
    /// Makes sessions' ids unique over restarts: the number of the record that opened the log.
    pub opened_at: u64,
    thread: Mutex<Option<Thread>>,
    refusals: AtomicU64,
    /// The record that the head in the directory is about.
    signed: Mutex<u64>,
}

/// Figures for the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Records in the log.
    pub records: u64,
    /// Groups of records that could not be written.
    pub refusals: u64,
    /// How long the oldest record that is not durable has waited.
    pub lag: Duration,
}

impl Evidence {
    /// Opens the log in `dir`, or begins one. What an earlier process left is made whole first and
    /// what was found is recorded.
    pub fn open(dir: &Path, settings: Settings) -> Result<Self, LogError> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(LogError::file(dir))?;
        let dir = dir.canonicalize().map_err(LogError::file(dir))?;
        let lock = lock(&dir)?;
        let found = recover(&dir)?;
        let key = Arc::new(SigningKey::open(&dir, found.state.is_none())?);
        let redactor = Redactor::open(&dir, &settings.redaction)?;
        let (tasks, inbox) = mpsc::channel();
        let rotation = (settings.segment_bytes, settings.segment_age);
        let writer =
            Writer::open(dir.clone(), Arc::clone(&key), tasks.clone(), rotation, &found.begin)
                .map_err(LogError::file(&dir))?;
        let opened_at = writer.end().seq + 1;
        let shared = Arc::new(Shared {
            dir,
            settings,
            key,
            redactor,
            queue: Mutex::default(),
            writer: Mutex::new(writer),
            unwell: AtomicBool::new(false),
            opened_at,
            thread: Mutex::default(),
            refusals: AtomicU64::new(0),
            signed: Mutex::new(0),
        });
        let state = found.state.unwrap_or(State { clean: true, ..State::default() });
        if !state.clean {
            tracing::warn!(?state, "the evidence log was not closed in order");
        }
        let now = encode::micros(SystemTime::now());
        let body = state.body(now, env!("CARGO_PKG_VERSION"));
        shared.queue.lock().batch.push(false, |bytes| bytes.extend_from_slice(&body));
        shared.write_pending()?;
        shared.sync().map_err(LogError::Append)?;

        let ticker = ticker::spawn(Arc::clone(&shared)).map_err(LogError::file(&shared.dir))?;
        *shared.thread.lock() = Some(ticker.thread().clone());
        let keeper =
            keeper::spawn(Arc::clone(&shared), inbox).map_err(LogError::file(&shared.dir))?;
        let threads = Mutex::new(Some(Threads { ticker, keeper, tasks }));
        Ok(Self(Arc::new(Open { shared, threads, _lock: lock })))
    }

    /// Where the log lies.
    pub fn dir(&self) -> &Path {
        &self.0.shared.dir
    }

    /// What checks its signatures.
    pub fn public_key(&self) -> PublicKey {
        self.0.shared.key.public()
    }

    /// Records what happened outside of a session's statements; returns when it is written. When
    /// this future is dropped the record may still be written.
    pub async fn record(&self, event: Event) -> Result<(), EvidenceError> {
        let mut batch = Batch::default();
        batch.push(false, |bytes| bytes.extend_from_slice(event.body()));
        let slot = Arc::new(Slot::default());
        let mut begun = false;
        std::future::poll_fn(|cx| {
            if begun {
                return slot.poll(cx.waker());
            }
            begun = true;
            self.0.shared.submit(&mut batch, &slot, cx.waker())
        })
        .await
    }

    /// The same for a thread that may block.
    pub fn record_blocking(&self, event: &Event) -> Result<(), EvidenceError> {
        self.0.shared.record_blocking(event)
    }

    /// Figures for the metrics.
    pub fn figures(&self) -> Figures {
        let shared = &self.0.shared;
        let (records, since) = {
            let writer = shared.writer.lock();
            (writer.end().seq, writer.unsynced_since())
        };
        Figures {
            records,
            refusals: shared.refusals.load(Ordering::Relaxed),
            lag: since.and_then(|since| since.elapsed().ok()).unwrap_or_default(),
        }
    }

    /// Makes everything durable and signs the log's end. Blocks.
    pub fn sync(&self) -> Result<(), EvidenceError> {
        self.0.shared.write_pending()?;
        self.0.shared.sync()
    }

    /// Closes the log: nothing is taken any more, what is pending is written, all is made durable.
    /// Blocks. Sessions that come later get [`EvidenceError::Closed`].
    pub fn close(&self) {
        self.0.close();
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }
}

impl Open {
    fn close(&self) {
        let Some(threads) = self.threads.lock().take() else { return };
        {
            let mut queue = self.shared.queue.lock();
            let now = encode::micros(SystemTime::now());
            queue.batch.push(true, |bytes| encode::begin(bytes, now, "log.closed"));
            queue.closed = true;
        }
        threads.ticker.thread().unpark();
        // The keeper is gone only if it panicked; then there is nobody to tell.
        let _ = threads.tasks.send(Task::Stop);
        for thread in [threads.ticker, threads.keeper] {
            if thread.join().is_err() {
                tracing::error!("a thread of the evidence log panicked");
            }
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Hands a batch over and says how it went, or that `slot` will.
    pub fn submit(
        &self,
        batch: &mut Batch,
        slot: &Arc<Slot>,
        waker: &Waker,
    ) -> Poll<Result<(), EvidenceError>> {
        let mut queue = self.queue.lock();
        if queue.closed {
            batch.clear();
            return Poll::Ready(Err(EvidenceError::Closed));
        }
        queue.batch.append(batch);
        let power = self.settings.durability == Durability::Power;
        if power || queue.busy {
            slot.wait(waker);
            queue.waiters.push(Arc::clone(slot));
            queue.asleep = false;
            drop(queue);
            if power {
                self.wake();
            }
            return Poll::Pending;
        }
        queue.busy = true;
        self.stir(&mut queue);
        drop(queue);
        Poll::Ready(self.lead())
    }

    /// Adds a record that nobody waits for; it is written with the next group, or by the thread
    /// within [`Settings::flush_every`].
    pub fn add_lazy(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut queue = self.queue.lock();
        if queue.closed {
            return;
        }
        queue.batch.push(true, write);
        self.stir(&mut queue);
    }

    /// Wakes the thread if it sleeps for want of work.
    fn stir(&self, queue: &mut Queue) {
        if std::mem::take(&mut queue.asleep) {
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(thread) = &*self.thread.lock() {
            thread.unpark();
        }
    }

    /// Writes group after group until nobody waits, or for some rounds. The caller has made the
    /// queue busy. Returns how the first group went.
    fn lead(&self) -> Result<(), EvidenceError> {
        let mut writer = self.writer.lock();
        let mut first = None;
        for round in 1.. {
            {
                let mut queue = self.queue.lock();
                std::mem::swap(&mut queue.batch, &mut writer.batch);
                std::mem::swap(&mut queue.waiters, &mut writer.waiters);
            }
            let mut result = writer.write();
            if result.is_ok() && self.settings.durability == Durability::Power {
                result = self.sync_with(&mut writer);
            }
            self.unwell.store(result.is_err(), Ordering::Relaxed);
            for slot in writer.waiters.drain(..) {
                slot.finish(result.clone());
            }
            let mut queue = self.queue.lock();
            if result.is_err() {
                self.refusals.fetch_add(1, Ordering::Relaxed);
                queue.batch.take_back(&mut writer.batch);
            } else {
                writer.batch.clear();
            }
            first.get_or_insert(result);
            if queue.waiters.is_empty() || round == ROUNDS {
                queue.busy = false;
                if !queue.waiters.is_empty() {
                    self.wake();
                }
                break;
            }
        }
        first.unwrap_or(Ok(()))
    }

    /// Writes what is pending, unless somebody is writing.
    pub fn write_pending(&self) -> Result<(), EvidenceError> {
        {
            let mut queue = self.queue.lock();
            if queue.busy || (queue.batch.is_empty() && queue.waiters.is_empty()) {
                return Ok(());
            }
            queue.busy = true;
        }
        self.lead()
    }

    /// Makes what is written durable and signs the end.
    pub fn sync(&self) -> Result<(), EvidenceError> {
        let (unsynced, end) = {
            let mut writer = self.writer.lock();
            (writer.take_unsynced(), writer.end())
        };
        // The lock is not held: others write on while the disk works.
        if let Some(unsynced) = unsynced
            && let Err(error) = unsynced.make_durable(&self.dir)
        {
            return Err(self.unsafe_now(&mut self.writer.lock(), unsynced, error));
        }
        if self.writer.lock().unsafe_since.take().is_some() {
            tracing::info!("the evidence log is durable again");
        }
        self.sign(end);
        Ok(())
    }

    /// The same while the writer is held: the group that was just written waits for it. The end is
    /// signed at the next tick.
    fn sync_with(&self, writer: &mut Writer) -> Result<(), EvidenceError> {
        let Some(unsynced) = writer.take_unsynced() else { return Ok(()) };
        match unsynced.make_durable(&self.dir) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.unsafe_now(writer, unsynced, error)),
        }
    }

    fn unsafe_now(&self, writer: &mut Writer, failed: Unsynced, error: io::Error) -> EvidenceError {
        let error = EvidenceError::Sync(Arc::new(error));
        tracing::error!(%error, "the evidence log is not durable; statements are refused");
        writer.put_back(failed);
        writer.unsafe_since = Some(error.clone());
        self.unwell.store(true, Ordering::Relaxed);
        error
    }

    fn sign(&self, end: End) {
        let mut signed = self.signed.lock();
        if end.seq <= *signed {
            return;
        }
        let now = encode::micros(SystemTime::now());
        let head = Head::sign(&self.key, end.seq, end.hash, end.segment, now);
        match head.write(&self.dir) {
            Ok(()) => *signed = end.seq,
            // The records are safe; only their end is not attested until the next sync.
            Err(error) => tracing::warn!(%error, "the evidence log's head cannot be written"),
        }
    }

    /// Records an event and waits until it is written.
    pub fn record_blocking(&self, event: &Event) -> Result<(), EvidenceError> {
        let mut batch = Batch::default();
        batch.push(false, |bytes| bytes.extend_from_slice(event.body()));
        let slot = Arc::new(Slot::default());
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut poll = self.submit(&mut batch, &slot, &waker);
        loop {
            match poll {
                Poll::Ready(result) => return result,
                Poll::Pending => std::thread::park(),
            }
            poll = slot.poll(&waker);
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn lock(dir: &Path) -> Result<File, LogError> {
    let path = dir.join("lock");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(LogError::file(&path))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| LogError::Locked(dir.to_owned()))?;
    // What interrupted work left; nobody else writes here now.
    for draft in ["head.json.new", "signing.key.new"] {
        let _ = fs::remove_file(dir.join(draft));
    }
    Ok(file)
}
