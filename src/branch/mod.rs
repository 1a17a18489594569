//! Branches: snapshots, copy-on-write clones of them, and the servers that run on these.
//!
//! May use `state` and `error`. Owns every file under the data directory's `branches`,
//! `snapshots`, `trash` and `s`, and every server process. Never here: a client's bytes, a
//! lease's secret, a decision on a statement. A server is never reachable but through its unix
//! socket, and nothing outside changes before the state says that it will.

pub mod account;
pub mod clone;
pub mod config;
pub mod files;
pub mod pg;
pub mod pidfile;
pub mod process;
pub mod server;
