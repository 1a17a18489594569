//! How a log is kept.

use std::time::Duration;

use super::redact::Rule;

/// When a record counts as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// When the kernel has it: it survives the end of postern, however sudden. What a power loss
    /// takes is at most [`Settings::sync_every`].
    #[default]
    Process,
    /// When the disk has it: each group of records waits for its fsync.
    Power,
}

/// How long segments are kept. The newest is always kept; what is removed is told in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// Segments whose last record is older than this go.
    pub age: Option<Duration>,
    /// The oldest segments go while all together, packed, take more bytes than this.
    pub bytes: Option<u64>,
}

/// How a log is kept.
#[derive(Debug, Clone)]
pub struct Settings {
    /// When a record counts as written.
    pub durability: Durability,
    /// A segment that has as many bytes is followed by a new one.
    pub segment_bytes: u64,
    /// A segment that is older is followed by a new one.
    pub segment_age: Duration,
    /// How long segments are kept.
    pub retention: Retention,
    /// Are full segments packed with zstd?
    pub pack: bool,
    /// How long a completion may wait for the next write.
    pub flush_every: Duration,
    /// How long written records may wait for an fsync and a signed head.
    pub sync_every: Duration,
    /// What is replaced by a keyed hash.
    pub redaction: Vec<Rule>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            segment_bytes: 64 << 20,
            segment_age: Duration::from_hours(24),
            retention: Retention::default(),
            pack: true,
            flush_every: Duration::from_millis(25),
            sync_every: Duration::from_millis(100),
            redaction: Vec::new(),
        }
    }
}
