//! The signed head: what the log's end was when it was last made durable.
//!
//! Without it nobody could tell a log whose last records were cut off from one that ended there.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::chain::Hash;
use super::key::{PublicKey, Purpose, SigningKey};
use super::{LogError, encode};

const NAME: &str = "head.json";

/// The log's end at some time. Whoever keeps one elsewhere can prove later that the log still
/// contains it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The number of the last record.
    pub seq: u64,
    /// Its hash, in hexadecimal.
    pub record_hash: String,
    /// The segment it is in.
    pub segment: u64,
    /// When the head was signed.
    pub time: String,
    /// The key it was signed with.
    pub public_key: String,
    /// The signature over everything above, as [`Head::covered`] spells it.
    pub signature: String,
}

impl Head {
    /// A signed head.
    pub fn sign(key: &SigningKey, seq: u64, hash: Hash, segment: u64, at: u64) -> Self {
        let text = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            String::from_utf8(out).unwrap_or_default()
        };
        let mut head = Self {
            seq,
            record_hash: text(&|out| encode::hex(out, &hash)),
            segment,
            time: text(&|out| encode::time(out, at)).trim_matches('"').to_owned(),
            public_key: key.public().to_string(),
            signature: String::new(),
        };
        let signature = key.sign(Purpose::Head, head.covered().as_bytes());
        head.signature = text(&|out| encode::hex(out, &signature));
        head
    }

    /// What the signature is over.
    pub fn covered(&self) -> String {
        format!(
            "{}\n{}\n{}\n{}\n{}\n",
            self.seq, self.record_hash, self.segment, self.time, self.public_key
        )
    }

    /// Is it signed with this key?
    pub fn is_signed_by(&self, key: PublicKey) -> bool {
        self.public_key == key.to_string()
            && encode::unhex(self.signature.as_bytes())
                .is_some_and(|s| key.has_signed(Purpose::Head, self.covered().as_bytes(), &s))
    }

    /// The hash of the last record.
    pub fn hash(&self) -> Option<Hash> {
        encode::unhex(self.record_hash.as_bytes())
    }

    /// Where the head of the log in `dir` is kept.
    pub fn path(dir: &Path) -> PathBuf {
        dir.join(NAME)
    }

    /// Reads the head; `Ok(None)` when there is none, an error text when it cannot be read.
    pub fn read(dir: &Path) -> Result<Option<Result<Self, String>>, LogError> {
        let path = Self::path(dir);
        match fs::read(&path) {
            // Only the exact spelling counts, so that no byte of the file can change unseen.
            Ok(bytes) => Ok(Some(match serde_json::from_slice::<Self>(&bytes) {
                Ok(head) if head.spelled() == bytes => Ok(head),
                Ok(_) => Err("it is spelled in another way than postern does".into()),
                Err(error) => Err(error.to_string()),
            })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(LogError::file(&path)(e)),
        }
    }

    /// Replaces the head in `dir`, durably.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        let draft = dir.join("head.json.new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(&self.spelled())?;
        file.sync_data()?;
        fs::rename(&draft, Self::path(dir))
    }

    fn spelled(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}
