//! What the tests share: real servers in directories that go away.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(unreachable_pub, reason = "a module of test binaries, not of a library")]

pub mod cluster;
pub mod mount;
pub mod world;
