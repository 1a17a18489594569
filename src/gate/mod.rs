//! The gate decides on every statement: allow or deny, with the rule that decided.
//!
//! Owns: reading SQL text, its classes and facts, policies, the verdict cache.
//! May use: nothing above it. Never here: sockets, leases, state, clocks.

mod capability;

pub use capability::{Capabilities, Capability, UnknownCapability};
