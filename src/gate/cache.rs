//! Verdicts by exact text.
//!
//! Sharded, so that sessions do not wait for each other, and bounded by bytes. A verdict is kept
//! for a text under a scope: capabilities, policies and their version. The whole text is compared,
//! never a fingerprint.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use parking_lot::Mutex;

use super::verdict::Verdict;

const SHARDS: usize = 16;

/// What an entry costs beside its text and names, in bytes: the verdict, its facts, the tables.
const OVERHEAD: usize = 768;

#[derive(Debug)]
pub(super) struct Cache {
    shards: Vec<Mutex<Shard>>,
    /// Seeded per process, so that no client can aim at one bucket.
    hasher: RandomState,
    /// The most bytes of one shard.
    limit: usize,
}

#[derive(Debug, Default)]
struct Shard {
    entries: HashMap<u64, Entry>,
    /// Keys in the order they came; one that was used since gets another round.
    queue: VecDeque<u64>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    scope: u64,
    text: Box<[u8]>,
    verdict: Arc<Verdict>,
    used: bool,
    cost: usize,
}

impl Cache {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            limit: bytes / SHARDS,
        }
    }

    fn shard(&self, scope: u64, text: &[u8]) -> (u64, Option<&Mutex<Shard>>) {
        let key = self.hasher.hash_one((scope, text));
        // The map uses the low bits, so the shard is chosen by others.
        let index = usize::try_from(key >> 48).unwrap_or(0) % SHARDS;
        (key, self.shards.get(index))
    }

    pub(super) fn find(&self, scope: u64, text: &[u8]) -> Option<Arc<Verdict>> {
        let (key, shard) = self.shard(scope, text);
        let mut shard = shard?.lock();
        let entry = shard.entries.get_mut(&key)?;
        if entry.scope != scope || *entry.text != *text {
            return None;
        }
        entry.used = true;
        Some(Arc::clone(&entry.verdict))
    }

    pub(super) fn keep(&self, scope: u64, text: &[u8], verdict: &Arc<Verdict>) {
        let cost = OVERHEAD + text.len() + verdict.weight();
        if cost > self.limit / 8 {
            return;
        }
        let (key, shard) = self.shard(scope, text);
        let Some(shard) = shard else { return };
        let mut shard = shard.lock();
        let entry =
            Entry { scope, text: text.into(), verdict: Arc::clone(verdict), used: false, cost };
        match shard.entries.insert(key, entry) {
            Some(old) => shard.bytes = shard.bytes.saturating_sub(old.cost),
            None => shard.queue.push_back(key),
        }
        shard.bytes += cost;
        while shard.bytes > self.limit {
            let Some(oldest) = shard.queue.pop_front() else { break };
            match shard.entries.get_mut(&oldest) {
                Some(entry) if entry.used => {
                    entry.used = false;
                    shard.queue.push_back(oldest);
                }
                _ => {
                    if let Some(old) = shard.entries.remove(&oldest) {
                        shard.bytes = shard.bytes.saturating_sub(old.cost);
                    }
                }
            }
        }
    }

    /// Bytes held, for metrics.
    pub(super) fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().bytes).sum()
    }
}
