//! The one who writes: the newest segment, the chain's end, rotation.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, SystemTime};

use super::chain::{Chain, Hash};
use super::keeper::Task;
use super::key::{Purpose, SigningKey};
use super::queue::{Batch, Slot};
use super::segment::{Segment, head_body};
use super::{EvidenceError, encode};

/// Room that the buffer of sealed lines keeps.
const KEPT: usize = 1 << 20;

/// The newest segment and the chain's end. Both move only when a write succeeded as a whole.
#[derive(Debug)]
pub struct Writer {
    /// What is being written; swapped with the queue's.
    pub batch: Batch,
    /// Who waits for it.
    pub waiters: Vec<Arc<Slot>>,
    /// Why nothing may be written until a sync succeeds.
    pub unsafe_since: Option<EvidenceError>,
    dir: PathBuf,
    key: Arc<SigningKey>,
    keeper: Sender<Task>,
    segment_bytes: u64,
    segment_age: Duration,
    file: Arc<File>,
    segment: u64,
    born: SystemTime,
    /// The good bytes of the file.
    length: u64,
    /// Records in the segment besides its head.
    used: bool,
    /// Bytes of a failed write may lie behind `length`.
    torn: bool,
    chain: Chain,
    out: Vec<u8>,
    refused: u64,
    unsynced: Option<Unsynced>,
}

/// What a sync must make durable.
#[derive(Debug, Default)]
pub struct Unsynced {
    /// Segments that were left since the last sync, and the current one.
    pub files: Vec<Arc<File>>,
    /// A segment was made: the directory must be synced too.
    pub directory: bool,
    /// Since when something is unsynced.
    pub since: Option<SystemTime>,
}

/// The log's end, as a sync finds it.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// The last record.
    pub seq: u64,
    /// Its hash.
    pub hash: Hash,
    /// Its segment.
    pub segment: u64,
}

/// How a writer begins; what recovery found.
#[derive(Debug)]
pub struct Begin {
    /// The chain's end.
    pub chain: Chain,
    /// The newest segment and the good bytes in it, if it is to be written on.
    pub open: Option<(u64, u64)>,
    /// The newest segment's number, 0 for a new log.
    pub newest: u64,
}

impl Writer {
    /// Opens the newest segment, or begins the next.
    pub fn open(
        dir: PathBuf,
        key: Arc<SigningKey>,
        keeper: Sender<Task>,
        (segment_bytes, segment_age): (u64, Duration),
        begin: &Begin,
    ) -> std::io::Result<Self> {
        let mut chain = begin.chain;
        let (file, segment, length, born) = if let Some((number, length)) = begin.open {
            let path = Segment::new(&dir, number).plain();
            let file = OpenOptions::new().write(true).open(&path)?;
            let born = file.metadata()?.created().unwrap_or_else(|_| SystemTime::now());
            (file, number, length, born)
        } else {
            let number = begin.newest + 1;
            let (file, length) = new_segment(&dir, number, &key, &mut chain)?;
            (file, number, length, SystemTime::now())
        };
        let fresh = begin.open.is_none();
        Ok(Self {
            batch: Batch::default(),
            waiters: Vec::new(),
            unsafe_since: None,
            dir,
            key,
            keeper,
            segment_bytes,
            segment_age,
            file: Arc::new(file),
            segment,
            born,
            length,
            used: !fresh,
            torn: false,
            chain,
            out: Vec::new(),
            refused: 0,
            unsynced: fresh.then(|| Unsynced { directory: true, ..Unsynced::default() }),
        })
    }

