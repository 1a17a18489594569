//! Walking over data directories: cloning file by file, sealing, deleting, measuring.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown, fchown,
};
use std::path::Path;

use super::{CloneError, Owner, Usage};

/// What a server that is gone leaves and the next one makes anew.
const LEFT_OUT: [&str; 2] = ["postmaster.pid", "postmaster.opts"];

/// Directories that are cloned empty: what is in them belongs to a running server (manual,
/// "Making an Exclusive Low-Level Backup" lists them as not needed).
const EMPTIED: [&str; 6] =
    ["pg_dynshmem", "pg_notify", "pg_replslot", "pg_serial", "pg_stat_tmp", "pg_subtrans"];

/// Clones a tree; `content` fills each new file from its source.
pub(super) fn clone_tree(
    from: &Path,
    to: &Path,
    owner: Owner,
    content: &dyn Fn(&File, &File) -> io::Result<()>,
) -> Result<(), CloneError> {
    new_dir(to, owner)?;
    for entry in std::fs::read_dir(from).map_err(CloneError::at(from))? {
        let entry = entry.map_err(CloneError::at(from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(CloneError::at(&source))?;
        let name = entry.file_name();
        if kind.is_dir() {
            if EMPTIED.iter().any(|emptied| name == *emptied) {
                new_dir(&target, owner)?;
            } else {
                clone_tree(&source, &target, owner, content)?;
            }
        } else if !kind.is_file() {
            return Err(CloneError::Special { path: source });
        } else if !LEFT_OUT.iter().any(|left_out| name == *left_out) {
            clone_file(&source, &target, owner, content).map_err(CloneError::at(&source))?;
        }
    }
    Ok(())
}

/// Makes an empty directory of mode 0700.
pub(super) fn new_dir(path: &Path, owner: Owner) -> Result<(), CloneError> {
    DirBuilder::new().mode(0o700).create(path).map_err(CloneError::at(path))?;
    if let Some((uid, gid)) = owner {
        chown(path, Some(uid), Some(gid)).map_err(CloneError::at(path))?;
    }
    Ok(())
}

/// Gives every directory and file of a tree these modes.
pub(super) fn set_modes(dir: &Path, dirs: u32, files: u32) -> Result<(), CloneError> {
    // A closed directory is opened first: else nothing in it can be reached.
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(CloneError::at(path))
    };
    mode(dir, 0o700)?;
    for entry in std::fs::read_dir(dir).map_err(CloneError::at(dir))? {
        let entry = entry.map_err(CloneError::at(dir))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(CloneError::at(&path))?;
        if kind.is_dir() {
            set_modes(&path, dirs, files)?;
        } else if kind.is_file() {
            mode(&path, files)?;
        }
    }
    mode(dir, dirs)
}

/// Deletes a tree, sealed or not. Links are deleted, never followed. What is gone already is fine.
pub(super) fn delete(dir: &Path) -> Result<(), CloneError> {
    match std::fs::remove_dir_all(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            set_modes(dir, 0o700, 0o600)?;
            std::fs::remove_dir_all(dir).map_err(CloneError::at(dir))
        }
        other => other.map_err(CloneError::at(dir)),
    }
}

/// Adds up a tree. A file that vanishes meanwhile is left out.
pub(super) fn usage(dir: &Path) -> Result<Usage, CloneError> {
    let mut total = Usage::default();
    let entries = match std::fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(total),
        other => other.map_err(CloneError::at(dir))?,
    };
    for entry in entries {
        let entry = entry.map_err(CloneError::at(dir))?;
        let meta = match entry.metadata() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            other => other.map_err(CloneError::at(dir))?,
        };
        if meta.is_dir() {
            let below = usage(&entry.path())?;
            total.files += below.files;
            total.bytes += below.bytes;
        } else {
            total.files += 1;
            // st_blocks counts 512-byte units whatever the block size (stat(2)).
            total.bytes += meta.blocks() * 512;
        }
    }
    Ok(total)
}

fn clone_file(
    source: &Path,
    target: &Path,
    owner: Owner,
    content: &dyn Fn(&File, &File) -> io::Result<()>,
) -> io::Result<()> {
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let from = OpenOptions::new().read(true).custom_flags(no_follow).open(source)?;
    let to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(target)?;
    if let Some((uid, gid)) = owner {
        fchown(&to, Some(uid), Some(gid))?;
    }
    content(&from, &to)
}
