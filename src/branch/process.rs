//! Processes that outlive the one that started them.
//!
//! A server goes on when postern ends, and another postern takes it over; so it is held by a
//! pidfd, which works alike for a child and for somebody else's child, and which never reaches
//! another process that got the same number.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A running or ended process, held by its pidfd. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Process {
    pid: u32,
    start: u64,
    fd: Arc<AsyncFd<OwnedFd>>,
}

impl Process {
    /// Takes hold of process `pid` if it is there and, when `start` is given, is the one that
    /// started then. Needs a tokio runtime.
    pub fn hold(pid: u32, start: Option<u64>) -> io::Result<Option<Self>> {
        let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        let fd = match pidfd_open(raw, PidfdFlags::NONBLOCK) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        // Read after the pidfd is open: from here on the number cannot change hands unseen.
        match start_time(pid) {
            Some(found) if start.is_none_or(|wanted| wanted == found) => {
                Ok(Some(Self { pid, start: found, fd: Arc::new(watched(fd)?) }))
            }
            _ => Ok(None),
        }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// When it started, in clock ticks since boot.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Sends a signal; nothing happens when it has ended.
    pub fn signal(&self, signal: Signal) {
        // The only other error is that we may not, which its exit never coming would show.
        if let Err(e) = pidfd_send_signal(self.fd.get_ref(), signal)
            && e != rustix::io::Errno::SRCH
        {
            tracing::warn!(pid = self.pid, ?signal, error = %e, "cannot signal a process");
        }
    }

    /// Has it ended? A zombie has.
    pub fn has_ended(&self) -> bool {
        start_time(self.pid) != Some(self.start)
    }

    /// Waits until it has ended. Cancel-safe.
    pub async fn ended(&self) {
        while !self.has_ended() {
            match self.fd.readable().await {
                // A pidfd becomes readable once, at the end, and stays so.
                Ok(mut guard) if self.has_ended() => {
                    guard.retain_ready();
                    return;
                }
                Ok(mut guard) => guard.clear_ready(),
                Err(_) => return,
            }
        }
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe for the sake of types whose descriptor can change or close \
              early; an OwnedFd that is never taken out again does neither"
)]
fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, Interest::READABLE)
}

/// When a process started, in clock ticks since boot; `None` when there is none, or only its
/// zombie. Source: proc(5), `/proc/pid/stat`.
pub fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may itself hold blanks and parentheses.
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    match fields.next()? {
        "Z" | "X" => None,
        // Field 3 was the state; the start time is field 22.
        _ => fields.nth(18)?.parse().ok(),
    }
}

/// A process that looks like a postmaster, and the data directory it works in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Postmaster {
    /// Its process id.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub start: u64,
    /// Its data directory, as far as the kernel still knows its path.
    pub data_dir: PathBuf,
}

/// Every postmaster that works in a directory below `root`, found by its working directory (a
/// postmaster changes into its data directory and stays there). Blocks while it walks `/proc`.
pub fn postmasters_below(root: &Path) -> io::Result<Vec<Postmaster>> {
    let members = servers_below(root)?;
    let mut found = Vec::new();
    // A postmaster's parent does not itself work in the same data directory.
    for (pid, parent, data_dir) in &members {
        if !members.iter().any(|(other, _, dir)| other == parent && dir == data_dir)
            && let Some(start) = start_time(*pid)
        {
            found.push(Postmaster { pid: *pid, start, data_dir: data_dir.clone() });
        }
    }
    Ok(found)
}

/// The server processes that work in one data directory. Blocks while it walks `/proc`.
pub fn working_in(data_dir: &Path) -> Vec<u32> {
    let servers = servers_below(data_dir).unwrap_or_default();
    servers.into_iter().map(|(pid, _, _)| pid).collect()
}

/// Server processes with their parent and the directory they work in.
fn servers_below(root: &Path) -> io::Result<Vec<(u32, u32, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        // Processes come and go while we look.
        let Ok(entry) = entry else { continue };
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(works_in) = std::fs::read_link(entry.path().join("cwd")) else { continue };
        if works_in.starts_with(root)
            && is_postgres(&entry.path())
            && let Some(parent) = parent(pid)
        {
            found.push((pid, parent, works_in));
        }
    }
    Ok(found)
}

/// Is the process a PostgreSQL server process, or about to become one, by its program?
fn is_postgres(proc_dir: &Path) -> bool {
    std::fs::read_link(proc_dir.join("exe"))
        .ok()
        .and_then(|exe| exe.file_name().map(|n| n.to_string_lossy().into_owned()))
        // An upgraded package leaves `postgres (deleted)` behind.
        .is_some_and(|name| {
            let name = name.strip_suffix(" (deleted)").unwrap_or(&name);
            matches!(name, "postgres" | "unshare" | "setpriv")
        })
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 1..].split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Which boot of the machine this is. Source: proc(5), `/proc/sys/kernel/random/boot_id`.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_a_process_is_seen_and_its_number_not_confused() {
        let mut child = tokio::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = child.id().unwrap();
        let process = Process::hold(pid, None).unwrap().unwrap();
        assert!(!process.has_ended());
        assert!(Process::hold(pid, Some(process.start() + 1)).unwrap().is_none());

        process.signal(Signal::KILL);
        process.ended().await;
        assert!(process.has_ended());
        child.wait().await.unwrap();
        process.ended().await;
        assert!(Process::hold(pid, Some(process.start())).unwrap().is_none());
        process.signal(Signal::KILL);
    }

    #[test]
    fn a_start_time_is_read_past_any_program_name() {
        assert!(start_time(std::process::id()).unwrap() > 0);
        assert_eq!(start_time(u32::MAX), None);
    }
}
