//! A session: one client connection, one server connection, for its whole life.
//!
//! Owns: login, the relay, cancellation, connection limits, what a client is told when it ends.
//! May use: `wire` and `gate`. Never here: state, branches' processes, HTTP.

mod authority;
mod backend;
mod control;
mod denial;
mod guard;
mod ledger;
mod listener;
mod login;
mod pipe;
mod registry;
mod relay;

pub use authority::{Authority, Backend, BackendAddress, Grant, LeaseEnd, Life, ReachError};
pub use control::Activity;
pub use guard::{Decision, Guard, Guards, MAX_NOTICE, Open, Opening, Reads, Reply, START, Sent};
pub use listener::{Proxy, ProxyError, ProxySettings};
pub use registry::SessionInfo;
