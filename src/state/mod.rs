//! The state: what snapshots, branches and leases there are, and what was about to be done.
//!
//! SQLite in the data directory, one writer thread, every commit synced. A change of the outside
//! world is written here as intended before it is made and as done after; whoever starts next
//! finishes or undoes what was left in between. A leaf: it knows no other room, holds no secret,
//! and nothing here touches a process or a file other than its own.

mod data_dir;
mod error;
mod json;
mod schema;
mod writer;

pub mod branch;
pub mod lease;
pub mod outbox;
pub mod snapshot;

pub use data_dir::DataDir;
pub use error::StateError;
pub use writer::State;

/// The present as Unix milliseconds, the unit of every time in the state.
pub fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}
