//! What the tests share: real servers in directories that go away.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper that fails fails its test")]
#![allow(missing_docs, clippy::missing_panics_doc, reason = "read by those who write tests")]

pub mod cluster;
pub mod direct;
pub mod mount;
pub mod served;
pub mod world;
