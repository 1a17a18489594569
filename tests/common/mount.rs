//! Loop-mounted file systems for the tests, unmounted whatever happens.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted image; unmounted and deleted at the end.
pub struct Mount {
    dir: tempfile::TempDir,
    loop_device: String,
}

impl Mount {
    /// Where it is mounted.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("m")
    }

    /// Makes and mounts a file system; `None`, loudly, where that is not possible.
    pub fn new(kind: &str, megabytes: u64) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            super::skip(&format!("mounting {kind} needs root"));
            return None;
        }
        let dir = super::cluster::temp_dir(None);
        let image = dir.path().join("image");
        std::fs::File::create(&image)
            .unwrap()
            .set_len((megabytes + 3 * super::cluster::filler_megabytes()) << 20)
            .unwrap();
        let arguments: &[&str] = match kind {
            "xfs" => &["mkfs.xfs", "-q"],
            "btrfs" => &["mkfs.btrfs", "-q"],
            other => panic!("{other}?"),
        };
        if let Err(why) = run(arguments, &[&image]) {
            super::skip(&format!("{kind}: {why}"));
            return None;
        }
        let found = Command::new("losetup").args(["--find", "--show"]).arg(&image).output();
        let loop_device = match found {
            Ok(o) if o.status.success() => String::from_utf8(o.stdout).unwrap().trim().to_owned(),
            other => {
                super::skip(&format!("{kind}: no loop device: {other:?}"));
                return None;
            }
        };
        let mount = Self { dir, loop_device };
        std::fs::create_dir(mount.path()).unwrap();
        let device = PathBuf::from(&mount.loop_device);
        if let Err(why) = run(&["mount", "-t", kind], &[&device, &mount.path()]) {
            super::skip(&format!("{kind}: {why}"));
            return None;
        }
        Some(mount)
    }
}

/// A mounted tmpfs; unmounted at the end.
pub struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    /// One of this size; `None`, loudly, where that is not possible.
    pub fn new(megabytes: u64) -> Option<Self> {
        use std::os::unix::fs::PermissionsExt as _;
        if !rustix::process::geteuid().is_root() {
            super::skip("mounting a tmpfs needs root");
            return None;
        }
        let tmpfs = Self(super::cluster::temp_dir(None));
        std::fs::create_dir(tmpfs.path()).unwrap();
        let size = format!("size={megabytes}m,mode=0711");
        if let Err(why) = run(&["mount", "-t", "tmpfs", "-o", &size, "tmpfs"], &[&tmpfs.path()]) {
            super::skip(&format!("tmpfs: {why}"));
            return None;
        }
        std::fs::set_permissions(tmpfs.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
        Some(tmpfs)
    }

    /// Where it is mounted.
    pub fn path(&self) -> PathBuf {
        self.0.path().join("m")
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = run(&["umount", "--lazy"], &[&self.path()]);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = run(&["umount", "--lazy"], &[&self.path()]);
        let _ = run(&["losetup", "--detach", &self.loop_device], &[]);
    }
}

fn run(words: &[&str], paths: &[&Path]) -> Result<(), String> {
    let output =
        Command::new(words[0]).args(&words[1..]).args(paths).output().map_err(|e| e.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}
