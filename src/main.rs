//! The `postern` binary: everything is in the library.

fn main() {}
