//! A server's files on disk: what is written before a start and removed after an end.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{
    DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, chown, fchown,
};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;

use super::account::Account;
use super::pidfile;
use super::process::{self, Process};
use super::server::{LOG_LIMIT, ServerError, ServerSpec};

/// How long the processes of a killed server may take to let go of its shared memory.
const DETACH_PATIENCE: Duration = Duration::from_secs(2);

/// How much of the log an error carries.
const TAIL: u64 = 2000;

/// Files of a data directory that say where to connect to, what to run, or who may log in, and
/// those that a dead server leaves. Ours take their place; see `Config`.
const STRIPPED: [&str; 12] = [
    "postgresql.conf",
    "pg_hba.conf",
    "pg_ident.conf",
    "postmaster.pid",
    "postmaster.opts",
    "recovery.conf",
    "recovery.signal",
    "standby.signal",
    "promote",
    "current_logfiles",
    "tablespace_map",
    "postgresql.auto.conf.tmp",
];

/// Writes a server's configuration, makes its socket directory, strips its data directory, and
/// opens its log; returns the log and where this start's part of it begins. Blocks.
pub(super) fn prepare(spec: &ServerSpec) -> Result<(File, u64), ServerError> {
    let config = &spec.config;
    let account = &spec.account;
    own_dir(&config.dir, 0o750, None, Some(account.gid)).map_err(named("the configuration"))?;
    for (name, text) in [
        ("postgresql.conf", config.postgresql_conf()),
        ("pg_hba.conf", config.pg_hba_conf()),
        ("pg_ident.conf", config.pg_ident_conf(&account.own_user)),
    ] {
        write_for_group(&config.dir.join(name), &text, account.gid).map_err(named(name))?;
    }
    own_dir(&config.socket_dir, 0o700, Some(account.uid), Some(account.gid))
        .map_err(named("the socket directory"))?;
    remove_sockets(&config.socket_dir);
    strip(&spec.data_dir).map_err(named("the data directory"))?;
    if spec.standby {
        signal_file(&spec.data_dir.join("standby.signal"), account)
            .map_err(named("standby.signal"))?;
    }
    open_log(&spec.log_file).map_err(named("the log"))
}

