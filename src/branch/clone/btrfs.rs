//! Snapshots of btrfs subvolumes: one step whatever the size and number of files.

use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{CloneError, CloneProvider, Owner, Usage, walk};

/// `BTRFS_SUPER_MAGIC` of statfs(2).
const MAGIC: i64 = 0x9123_683e;

/// The inode number of a subvolume's root (btrfs(5), `BTRFS_FIRST_FREE_OBJECTID`).
const SUBVOLUME_INODE: u64 = 256;

/// Clones by subvolume snapshots, through the `btrfs` program.
#[derive(Debug, Clone, Copy)]
pub struct Btrfs;

impl CloneProvider for Btrfs {
    fn name(&self) -> &'static str {
        "btrfs"
    }

    fn prepare(&self, dir: &Path, owner: Owner) -> Result<(), CloneError> {
        let parent = dir.parent().unwrap_or(dir);
        let stat = rustix::fs::statfs(parent).map_err(|e| CloneError::at(parent)(e.into()))?;
        #[expect(clippy::useless_conversion, reason = "the field's type differs by platform")]
        if i64::from(stat.f_type) != MAGIC {
            return Err(CloneError::Unavailable {
                provider: "btrfs",
                why: "the data directory is not on btrfs".to_owned(),
            });
        }
        btrfs("subvolume create", &[dir.as_os_str()])?;
        adopt(dir, owner)
    }

    fn seal(&self, dir: &Path) -> Result<(), CloneError> {
        // The subvolume as a whole, not its modes: else each clone would have to change them all.
        btrfs("property set", &["-ts".as_ref(), dir.as_os_str(), "ro".as_ref(), "true".as_ref()])
    }

    fn clone_dir(&self, from: &Path, to: &Path, owner: Owner) -> Result<(), CloneError> {
        btrfs("subvolume snapshot", &[from.as_os_str(), to.as_os_str()])?;
        let meta = std::fs::metadata(to).map_err(CloneError::at(to))?;
        if meta.permissions().mode() & 0o777 != 0o700 {
            walk::set_modes(to, 0o700, 0o600)?;
        }
        if owner.is_some_and(|(uid, gid)| (uid, gid) != (meta.uid(), meta.gid())) {
            return Err(CloneError::Unavailable {
                provider: "btrfs",
                why: "the snapshot's files belong to another user than servers run as".to_owned(),
            });
        }
        Ok(())
    }

    fn destroy(&self, dir: &Path) -> Result<(), CloneError> {
        for subvolume in subvolumes(dir)? {
            // A sealed one must be opened first for an unprivileged user; root need not.
            if btrfs("subvolume delete", &[subvolume.as_os_str()]).is_err() {
                let _ = btrfs(
                    "property set",
                    &["-ts".as_ref(), subvolume.as_os_str(), "ro".as_ref(), "false".as_ref()],
                );
                // Without user_subvol_rm_allowed an emptied subvolume goes like a directory.
                walk::delete(&subvolume)?;
            }
        }
        walk::delete(dir)
    }

    fn usage(&self, dir: &Path) -> Result<Usage, CloneError> {
        let mut usage = walk::usage(dir)?;
        usage.own_bytes = exclusive(dir);
        Ok(usage)
    }
}

fn adopt(dir: &Path, owner: Owner) -> Result<(), CloneError> {
    if let Some((uid, gid)) = owner {
        chown(dir, Some(uid), Some(gid)).map_err(CloneError::at(dir))?;
    }
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))
        .map_err(CloneError::at(dir))
}

/// The subvolumes at and directly below a directory, which is how deep they are ever made.
fn subvolumes(dir: &Path) -> Result<Vec<PathBuf>, CloneError> {
    let mut found = Vec::new();
    let meta = match std::fs::symlink_metadata(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        other => other.map_err(CloneError::at(dir))?,
    };
    if meta.is_dir() && meta.ino() == SUBVOLUME_INODE {
        found.push(dir.to_owned());
    } else if meta.is_dir() {
        for entry in std::fs::read_dir(dir).map_err(CloneError::at(dir))? {
            let entry = entry.map_err(CloneError::at(dir))?;
            let meta = entry.metadata().map_err(CloneError::at(dir))?;
            if meta.is_dir() && meta.ino() == SUBVOLUME_INODE {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

/// What a directory shares with nobody, as far as the program tells.
fn exclusive(dir: &Path) -> Option<u64> {
    let output = Command::new("btrfs")
        .args(["filesystem", "du", "--raw", "-s"])
        .arg(dir)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    // A headline, then: total, exclusive, set shared, file name.
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().nth(1)?.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn btrfs(what: &'static str, arguments: &[&OsStr]) -> Result<(), CloneError> {
    let output = Command::new("btrfs")
        .args(what.split(' '))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| CloneError::Btrfs { what, why: e.to_string() })?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(CloneError::Btrfs { what, why })
}
