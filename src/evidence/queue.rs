//! Records on their way to the log, and those who wait for them.

use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

use super::EvidenceError;

/// Bodies of records that are not sealed yet, in order.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    end: usize,
    lazy: bool,
}

/// Room that an idle batch keeps.
const KEPT: usize = 256 << 10;

impl Batch {
    /// Adds a record. A `lazy` one tells what already happened: it is kept when it cannot be
    /// written now. Others are given up then, for what they announce must not happen.
    pub fn push(&mut self, lazy: bool, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.entries.push(Entry { end: self.bytes.len(), lazy });
    }

    /// Moves all of `other` to the end.
    pub fn append(&mut self, other: &mut Self) {
        let base = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.entries.extend(other.entries.iter().map(|e| Entry { end: e.end + base, ..*e }));
        other.clear();
    }

    /// Puts the lazy records of `other` before everything; the rest of `other` is given up.
    /// Returns how many were given up.
    pub fn take_back(&mut self, other: &mut Self) -> u64 {
        let mut kept = Self::default();
        let mut given_up = 0;
        for (body, lazy) in other.iter() {
            if lazy {
                kept.push(true, |bytes| bytes.extend_from_slice(body));
            } else {
                given_up += 1;
            }
        }
        other.clear();
        if !kept.is_empty() {
            kept.append(self);
            *self = kept;
        }
        given_up
    }

    /// The bodies, and whether each is lazy.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let mut start = 0;
        self.entries.iter().map(move |entry| {
            let body = &self.bytes[start..entry.end];
            start = entry.end;
            (body, entry.lazy)
        })
    }

    /// Is there nothing?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all bodies.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Gives everything up, and memory that only a rare long record needed.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        self.entries.clear();
        self.entries.shrink_to(KEPT / size_of::<Entry>());
    }
}

/// What is waiting for the next write.
#[derive(Debug, Default)]
pub struct Queue {
    /// The records.
    pub batch: Batch,
    /// Whoever must hear how the write went.
    pub waiters: Vec<Arc<Slot>>,
    /// Somebody writes at this moment and will look here again.
    pub busy: bool,
    /// The thread sleeps until it is woken.
    pub asleep: bool,
    /// Nothing is taken any more.
    pub closed: bool,
}

/// One waiter's place; each session has one and uses it again and again.
#[derive(Debug, Default)]
pub struct Slot(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Waiting(Waker),
    Done(Result<(), EvidenceError>),
}

impl Slot {
    /// Begins to wait.
    pub fn wait(&self, waker: &Waker) {
        *self.0.lock() = State::Waiting(waker.clone());
    }

    /// How did it go?
    pub fn poll(&self, waker: &Waker) -> Poll<Result<(), EvidenceError>> {
        let mut state = self.0.lock();
        match std::mem::take(&mut *state) {
            State::Idle => Poll::Ready(Ok(())),
            State::Done(result) => Poll::Ready(result),
            State::Waiting(known) => {
                let waker = if known.will_wake(waker) { known } else { waker.clone() };
                *state = State::Waiting(waker);
                Poll::Pending
            }
        }
    }

    /// Tells the waiter.
    pub fn finish(&self, result: Result<(), EvidenceError>) {
        let before = std::mem::replace(&mut *self.0.lock(), State::Done(result));
        if let State::Waiting(waker) = before {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(records: &[(&str, bool)]) -> Batch {
        let mut batch = Batch::default();
        for (body, lazy) in records {
            batch.push(*lazy, |bytes| bytes.extend_from_slice(body.as_bytes()));
        }
        batch
    }

    fn bodies(batch: &Batch) -> Vec<&str> {
        batch.iter().map(|(body, _)| std::str::from_utf8(body).unwrap()).collect()
    }

    #[test]
    fn batches_keep_their_order() {
        let mut first = batch(&[("a", false), ("bc", true)]);
        first.append(&mut batch(&[("d", false)]));
        assert_eq!(bodies(&first), ["a", "bc", "d"]);
    }

    #[test]
    fn what_happened_is_kept_and_what_was_announced_is_given_up() {
        let mut failed = batch(&[("intent", false), ("done", true), ("other", false)]);
        let mut queue = batch(&[("later", false)]);
        assert_eq!(queue.take_back(&mut failed), 2);
        assert_eq!(bodies(&queue), ["done", "later"]);
        assert!(failed.is_empty());
    }
}
