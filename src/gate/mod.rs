//! The gate decides on every statement: allow or deny, with the rule that decided.
//!
//! Owns: reading SQL text, its classes and facts, policies, the verdict cache.
//! May use: nothing above it. Never here: sockets, leases, state, clocks.
//!
//! A text goes `lexer` → `floor` (classes and facts; the lower bound) → `names` with a `reader`
//! (only where rules speak of names) → `policy` → `verdict`, and the verdict into the `cache`.

mod cache;
mod capability;
mod caps;
#[allow(
    clippy::needless_pass_by_value,
    clippy::nonminimal_bool,
    reason = "the policy checks read as their rules do"
)]
pub mod check;
mod class;
mod denial;
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
#[expect(clippy::module_inception, reason = "the type the room is named for")]
mod gate;
mod kind;
mod lexer;
mod names;
pub mod policy;
#[allow(
    clippy::needless_pass_by_value,
    clippy::nonminimal_bool,
    reason = "the policy checks read as their rules do"
)]
mod reader;
mod sql;
mod startup;
mod verdict;

pub use capability::{Capabilities, Capability, UnknownCapability};
pub use caps::Caps;
pub use class::{Class, Classes, UnknownClass};
pub use denial::Denial;
pub use facts::{Facts, Name, Piece};
pub use floor::{Encoding, Unreadable, read};
pub use gate::{Gate, GateSettings, Subject};
pub use kind::Kind;
pub use lexer::LexError;
pub use policy::{PolicyError, PolicySet, RuleRef};
pub use reader::{NotRead, Reader, Reading};
pub use sql::SqlParser;
pub use startup::{Watched, watch};
pub use verdict::Verdict;

/// The gate's lists of names, for whoever holds its readings against another parser's.
#[doc(hidden)]
pub mod lists {
    pub use super::floor::lists::*;
}
