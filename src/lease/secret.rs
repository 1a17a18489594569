//! Where secrets are kept, and the references by which they are named.
//!
//! A lease's JSON, the state and the log hold only a reference (`file:…`); the value is read when
//! somebody who may read the file asks for it.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroize;

use crate::error::{ErrorKind, SqlState, UserFacingError};

/// A secret longer than this is a mistake, not a secret.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// The name of a place where a secret is kept: `file:/path` or `env:NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SecretRef {
    /// A file that only its owner can read.
    File(PathBuf),
    /// An environment variable of the postern process.
    Env(String),
}

impl SecretRef {
    /// Reads the secret. A file that others can read is refused.
    pub fn resolve(&self) -> Result<SecretString, SecretError> {
        match self {
            Self::File(path) => read_file(path),
            Self::Env(name) => std::env::var(name)
                .map(SecretString::from)
                .map_err(|_| SecretError::Missing { reference: self.to_string() }),
        }
    }
}

fn read_file(path: &Path) -> Result<SecretString, SecretError> {
    let failed = |source| SecretError::Io { path: path.to_owned(), source };
    let file = File::open(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            SecretError::Missing { reference: format!("file:{}", path.display()) }
        }
        _ => failed(e),
    })?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.mode() & 0o077 != 0 {
        return Err(SecretError::Exposed { path: path.to_owned() });
    }
    if metadata.len() > MAX_SECRET_BYTES {
        return Err(failed(io::Error::new(io::ErrorKind::FileTooLarge, "not a secret: too large")));
    }
    let mut text = io::read_to_string(file).map_err(failed)?;
    let secret = SecretString::from(text.trim_end_matches(['\n', '\r']));
    text.zeroize();
    Ok(secret)
}

impl FromStr for SecretRef {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some(("file", path)) if path.starts_with('/') => Ok(Self::File(PathBuf::from(path))),
            Some(("env", name)) if !name.is_empty() => Ok(Self::Env(name.to_owned())),
            _ => Err(SecretError::NoReference),
        }
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Env(name) => write!(f, "env:{name}"),
        }
    }
}

/// Keeps secrets as files of mode 0600 in one directory of mode 0700.
#[derive(Debug, Clone)]
pub struct SecretFiles {
    dir: PathBuf,
}

impl SecretFiles {
    /// Opens the directory, making it when it is not there.
    pub fn open(dir: &Path) -> Result<Self, SecretError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|source| SecretError::Io { path: dir.to_owned(), source })?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// The reference under which `name` is or will be kept.
    pub fn reference(&self, name: &str) -> SecretRef {
        SecretRef::File(self.dir.join(name))
    }

    /// Keeps `secret` under `name`, replacing what was there. Durable when it returns.
    pub fn put(&self, name: &str, secret: &SecretString) -> Result<SecretRef, SecretError> {
        let path = self.dir.join(name);
        let failed = |source| SecretError::Io { path: path.clone(), source };
        let draft = self.dir.join(format!(".{name}.new"));
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            let mut file =
                options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
            file.write_all(secret.expose_secret().as_bytes())?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            fs::rename(&draft, &path)?;
            File::open(&self.dir)?.sync_all()
        };
        write().inspect_err(|_| drop(fs::remove_file(&draft))).map_err(failed)?;
        Ok(SecretRef::File(path))
    }

    /// Forgets `name`; it need not be there.
    pub fn remove(&self, name: &str) -> Result<(), SecretError> {
        let path = self.dir.join(name);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(SecretError::Io { path, source })
            }
            _ => Ok(()),
        }
    }

    /// Removes every file whose name `keep` does not want: what a killed postern left half-made.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) -> Result<(), SecretError> {
        let failed = |source| SecretError::Io { path: self.dir.clone(), source };
        for entry in fs::read_dir(&self.dir).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if !name.to_str().is_some_and(&keep) {
                fs::remove_file(self.dir.join(&name)).map_err(failed)?;
            }
        }
        Ok(())
    }
}

/// Why a secret cannot be kept or read. Never holds the secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file system refused.
    #[error("cannot use the secret file {}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is nothing under that name.
    #[error("there is no secret at {reference}")]
    Missing {
        /// The reference.
        reference: String,
    },
    /// Others than the owner could read the file.
    #[error("the secret file {} can be read by others", path.display())]
    Exposed {
        /// Which file.
        path: PathBuf,
    },
    /// The text is no reference. It may be the secret itself, so it is not repeated.
    #[error("a secret is named by `file:/absolute/path` or `env:NAME`")]
    NoReference,
}

impl UserFacingError for SecretError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::ControlPlane
    }
    fn sqlstate(&self) -> SqlState {
        match self {
            Self::Io { .. } => SqlState::IO_ERROR,
            Self::Missing { .. } => SqlState::UNDEFINED_OBJECT,
            Self::Exposed { .. } | Self::NoReference => SqlState::CONFIG_FILE_ERROR,
        }
    }
    fn hint(&self) -> Option<String> {
        match self {
            Self::Exposed { path } => Some(format!("chmod 600 {}", path.display())),
            Self::Missing { .. } => {
                Some("The secret of an ended lease is removed; make a new lease.".to_owned())
            }
            Self::Io { .. } | Self::NoReference => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_put_can_be_resolved_by_its_reference_until_removed() {
        let dir = tempfile::tempdir().unwrap();
        let files = SecretFiles::open(&dir.path().join("secrets")).unwrap();
        let reference = files.put("lease_1", &SecretString::from("s3cret")).unwrap();
        let again: SecretRef = reference.to_string().parse().unwrap();
        assert_eq!(again.resolve().unwrap().expose_secret(), "s3cret");
        let SecretRef::File(path) = &reference else { panic!("a file") };
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o600);
        files.remove("lease_1").unwrap();
        files.remove("lease_1").unwrap();
        assert!(matches!(reference.resolve(), Err(SecretError::Missing { .. })));
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(SecretRef::File(path).resolve(), Err(SecretError::Exposed { .. })));
    }

    #[test]
    fn a_secret_given_as_reference_is_not_repeated() {
        let error = "postgresql://u:hunter2@h/d".parse::<SecretRef>().unwrap_err();
        assert!(!error.to_string().contains("hunter2"));
    }
}
