//! Copies of a data directory that share what has not changed: one file per way to make them.
//!
//! A new way is one more file here and one line in [`choose`].

mod btrfs;
mod copy;
mod reflink;
mod walk;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{ErrorKind, SqlState, UserFacingError};

pub use btrfs::Btrfs;
pub use copy::CopyFiles;
pub use reflink::Reflink;

/// Whom the files of a clone belong to; `None` leaves them to postern's own user.
pub type Owner = Option<(u32, u32)>;

/// A way to clone data directories. All methods block.
pub trait CloneProvider: fmt::Debug + Send + Sync {
    /// Its name in the state and on the command line.
    fn name(&self) -> &'static str;

    /// Makes an empty directory of mode 0700 that can be cloned once it is filled.
    fn prepare(&self, dir: &Path, owner: Owner) -> Result<(), CloneError>;

    /// Makes a filled directory unchangeable.
    fn seal(&self, dir: &Path) -> Result<(), CloneError>;

    /// Clones `from`, in which no server runs, to `to`, which must not exist; the clone is
    /// writable, mode 0700 and 0600. After an error a part of it may be there.
    fn clone_dir(&self, from: &Path, to: &Path, owner: Owner) -> Result<(), CloneError>;

    /// Deletes a directory and everything in it, at whatever depth.
    fn destroy(&self, dir: &Path) -> Result<(), CloneError>;

    /// What a directory takes on disk.
    fn usage(&self, dir: &Path) -> Result<Usage, CloneError> {
        walk::usage(dir)
    }
}

/// What a directory takes on disk, in bytes.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    serde::Serialize,
    serde::Deserialize,
    utoipa::ToSchema,
)]
pub struct Usage {
    /// Number of files.
    pub files: u64,
    /// All its files, shared parts included.
    pub bytes: u64,
    /// What it shares with nobody; `None` when the file system does not tell.
    pub own_bytes: Option<u64>,
}

/// Whether a provider works for a data directory, as `postern doctor` tells it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ProviderProbe {
    /// The provider.
    pub name: &'static str,
    /// Does it work here?
    pub works: bool,
    /// Why not, or what it costs.
    pub detail: String,
}

/// Tries every provider in `data_root` and takes the best that works, or the `wanted` one.
/// Blocks; leaves nothing behind.
pub fn choose(
    data_root: &Path,
    wanted: Option<&str>,
) -> Result<(Arc<dyn CloneProvider>, Vec<ProviderProbe>), CloneError> {
    let providers: [Arc<dyn CloneProvider>; 3] =
        [Arc::new(Btrfs), Arc::new(Reflink), Arc::new(CopyFiles)];
    let probes: Vec<_> = providers.iter().map(|p| probe(p.as_ref(), data_root)).collect();
    let works = |p: &&Arc<dyn CloneProvider>| probes.iter().any(|r| r.name == p.name() && r.works);
    let chosen = match wanted {
        None => providers.iter().find(works),
        Some(name) => {
            let provider = providers.iter().find(|p| p.name() == name);
            if let Some(refused) = provider.filter(|p| !works(p)) {
                let detail = probes.iter().find(|r| r.name == refused.name());
                return Err(CloneError::Unavailable {
                    provider: refused.name(),
                    why: detail.map(|r| r.detail.clone()).unwrap_or_default(),
                });
            }
            provider
        }
    };
    match chosen {
        Some(provider) => Ok((Arc::clone(provider), probes)),
        None => Err(CloneError::Unknown { name: wanted.unwrap_or_default().to_owned() }),
    }
}

/// The provider of that name, untried: for what was made with it earlier.
pub fn by_name(name: &str) -> Result<Arc<dyn CloneProvider>, CloneError> {
    match name {
        "btrfs" => Ok(Arc::new(Btrfs)),
        "reflink" => Ok(Arc::new(Reflink)),
        "copy" => Ok(Arc::new(CopyFiles)),
        _ => Err(CloneError::Unknown { name: name.to_owned() }),
    }
}

/// Makes, clones and deletes a tiny directory.
fn probe(provider: &dyn CloneProvider, data_root: &Path) -> ProviderProbe {
    let dir = data_root.join(format!("trash/probe-{}-{}", provider.name(), std::process::id()));
    let attempt = || -> Result<(), CloneError> {
        std::fs::create_dir_all(&dir).map_err(CloneError::at(&dir))?;
        let (from, to) = (dir.join("from"), dir.join("to"));
        provider.prepare(&from, None)?;
        let file = from.join("file");
        std::fs::write(&file, vec![b'x'; 8192]).map_err(CloneError::at(&file))?;
        provider.clone_dir(&from, &to, None)
    };
    let result = attempt();
    let cleaned = if dir.exists() { provider.destroy(&dir) } else { Ok(()) };
    let name = provider.name();
    match result.and(cleaned) {
        Ok(()) => {
            let detail = match name {
                "copy" => {
                    "copies every byte: a branch takes the snapshot's size and about 0.5 to 2 s per GB"
                }
                _ => "a branch takes milliseconds and only the space of what it changes",
            };
            ProviderProbe { name, works: true, detail: detail.to_owned() }
        }
        Err(e) => ProviderProbe { name, works: false, detail: e.to_string() },
    }
}

