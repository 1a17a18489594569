//! What the tests share: real servers in directories that go away.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper that fails fails its test")]
#![allow(missing_docs, clippy::missing_panics_doc, reason = "read by those who write tests")]

pub mod cluster;
pub mod direct;
pub mod mount;
pub mod raw;
pub mod sealing;
pub mod served;
pub mod world;

/// The folder with the drivers that `tests/run.sh` installs; says loudly when there is none.
pub fn drivers() -> Option<std::path::PathBuf> {
    let dir = std::env::var_os("POSTERN_TEST_DRIVERS").map(std::path::PathBuf::from);
    if dir.is_none() {
        skip("no drivers: run the tests with `make test`, which installs them");
    }
    dir
}

/// Says that a test cannot run here, on standard error and in the list that `tests/run.sh` counts.
pub fn skip(why: &str) {
    eprintln!("SKIPPED: {why}");
    if let Some(list) = std::env::var_os("POSTERN_TEST_SKIPS") {
        use std::io::Write as _;
        let file = std::fs::OpenOptions::new().create(true).append(true).open(list);
        file.and_then(|mut file| writeln!(file, "{why}")).unwrap();
    }
}
