//! The data directory: one postern at a time, and a fixed place for everything.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::StateError;

/// An open, locked data directory. The lock goes with the last clone, or with the process.
///
/// The directory may be passed through by anybody (servers run as another user and must reach
/// their own part) but listed by its owner only.
#[derive(Debug, Clone)]
pub struct DataDir {
    root: PathBuf,
    _lock: Arc<File>,
}

/// A postern that was just killed may leave a child that holds the lock until it has become another
/// program; that takes a moment only.
const LOCK_PATIENCE: Duration = Duration::from_millis(250);

/// Bytes kept back; a few commits of the state take far less.
const RESERVE: u64 = 4 << 20;

/// What lies in the data directory, with its mode.
const PARTS: [(&str, u32); 6] = [
    ("branches", 0o711),
    ("snapshots", 0o711),
    ("trash", 0o711),
    ("s", 0o711),
    ("secrets", 0o700),
    ("log", 0o700),
];

impl DataDir {
    /// Makes what is missing and locks the directory against a second postern.
    pub fn open(root: &Path) -> Result<Self, StateError> {
        let failed = |path: &Path, source| StateError::Dir { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o711).create(root).map_err(|e| failed(root, e))?;
        let root = root.canonicalize().map_err(|e| failed(root, e))?;
        let lock = Self::lock(&root)?;
        std::fs::set_permissions(&root, Permissions::from_mode(0o711))
            .map_err(|e| failed(&root, e))?;
        for (name, mode) in PARTS {
            let path = root.join(name);
            match DirBuilder::new().mode(mode).create(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(failed(&path, e));
                }
                _ => {}
            }
            // Made again on each start: the umask may have been in the way, or somebody's chmod.
            std::fs::set_permissions(&path, Permissions::from_mode(mode))
                .map_err(|e| failed(&path, e))?;
        }
        let data = Self { root, _lock: Arc::new(lock) };
        data.keep_reserve();
        Ok(data)
    }

    /// The directory itself, absolute and without symbolic links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The SQLite file.
    pub fn state_file(&self) -> PathBuf {
        self.root.join("state.db")
    }

    /// Where a branch has its files.
    pub fn branch(&self, id: &str) -> PathBuf {
        self.root.join("branches").join(id)
    }

    /// Where all branches are.
    pub fn branches(&self) -> PathBuf {
        self.root.join("branches")
    }

    /// Where a snapshot has its files.
    pub fn snapshot(&self, id: &str) -> PathBuf {
        self.root.join("snapshots").join(id)
    }

    /// Where all snapshots are.
    pub fn snapshots(&self) -> PathBuf {
        self.root.join("snapshots")
    }

    /// What is to be deleted is renamed into here first.
    pub fn trash(&self) -> PathBuf {
        self.root.join("trash")
    }

    /// Where a server has its socket. Short, because a socket's path is limited to 107 bytes.
    pub fn socket_dir(&self, id: &str) -> PathBuf {
        self.root.join("s").join(id)
    }

    /// Where all socket directories are.
    pub fn socket_dirs(&self) -> PathBuf {
        self.root.join("s")
    }

    /// Where secrets are kept, one file each, for postern's user alone.
    pub fn secrets(&self) -> PathBuf {
        self.root.join("secrets")
    }

    /// Where the logs of servers are.
    pub fn logs(&self) -> PathBuf {
        self.root.join("log")
    }

    /// Keeps some space back for [`use_reserve`](Self::use_reserve). Not having it is no error.
    pub fn keep_reserve(&self) {
        let keep = || -> std::io::Result<()> {
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(self.root.join("reserve"))?;
            Ok(rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, RESERVE)?)
        };
        if let Err(e) = keep() {
            tracing::debug!(error = %e, "no space is kept in reserve");
        }
    }

    /// Gives the reserve up, so that on a full disk what makes space can be written down. Says
    /// whether there was one.
    pub fn use_reserve(&self) -> bool {
        std::fs::remove_file(self.root.join("reserve")).is_ok()
    }

    fn lock(root: &Path) -> Result<File, StateError> {
        let path = root.join("postern.lock");
        let failed = |source| StateError::Dir { path: path.clone(), source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        let until = Instant::now() + LOCK_PATIENCE;
        while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            if Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            let pid = if pid.trim().is_empty() { "?" } else { pid.trim() }.to_owned();
            return Err(StateError::InUse { dir: root.to_owned(), pid });
        }
        file.set_len(0).map_err(failed)?;
        file.rewind().map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_postern_is_refused_and_told_who_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("data");
        let first = DataDir::open(&root).unwrap();
        let error = DataDir::open(&root).unwrap_err();
        assert!(
            error.to_string().ends_with(&format!("in use by process {}", std::process::id())),
            "{error}"
        );
        drop(first);
        DataDir::open(&root).unwrap();
    }

    #[test]
    fn rights_are_put_right_on_each_start() {
        let dir = tempfile::tempdir().unwrap();
        drop(DataDir::open(dir.path()).unwrap());
        let secrets = dir.path().join("secrets");
        std::fs::set_permissions(&secrets, Permissions::from_mode(0o777)).unwrap();
        drop(DataDir::open(dir.path()).unwrap());
        assert_eq!(std::fs::metadata(&secrets).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
