//! The Ed25519 key that signs segment heads and the log's end.
//!
//! Whoever reads the log needs the public key from somewhere else than the log's directory: who
//! can change the segments could put a key of their own beside them.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::str::FromStr;

use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use zeroize::Zeroizing;

use super::{LogError, encode};

const PRIVATE: &str = "signing.key";
const PUBLIC: &str = "signing.pub";

/// What a signature is for; a signature for one thing is none for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The first record of a segment.
    Segment,
    /// The log's end.
    Head,
}

impl Purpose {
    fn message(self, bytes: &[u8]) -> Vec<u8> {
        let prefix: &[u8] = match self {
            Self::Segment => b"postern evidence segment\n",
            Self::Head => b"postern evidence head\n",
        };
        [prefix, bytes].concat()
    }
}

/// The private key. Its `Debug` shows the public half only.
pub struct SigningKey(Ed25519KeyPair);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public())
    }
}

impl SigningKey {
    /// Reads the key of the log in `dir`; makes one if `may_make`, that is if the log is new.
    pub fn open(dir: &Path, may_make: bool) -> Result<Self, LogError> {
        let path = dir.join(PRIVATE);
        match fs::metadata(&path) {
            Ok(found) if found.mode() & 0o077 != 0 => return Err(LogError::ExposedKey(path)),
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound && may_make => make(dir)?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(LogError::KeyMissing(dir.to_owned()));
            }
            Err(e) => return Err(LogError::file(&path)(e)),
        }
        let document = Zeroizing::new(fs::read(&path).map_err(LogError::file(&path))?);
        let pair =
            Ed25519KeyPair::from_pkcs8(&document).map_err(|_| LogError::BadKey(path.clone()))?;
        let key = Self(pair);
        key.publish(dir)?;
        Ok(key)
    }

    /// The half that checks signatures.
    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(bytes)
    }

    /// Signs `bytes`.
    pub fn sign(&self, purpose: Purpose, bytes: &[u8]) -> [u8; 64] {
        let mut signature = [0; 64];
        signature.copy_from_slice(self.0.sign(&purpose.message(bytes)).as_ref());
        signature
    }

    /// Keeps the public key beside the log for convenience.
    fn publish(&self, dir: &Path) -> Result<(), LogError> {
        let path = dir.join(PUBLIC);
        let text = format!("{}\n", self.public());
        if fs::read_to_string(&path).is_ok_and(|found| found == text) {
            return Ok(());
        }
        fs::write(&path, text).map_err(LogError::file(&path))
    }
}

/// Makes a key. The file appears whole or not at all.
fn make(dir: &Path) -> Result<(), LogError> {
    let path = dir.join(PRIVATE);
    let failed = |e| LogError::file(&path)(e);
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
        .map_err(|_| failed(io::Error::other("no randomness")))?;
    let draft = dir.join("signing.key.new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)
        .map_err(failed)?;
    file.write_all(document.as_ref()).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&draft, &path).and_then(|()| File::open(dir)?.sync_all()).map_err(failed)
}

/// A public key: 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Reads the public key that lies beside the log in `dir`.
    pub fn beside(dir: &Path) -> Result<Self, LogError> {
        let path = dir.join(PUBLIC);
        fs::read_to_string(&path).map_err(LogError::file(&path))?.trim().parse()
    }

    /// Is `signature` this key's over `bytes`?
    pub fn has_signed(&self, purpose: Purpose, bytes: &[u8], signature: &[u8; 64]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(&purpose.message(bytes), signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = LogError;

    fn from_str(text: &str) -> Result<Self, LogError> {
        encode::unhex(text.as_bytes()).map(Self).ok_or(LogError::BadPublicKey)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(SigningKey::open(dir.path(), false), Err(LogError::KeyMissing(_))));
        let key = SigningKey::open(dir.path(), true).unwrap();
        let again = SigningKey::open(dir.path(), false).unwrap();
        assert_eq!(key.public(), again.public());
        assert_eq!(PublicKey::beside(dir.path()).unwrap(), key.public());
        let mode = fs::metadata(dir.path().join(PRIVATE)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_signature_holds_for_its_bytes_and_purpose_only() {
        let dir = tempfile::tempdir().unwrap();
        let key = SigningKey::open(dir.path(), true).unwrap();
        let signature = key.sign(Purpose::Head, b"end");
        assert!(key.public().has_signed(Purpose::Head, b"end", &signature));
        assert!(!key.public().has_signed(Purpose::Segment, b"end", &signature));
        assert!(!key.public().has_signed(Purpose::Head, b"End", &signature));
    }

    #[test]
    fn a_key_that_others_can_read_or_that_is_none_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let key = SigningKey::open(dir.path(), true).unwrap();
        assert!(!format!("{key:?}").contains("seed"));
        let path = dir.path().join(PRIVATE);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(SigningKey::open(dir.path(), false), Err(LogError::ExposedKey(_))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, b"not a key").unwrap();
        assert!(matches!(SigningKey::open(dir.path(), false), Err(LogError::BadKey(_))));
        assert!("12".parse::<PublicKey>().is_err());
    }
}