    /// Writes the batch: all of it, or nothing of it counts.
    pub fn write(&mut self) -> Result<(), EvidenceError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        if let Some(error) = &self.unsafe_since {
            self.refused += 1;
            return Err(error.clone());
        }
        let result = self.try_write().map_err(EvidenceError::of_write);
        self.refused = if result.is_ok() { 0 } else { self.refused + 1 };
        result
    }

    fn try_write(&mut self) -> std::io::Result<()> {
        self.mend()?;
        if self.length >= self.segment_bytes || (self.used && self.is_old()) {
            self.rotate()?;
        }
        let mut chain = self.chain;
        self.out.clear();
        if self.refused > 0 {
            let mut body = Vec::new();
            encode::begin(&mut body, encode::micros(SystemTime::now()), "log.resumed");
            encode::number(&mut body, "postern.log.refused", self.refused);
            chain.seal(&body, &mut self.out);
        }
        for (body, _) in self.batch.iter() {
            chain.seal(body, &mut self.out);
        }
        let written = self.file.write_all_at(&self.out, self.length);
        let length = self.out.len() as u64;
        self.out.clear();
        self.out.shrink_to(KEPT);
        if written.is_err() {
            self.torn = true;
            // Tried again before the next write; half a group must not be read as a record.
            let _ = self.mend();
            return written;
        }
        self.length += length;
        self.chain = chain;
        self.used = true;
        self.touched();
        Ok(())
    }

    /// Cuts off what a failed write left.
    fn mend(&mut self) -> std::io::Result<()> {
        if self.torn {
            self.file.set_len(self.length)?;
            self.torn = false;
        }
        Ok(())
    }

    fn is_old(&self) -> bool {
        self.born.elapsed().is_ok_and(|age| age >= self.segment_age)
    }

    fn touched(&mut self) {
        let unsynced = self.unsynced.get_or_insert_default();
        if unsynced.since.is_none() {
            unsynced.since = Some(SystemTime::now());
        }
    }

    /// Begins the next segment and gives the full one to the keeper.
    pub fn rotate(&mut self) -> std::io::Result<()> {
        let mut chain = self.chain;
        let (file, length) = new_segment(&self.dir, self.segment + 1, &self.key, &mut chain)?;
        let file = std::mem::replace(&mut self.file, Arc::new(file));
        self.segment += 1;
        self.born = SystemTime::now();
        self.length = length;
        self.used = false;
        self.torn = false;
        self.chain = chain;
        self.touched();
        let unsynced = self.unsynced.get_or_insert_default();
        unsynced.files.push(file);
        unsynced.directory = true;
        // The keeper is gone only when the log is being closed.
        let _ = self.keeper.send(Task::Full);
        Ok(())
    }

    /// What must be synced, if anything, so that all up to the end is durable.
    pub fn take_unsynced(&mut self) -> Option<Unsynced> {
        let mut unsynced = self.unsynced.take()?;
        if !unsynced.files.iter().any(|file| Arc::ptr_eq(file, &self.file)) {
            unsynced.files.push(Arc::clone(&self.file));
        }
        Some(unsynced)
    }

    /// A sync failed: all of it must be done again.
    pub fn put_back(&mut self, mut failed: Unsynced) {
        if let Some(newer) = self.unsynced.take() {
            failed.files.extend(newer.files);
            failed.directory |= newer.directory;
        }
        self.unsynced = Some(failed);
    }

    /// The last record.
    pub fn end(&self) -> End {
        End { seq: self.chain.next - 1, hash: self.chain.prev, segment: self.segment }
    }

    /// Since when something is not durable.
    pub fn unsynced_since(&self) -> Option<SystemTime> {
        self.unsynced.as_ref()?.since
    }
}

/// Makes a segment with its signed head. `chain` moves only when that succeeded.
fn new_segment(
    dir: &Path,
    number: u64,
    key: &SigningKey,
    chain: &mut Chain,
) -> std::io::Result<(File, u64)> {
    let path = Segment::new(dir, number).plain();
    let mut next = *chain;
    let mut line = Vec::new();
    let body = head_body(number, key.public(), encode::micros(SystemTime::now()));
    next.seal_signed(&body, &mut line, |bytes| key.sign(Purpose::Segment, bytes));
    // What an earlier attempt left holds no record.
    let file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    if let Err(error) = file.write_all_at(&line, 0) {
        let _ = fs::remove_file(&path);
        return Err(error);
    }
    *chain = next;
    Ok((file, line.len() as u64))
}
