//! The gate decides on every statement: allow or deny, with the rule that decided.
//!
//! Owns: reading SQL text, its classes and facts, policies, the verdict cache.
//! May use: nothing above it. Never here: sockets, leases, state, clocks.

mod capability;
mod caps;
mod class;
mod facts;
#[allow(
    dead_code,
    clippy::too_many_lines,
    clippy::match_same_arms,
    clippy::struct_excessive_bools,
    clippy::option_option,
    clippy::needless_pass_by_value,
    clippy::nonminimal_bool,
    clippy::unnecessary_wraps,
    clippy::unused_self,
    reason = "the grammar's alternatives are listed one by one, as the manual lists them"
)]
mod floor;
mod kind;
mod lexer;

pub use capability::{Capabilities, Capability, UnknownCapability};
pub use caps::Caps;
pub use class::{Class, Classes, UnknownClass};
pub use facts::{Facts, Name, Piece};
pub use floor::{Encoding, Unreadable, read};
pub use kind::Kind;

/// The gate's lists of names, for whoever holds its readings against another parser's.
#[doc(hidden)]
pub mod lists {
    pub use super::floor::lists::*;
}
