//! The thread that writes what nobody waits for, and makes what is written durable.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::log::Shared;
use super::writer::Unsynced;
use super::{Durability, EvidenceError};

/// Quiet for so long, it sleeps until it is woken. Waking it costs a session a system call.
const QUIET: Duration = Duration::from_secs(1);

/// Starts the thread. It ends when the queue is closed.
pub fn spawn(shared: Arc<Shared>) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("evidence".into()).spawn(move || run(&shared))
}

fn run(shared: &Shared) {
    let settings = &shared.settings;
    let (mut synced, mut busy) = (Instant::now(), Instant::now());
    loop {
        let (closed, work) = {
            let mut queue = shared.queue.lock();
            let work = !queue.batch.is_empty() || !queue.waiters.is_empty();
            queue.asleep = !work && !queue.closed && busy.elapsed() > QUIET;
            (queue.closed, work)
        };
        if work || shared.writer.lock().unsynced_since().is_some() {
            busy = Instant::now();
            shared.queue.lock().asleep = false;
        }
        // An error is told to whoever waits, or the records are kept for the next try.
        let _ = shared.write_pending();
        if closed || synced.elapsed() >= settings.sync_every {
            synced = Instant::now();
            if shared.sync().is_err() {
                let _ = shared.leave_unsafe_segment();
            }
        }
        if closed {
            // Whoever was writing may have left something for us.
            let queue = shared.queue.lock();
            let done = !queue.busy && (queue.batch.is_empty() || shared.is_unwell());
            drop(queue);
            if done {
                let _ = shared.sync();
                return;
            }
            thread::yield_now();
            continue;
        }
        if shared.queue.lock().asleep {
            thread::park();
        } else if settings.durability == Durability::Power {
            thread::park_timeout(settings.sync_every.min(settings.flush_every));
        } else {
            thread::park_timeout(settings.flush_every);
        }
    }
}

impl Shared {
    fn is_unwell(&self) -> bool {
        self.unwell.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// After a failed sync the kernel may have dropped what it could not write, and would say that
    /// all is well the next time. What follows goes to a new file, and the log says so.
    fn leave_unsafe_segment(&self) -> Result<(), EvidenceError> {
        self.writer.lock().rotate().map_err(EvidenceError::of_write)
    }
}

impl Unsynced {
    /// fsync of all files, and of the directory if a segment was made.
    pub fn make_durable(&self, dir: &Path) -> io::Result<()> {
        for file in &self.files {
            file.sync_data()?;
        }
        if self.directory {
            std::fs::File::open(dir)?.sync_all()?;
        }
        Ok(())
    }
}
