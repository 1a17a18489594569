//! The evidence: the hash-chained log of everything a session did, and the plans the server ran.
//!
//! Owns: the log's files, its chain and signatures, redaction, reading and verification.
//! May use: `wire`, `error`. Never here: decisions on statements, sockets, leases' secrets.
//!
//! Records are appended before what they announce happens and completed afterwards
//! ([`SessionLog`]); readers put the two together again ([`Reader`]). `docs/evidence.md` describes
//! the format, `docs/evidence.schema.json` is its schema.

/// The name of the log's directory in the data directory.
pub const DIRECTORY: &str = "evidence";

mod chain;
mod encode;
mod error;
mod event;
mod head;
mod index;
mod join;
mod keeper;
mod key;
mod log;
mod pack;
mod queue;
mod read;
mod recover;
mod redact;
mod scan;
mod segment;
mod session;
mod settings;
mod shape;
mod statement;
mod tags;
mod ticker;
mod timeline;
mod verify;
mod writer;

pub use error::{EvidenceError, LogError};
pub use event::{Event, EventCode};
pub use head::Head;
pub use join::LogEvent;
pub use key::PublicKey;
pub use log::{Evidence, Figures};
pub use read::{Filter, Follow, Reader};
pub use redact::Rule;
pub use session::{SessionContext, SessionLog, SessionStart, StatementId};
pub use settings::{Durability, Retention, Settings};
pub use statement::{
    Completion, Facts, Outcome, Parameter, Protocol, StatementKind, StatementText,
};
pub use tags::{SessionTag, of_set};
pub use timeline::RunSummary;
pub use verify::{Finding, Range, Reason, Report, verify};
