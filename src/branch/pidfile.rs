//! The lock file that a postmaster keeps in its data directory.
//!
//! Lines: process id, data directory, start time, port, socket directory, listen address, shared
//! memory key and id, status. Source: PostgreSQL's `miscadmin.h`, `LOCK_FILE_LINE_…`; the manual
//! names the file in "Database File Layout".

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::process;

/// Eight short lines and two paths.
const LONGEST: u64 = 16 << 10;

/// The lock file of a data directory.
pub fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("postmaster.pid")
}

/// The process that holds the data directory: named by the lock file, there, and working in that
/// very directory. A file left by a killed server names nobody, or somebody else by now.
pub fn running(data_dir: &Path) -> Option<u32> {
    let pid = Lines::read(data_dir)?.pid()?;
    process::start_time(pid)?;
    let works_in = std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    (works_in == data_dir.canonicalize().ok()?).then_some(pid)
}

/// Does server `pid` accept connections? On a standby: read-only ones.
pub fn is_ready(data_dir: &Path, pid: u32) -> bool {
    Lines::read(data_dir)
        .is_some_and(|lines| lines.pid() == Some(pid) && lines.nth(7) == Some("ready"))
}

/// The key and the id of the System V shared memory segment that the server made.
pub fn shared_memory(data_dir: &Path) -> Option<(u32, u32)> {
    let lines = Lines::read(data_dir)?;
    let mut fields = lines.nth(6)?.split_ascii_whitespace();
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

struct Lines(String);

impl Lines {
    fn read(data_dir: &Path) -> Option<Self> {
        // The server's user owns the directory: whatever it puts there must not make us wait, lead
        // us elsewhere or fill our memory.
        let careful = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(careful).open(path(data_dir)).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut text = String::new();
        file.take(LONGEST).read_to_string(&mut text).ok()?;
        Some(Self(text))
    }

    fn nth(&self, index: usize) -> Option<&str> {
        self.0.lines().nth(index).map(str::trim)
    }

    fn pid(&self) -> Option<u32> {
        self.nth(0)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_where_the_server_puts_them() {
        let dir = tempfile::tempdir().unwrap();
        let text = "4711\n/d\n1700000000\n5432\n/s\n\n  5432001         7\nready   \n";
        std::fs::write(path(dir.path()), text).unwrap();
        assert!(is_ready(dir.path(), 4711));
        assert!(!is_ready(dir.path(), 4712));
        assert_eq!(shared_memory(dir.path()), Some((5_432_001, 7)));
        std::fs::write(path(dir.path()), text.replace("ready", "starting")).unwrap();
        assert!(!is_ready(dir.path(), 4711));
        std::fs::write(path(dir.path()), "47").unwrap();
        assert!(!is_ready(dir.path(), 47));
    }

    #[test]
    fn a_trap_in_its_place_is_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = path(dir.path());
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        assert_eq!(running(dir.path()), None);
        std::fs::remove_file(&fifo).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &fifo).unwrap();
        assert_eq!(running(dir.path()), None);
    }

    #[test]
    fn a_stale_lock_names_nobody() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(path(dir.path()), format!("{}\n", std::process::id())).unwrap();
        assert_eq!(running(dir.path()), None);
    }
}
