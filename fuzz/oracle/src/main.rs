//! Holds the gate against PostgreSQL's own parser.

// The rooms under test are compiled in from their sources: they need nothing above them, and the
// oracle then builds without the proxy's dependencies.
#[path = "../../../src/error.rs"]
#[allow(dead_code)]
pub mod error;
#[path = "../../../src/gate/mod.rs"]
#[allow(dead_code, unused_imports)]
pub mod gate;

fn main() {}
