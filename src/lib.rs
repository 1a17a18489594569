//! Postern: the guarded side gate of a PostgreSQL.
//!
//! The way of a statement is the way through these modules: [`wire`] → [`session`] → [`gate`] →
//! [`evidence`] → the branch's server; [`meter`] counts what comes back. `ARCHITECTURE.md` tells
//! what each room owns and what it may import.

pub mod admin;
pub mod branch;
pub mod cli;
pub mod config;
pub mod error;
#[allow(
    dead_code,
    clippy::borrow_interior_mutable_const,
    clippy::borrow_as_ptr,
    clippy::match_same_arms,
    clippy::needless_for_each,
    clippy::struct_excessive_bools,
    const_item_mutation,
    reason = "sessions do not write to it yet"
)]
pub mod evidence;
pub mod gate;
pub mod lease;
pub mod meter;
pub mod schema;
pub mod serve;
pub mod service;
pub mod session;
pub mod state;
pub mod wire;
