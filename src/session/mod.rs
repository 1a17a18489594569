//! A session: one client connection, one server connection, for its whole life.
//!
//! Owns: login, the relay, cancellation, connection limits, what a client is told when it ends.
//! May use: `wire` and `gate`. Never here: state, branches' processes, HTTP.

mod authority;

pub use authority::{Authority, Backend, BackendAddress, Grant, LeaseEnd, ReachError};
