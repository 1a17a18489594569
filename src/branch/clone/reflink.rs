//! Sharing extents file by file (`FICLONE`, manual page `ioctl_ficlone(2)`): XFS, btrfs
//! and others, no privilege.

use std::path::Path;

use super::{CloneError, CloneProvider, Owner, walk};

/// Clones with reflinks; a file that cannot be shared is an error, never a copy in secret.
#[derive(Debug, Clone, Copy)]
pub struct Reflink;

impl CloneProvider for Reflink {
    fn name(&self) -> &'static str {
        "reflink"
    }

    fn prepare(&self, dir: &Path, owner: Owner) -> Result<(), CloneError> {
        walk::new_dir(dir, owner)
    }

    fn seal(&self, dir: &Path) -> Result<(), CloneError> {
        walk::set_modes(dir, 0o500, 0o400)
    }

    fn clone_dir(&self, from: &Path, to: &Path, owner: Owner) -> Result<(), CloneError> {
        walk::clone_tree(from, to, owner, &|from, to| {
            rustix::fs::ioctl_ficlone(to, from).map_err(Into::into)
        })
    }

    fn destroy(&self, dir: &Path) -> Result<(), CloneError> {
        walk::delete(dir)
    }
}
