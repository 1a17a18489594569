//! Branches: snapshots, copy-on-write clones of them, and the servers that run on these.
//!
//! May use `state` and `error`. Owns every file under the data directory's `branches`,
//! `snapshots`, `trash` and `s`, and every server process. Never here: a client's bytes, a
//! lease's secret, a decision on a statement. A server is never reachable but through its unix
//! socket, and nothing outside changes before the state says that it will.

pub mod account;
pub mod clone;
pub mod config;
pub mod engine;
pub mod failpoint;
pub mod files;
pub mod instance;
pub mod pg;
pub mod pidfile;
pub mod probe;
pub mod process;
pub mod server;
pub mod snapshot;

mod locked;
mod manager;
mod reconcile;

pub use engine::BranchError;
pub use manager::{BranchInfo, BranchSpec, Branches, Endpoint};

/// What every branch's id begins with; no other file in the data directory does.
pub const ID_PREFIX: &str = "br_";