/// Removes from a data directory whose server does not run everything that dials out, that our
/// configuration replaces, or that a dead server left. Blocks.
pub fn strip(data_dir: &Path) -> io::Result<()> {
    for name in STRIPPED {
        remove_if_there(&data_dir.join(name))?;
    }
    // What ALTER SYSTEM set goes; the file stays, for tools expect it.
    match OpenOptions::new()
        .write(true)
        .truncate(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
        .open(data_dir.join("postgresql.auto.conf"))
    {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    // Slots hold WAL back for a consumer that a branch never has.
    empty_dir(&data_dir.join("pg_replslot"))
}

/// Deletes what is in a directory. The server's user could have put a link in its place, and we
/// may be root: the directory is held open as what it is, and no link is followed.
fn empty_dir(dir: &Path) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = match rustix::fs::open(dir, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => return Ok(()),
        other => other?,
    };
    let held_path = format!("/proc/self/fd/{}", held.as_raw_fd());
    for entry in std::fs::read_dir(held_path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Makes a directory or puts an existing one's mode and owner right.
pub(super) fn own_dir(
    path: &Path,
    mode: u32,
    uid: Option<u32>,
    gid: Option<u32>,
) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    if rustix::process::geteuid().is_root() {
        chown(path, uid, gid)?;
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Removes socket files that a killed server left.
pub(super) fn remove_sockets(socket_dir: &Path) {
    let port = super::config::PORT;
    for name in [format!(".s.PGSQL.{port}"), format!(".s.PGSQL.{port}.lock")] {
        let _ = std::fs::remove_file(socket_dir.join(name));
    }
}

/// Kills every process of a server that still works in a data directory, and waits until they are
/// gone.
///
/// Needed after a postmaster was killed: its children end by themselves only when they next look.
/// PostgreSQL's own guard against a second server is the shared memory segment, which a server in
/// another IPC namespace does not see.
pub(super) async fn kill_rest(data_dir: &Path) {
    for pid in process::working_in(data_dir) {
        if let Ok(Some(backend)) = Process::hold(pid, None) {
            backend.signal(Signal::KILL);
            backend.ended().await;
        }
    }
}

/// Removes what a killed postmaster leaves: processes, the System V segment (where it had no IPC
/// namespace of its own) and the lock file. One that shut down has removed its lock file.
pub(super) async fn remove_leftovers(data_dir: &Path) {
    if !pidfile::path(data_dir).exists() || pidfile::running(data_dir).is_some() {
        return;
    }
    kill_rest(data_dir).await;
    if let Some((key, id)) = pidfile::shared_memory(data_dir) {
        remove_segment(data_dir, key, id).await;
    }
    let _ = std::fs::remove_file(pidfile::path(data_dir));
}

/// Removes a System V segment if it is in our own IPC namespace, has the key and the owner it
/// should have, and nobody is attached. Ids are small numbers that other programs have too, and a
/// server with an IPC namespace of its own took its segment along.
async fn remove_segment(data_dir: &Path, key: u32, id: u32) {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(owner) = std::fs::metadata(data_dir).map(|m| m.uid()) else { return };
    let until = Instant::now() + DETACH_PATIENCE;
    while let Some(attached) = attached_to(key, id, owner) {
        if attached == 0 {
            let _ = tokio::process::Command::new("ipcrm")
                .args(["--shmem-id", &id.to_string()])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .await;
            return;
        }
        if Instant::now() > until {
            tracing::warn!(id, attached, "a shared memory segment is still in use");
            return;
        }
        // A process that is ending is no longer found by its program, but not yet detached.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// How many are attached to that segment; `None` when there is none. Source: proc(5),
/// `/proc/sysvipc/shm`: key, id, mode, size, two process ids, attached, owner.
fn attached_to(key: u32, id: u32, owner: u32) -> Option<u32> {
    let table = std::fs::read_to_string("/proc/sysvipc/shm").ok()?;
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let [found, shmid, _, _, _, _, attached, uid, ..] = fields[..] else { return None };
        let same = found.parse::<i32>().ok()?.cast_unsigned() == key
            && shmid.parse() == Ok(id)
            && uid.parse() == Ok(owner);
        if same { attached.parse().ok() } else { None }
    })
}

/// The end of a log from `from` on, for an error text.
pub(super) fn log_tail(log_file: &Path, from: u64) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(log_file)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(from.max(length.saturating_sub(TAIL))))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    match read() {
        Ok(text) if text.is_empty() => "it left no word in its log".to_owned(),
        Ok(text) => text,
        Err(e) => format!("its log cannot be read: {e}"),
    }
}

/// Cuts a log back when it has grown beyond [`LOG_LIMIT`]. The server appends, so it goes on
/// writing at the new end.
pub(super) fn bound_log(log_file: &Path) -> io::Result<()> {
    match std::fs::metadata(log_file) {
        Ok(meta) if meta.len() > LOG_LIMIT => {
            let mut file = OpenOptions::new().append(true).open(log_file)?;
            file.set_len(0)?;
            file.write_all(b"(cut: the log had grown beyond its limit)\n")
        }
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn open_log(log_file: &Path) -> io::Result<(File, u64)> {
    bound_log(log_file)?;
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(log_file)?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

fn write_for_group(path: &Path, text: &str, gid: u32) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o640).open(path)?;
    file.write_all(text.as_bytes())?;
    if rustix::process::geteuid().is_root() {
        chown(path, None, Some(gid))?;
    }
    file.set_permissions(Permissions::from_mode(0o640))
}

fn signal_file(path: &Path, account: &Account) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    if account.switches_user() {
        fchown(&file, Some(account.uid), Some(account.gid))?;
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn named(what: &str) -> impl FnOnce(io::Error) -> ServerError {
    let what = what.to_owned();
    move |e| ServerError::files(what, e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_dials_out_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in STRIPPED {
            std::fs::write(path(name), "x").unwrap();
        }
        std::fs::write(path("postgresql.auto.conf"), "primary_conninfo = 'host=prod'").unwrap();
        std::fs::write(path("PG_VERSION"), "15\n").unwrap();
        std::fs::create_dir_all(path("pg_replslot/one")).unwrap();
        strip(dir.path()).unwrap();
        let mut left: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["PG_VERSION", "pg_replslot", "postgresql.auto.conf"]);
        assert_eq!(std::fs::read(path("postgresql.auto.conf")).unwrap(), b"");
        assert_eq!(std::fs::read_dir(path("pg_replslot")).unwrap().count(), 0);
    }

    #[test]
    fn a_planted_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "keep").unwrap();
        let data = dir.path().join("data");
        std::fs::create_dir(&data).unwrap();
        std::os::unix::fs::symlink(&victim, data.join("postgresql.auto.conf")).unwrap();
        assert!(strip(&data).is_err());
        assert_eq!(std::fs::read(&victim).unwrap(), b"keep");

        std::fs::remove_file(data.join("postgresql.auto.conf")).unwrap();
        std::os::unix::fs::symlink(dir.path(), data.join("pg_replslot")).unwrap();
        assert!(strip(&data).is_err());
        std::fs::remove_file(data.join("pg_replslot")).unwrap();
        std::fs::create_dir(data.join("pg_replslot")).unwrap();
        std::os::unix::fs::symlink(dir.path(), data.join("pg_replslot/slot")).unwrap();
        strip(&data).unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"keep");
    }

    #[test]
    fn a_log_is_cut_back_and_its_tail_told() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        std::fs::write(&log, "x".repeat(5 << 20)).unwrap();
        let (mut file, start) = open_log(&log).unwrap();
        assert!(start < 100);
        file.write_all(b"FATAL: no\n").unwrap();
        assert_eq!(log_tail(&log, start), "FATAL: no");
    }
}
