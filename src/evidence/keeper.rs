//! The thread that looks after full segments: packs them and removes old ones.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use super::event::{Event, EventCode};
use super::index::Index;
use super::log::Shared;
use super::segment::Segment;
use super::{LogError, pack};

/// How often the age of segments is looked at.
const EVERY: Duration = Duration::from_mins(1);

/// What the keeper is told.
#[derive(Debug)]
pub enum Task {
    /// A segment is full.
    Full,
    /// The log is closed.
    Stop,
}

/// Starts the thread.
pub fn spawn(shared: Arc<Shared>, tasks: Receiver<Task>) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("evidence-keeper".into()).spawn(move || run(&shared, &tasks))
}

fn run(shared: &Shared, tasks: &Receiver<Task>) {
    loop {
        if let Err(error) = keep(shared) {
            // Tried again; nothing is lost meanwhile but space.
            tracing::warn!(%error, "full segments of the evidence cannot be looked after");
        }
        match tasks.recv_timeout(EVERY) {
            Ok(Task::Full) | Err(RecvTimeoutError::Timeout) => {}
            Ok(Task::Stop) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn keep(shared: &Shared) -> Result<(), LogError> {
    let newest = shared.writer.lock().end().segment;
    let full: Vec<_> =
        Segment::list(&shared.dir)?.into_iter().filter(|s| s.number < newest).collect();
    if shared.settings.pack {
        for segment in full.iter().filter(|segment| segment.plain().exists()) {
            // What is not durable yet may still be needed as it is.
            shared.sync()?;
            pack::pack(segment)?;
        }
    }
    Index::keep(&shared.dir)?;
    retain(shared, full)
}

/// Removes what is too old or too much, oldest first, after the log says so.
fn retain(shared: &Shared, full: Vec<Segment>) -> Result<(), LogError> {
    let retention = shared.settings.retention;
    let mut total: u64 = Segment::list(&shared.dir)?.iter().map(Segment::disk_bytes).sum();
    let mut old = Vec::new();
    for segment in full {
        let too_old =
            retention.age.is_some_and(|age| last_change(&segment).is_some_and(|at| at > age));
        let too_much = retention.bytes.is_some_and(|bytes| total > bytes);
        if !too_old && !too_much {
            break;
        }
        total = total.saturating_sub(segment.disk_bytes());
        old.push(segment);
    }
    let Some(last) = old.last() else { return Ok(()) };
    let event =
        Event::new(EventCode::LogRetention).number("postern.log.removed_through", last.number);
    shared.record_blocking(&event)?;
    shared.sync()?;
    for segment in &old {
        tracing::info!(segment = segment.number, "old evidence is removed");
        segment.remove()?;
    }
    Ok(())
}

/// How long ago the segment was written to; packing keeps that time.
fn last_change(segment: &Segment) -> Option<Duration> {
    let path = if segment.plain().exists() { segment.plain() } else { segment.packed() };
    SystemTime::now().duration_since(fs::metadata(path).ok()?.modified().ok()?).ok()
}
