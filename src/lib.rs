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
pub mod evidence;
pub mod gate;
pub mod lease;
pub mod meter;
pub mod serve;
pub mod service;
pub mod session;
pub mod state;
pub mod wire;
