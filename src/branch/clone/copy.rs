//! Copying byte by byte: works everywhere, costs the snapshot's size each time.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use rustix::fs::{SeekFrom as Whence, copy_file_range, seek};
use rustix::io::Errno;

use super::{CloneError, CloneProvider, Owner, walk};

/// Copies. See the module.
#[derive(Debug, Clone, Copy)]
pub struct CopyFiles;

impl CloneProvider for CopyFiles {
    fn name(&self) -> &'static str {
        "copy"
    }

    fn prepare(&self, dir: &Path, owner: Owner) -> Result<(), CloneError> {
        walk::new_dir(dir, owner)
    }

    fn seal(&self, dir: &Path) -> Result<(), CloneError> {
        walk::set_modes(dir, 0o500, 0o400)
    }

    fn clone_dir(&self, from: &Path, to: &Path, owner: Owner) -> Result<(), CloneError> {
        walk::clone_tree(from, to, owner, &copy_content)
    }

    fn destroy(&self, dir: &Path) -> Result<(), CloneError> {
        walk::delete(dir)
    }
}

/// Copies what is there and leaves holes holes.
fn copy_content(from: &File, to: &File) -> io::Result<()> {
    let length = from.metadata()?.len();
    let mut at = 0;
    while at < length {
        let start = match seek(from, Whence::Data(at)) {
            Ok(start) => start,
            // Nothing but a hole follows.
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
            Err(e) => return Err(e.into()),
        };
        let end = match seek(from, Whence::Hole(start)) {
            Ok(end) => end,
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => length,
            Err(e) => return Err(e.into()),
        };
        copy_range(from, to, start, end)?;
        at = end;
    }
    // Also makes a hole at the end.
    to.set_len(length)
}

fn copy_range(from: &File, to: &File, start: u64, end: u64) -> io::Result<()> {
    let (mut at, mut target) = (start, start);
    while at < end {
        let length = usize::try_from((end - at).min(1 << 30)).unwrap_or(1 << 30);
        match copy_file_range(from, Some(&mut at), to, Some(&mut target), length) {
            // The file became shorter while we copied.
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::INTR) => {}
            // Kernels and file systems that cannot do it in the kernel: the same, by hand.
            Err(Errno::NOSYS | Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::PERM) => {
                return copy_by_hand(from, to, at, end);
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

fn copy_by_hand(mut from: &File, mut to: &File, start: u64, end: u64) -> io::Result<()> {
    from.seek(SeekFrom::Start(start))?;
    to.seek(SeekFrom::Start(start))?;
    let mut left = end - start;
    let mut buffer = vec![0; 256 << 10];
    while left > 0 {
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        from.read_exact(&mut buffer[..want])?;
        to.write_all(&buffer[..want])?;
        left -= want as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_copy_agree() {
        let dir = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..700_000u32).map(|i| i.to_le_bytes()[0]).collect();
        let path = dir.path().join("from");
        std::fs::write(&path, &bytes).unwrap();
        let from = File::open(&path).unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        copy_content(&from, &File::create(&one).unwrap()).unwrap();
        copy_by_hand(&from, &File::create(&two).unwrap(), 0, 700_000).unwrap();
        assert!(std::fs::read(&one).unwrap() == bytes && std::fs::read(&two).unwrap() == bytes);
    }
}
