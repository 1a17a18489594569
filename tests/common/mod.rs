//! What the tests share: real servers in directories that go away.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod cluster;
pub mod mount;
pub mod world;