/// Why a directory could not be cloned, deleted or measured.
#[derive(Debug, thiserror::Error)]
pub enum CloneError {
    /// There is no provider of that name.
    #[error("`{name}` is no clone provider; there are btrfs, reflink and copy")]
    Unknown {
        /// The name that was asked for.
        name: String,
    },
    /// The provider that was asked for does not work here.
    #[error("the clone provider {provider} does not work here: {why}")]
    Unavailable {
        /// Its name.
        provider: &'static str,
        /// Why.
        why: String,
    },
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// What it was about.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Something other than a file or directory lies in the data directory.
    #[error("{} is neither a file nor a directory; tablespaces and links are not cloned", path.display())]
    Special {
        /// What it is about.
        path: PathBuf,
    },
    /// The `btrfs` program refused.
    #[error("btrfs {what}: {why}")]
    Btrfs {
        /// Its subcommand.
        what: &'static str,
        /// What it said.
        why: String,
    },
}

impl CloneError {
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    fn is_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            Self::Btrfs { why, .. } => why.contains("No space left"),
            _ => false,
        }
    }
}

impl UserFacingError for CloneError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Unknown { .. } | Self::Unavailable { .. } => ErrorKind::ControlPlane,
            _ => ErrorKind::Compute,
        }
    }

    fn sqlstate(&self) -> SqlState {
        match self {
            _ if self.is_full() => SqlState::DISK_FULL,
            Self::Unknown { .. } | Self::Unavailable { .. } => SqlState::CONFIG_FILE_ERROR,
            Self::Special { .. } => SqlState::FEATURE_NOT_SUPPORTED,
            Self::Io { .. } | Self::Btrfs { .. } => SqlState::IO_ERROR,
        }
    }

    fn message(&self) -> String {
        match self {
            _ if self.is_full() => "the disk is full: the branch could not be cloned".to_owned(),
            Self::Io { source, .. } => format!("the branch could not be cloned: {source}"),
            other => other.to_string(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            _ if self.is_full() => Some("Destroy branches that are no longer used.".to_owned()),
            Self::Unavailable { .. } => {
                Some("`postern doctor` lists which providers work and what they need.".to_owned())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_copy_is_whole_writable_and_leaves_the_source_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        CopyFiles.prepare(&from, None).unwrap();
        std::fs::create_dir(from.join("base")).unwrap();
        std::fs::write(from.join("base/1"), vec![7u8; 100_001]).unwrap();
        let hole = std::fs::File::create(from.join("base/2")).unwrap();
        hole.set_len(1 << 30).unwrap();
        std::fs::write(from.join("postmaster.pid"), "1").unwrap();
        std::fs::create_dir(from.join("pg_dynshmem")).unwrap();
        std::fs::write(from.join("pg_dynshmem/mmap.1"), "x").unwrap();
        CopyFiles.seal(&from).unwrap();
        let mode = |p: PathBuf| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(from.clone()), mode(from.join("base/1"))), (0o500, 0o400));

        CopyFiles.clone_dir(&from, &to, None).unwrap();
        assert_eq!((mode(to.clone()), mode(to.join("base/1"))), (0o700, 0o600));
        assert_eq!(std::fs::read(to.join("base/1")).unwrap(), vec![7u8; 100_001]);
        assert_eq!(std::fs::metadata(to.join("base/2")).unwrap().len(), 1 << 30);
        assert!(!to.join("postmaster.pid").exists());
        assert!(!to.join("pg_dynshmem/mmap.1").exists() && to.join("pg_dynshmem").exists());
        // A hole stays a hole.
        assert!(CopyFiles.usage(&to).unwrap().bytes < 1 << 20);
        CopyFiles.destroy(&to).unwrap();
        assert!(!to.exists());
        CopyFiles.destroy(&from).unwrap();
        assert!(!from.exists(), "a sealed directory can be deleted");
    }

    #[test]
    fn a_link_out_of_the_data_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        CopyFiles.prepare(&from, None).unwrap();
        std::os::unix::fs::symlink("/etc", from.join("link")).unwrap();
        assert!(matches!(CopyFiles.clone_dir(&from, &to, None), Err(CloneError::Special { .. })));
        CopyFiles.destroy(&from).unwrap();
        assert!(Path::new("/etc/passwd").exists());
    }

    #[test]
    fn the_best_that_works_is_chosen_and_the_wanted_one_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (provider, probes) = choose(dir.path(), None).unwrap();
        assert_eq!(probes.len(), 3);
        assert_eq!(provider.name(), probes.iter().find(|p| p.works).unwrap().name);
        assert_eq!(choose(dir.path(), Some("copy")).unwrap().0.name(), "copy");
        assert!(matches!(choose(dir.path(), Some("zfs")), Err(CloneError::Unknown { .. })));
        for probe in probes.iter().filter(|p| !p.works) {
            let error = choose(dir.path(), Some(probe.name)).unwrap_err();
            assert!(matches!(error, CloneError::Unavailable { .. }), "{error}");
        }
        let left = std::fs::read_dir(dir.path().join("trash")).unwrap().count();
        assert_eq!(left, 0);
    }
}
