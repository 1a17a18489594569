//! Facts, and the hash tree over them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

/// A part of an object (a column, a constraint, a trigger): fact → value.
pub type Part = BTreeMap<String, String>;
/// An object: part → facts. The facts of the object itself stand under the empty name.
pub type Object = BTreeMap<String, Part>;

/// All facts about a database's schema: object → part → fact → value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Facts {
    /// The objects by name, such as `table public.orders`.
    pub objects: BTreeMap<String, Object>,
}

impl Facts {
    /// The root of the hash tree: objects, their parts and their facts, each level sorted by name,
    /// names and values preceded by their lengths, leaves and nodes told apart by their first byte.
    pub fn root(&self) -> Digest {
        node(self.objects.iter().map(|(name, object)| (name, object_digest(object))))
    }

    /// How many facts there are.
    pub fn count(&self) -> usize {
        self.objects.values().flat_map(Object::values).map(Part::len).sum()
    }
}

/// The hash of one object's subtree.
pub(super) fn object_digest(object: &Object) -> Digest {
    node(
        object
            .iter()
            .map(|(name, part)| (name, node(part.iter().map(|(name, value)| (name, leaf(value)))))),
    )
}

fn leaf(value: &str) -> Digest {
    let mut context = Context::new(&SHA256);
    context.update(&[0]);
    context.update(value.as_bytes());
    Digest::finish(context)
}

fn node<'a>(children: impl Iterator<Item = (&'a String, Digest)>) -> Digest {
    let mut context = Context::new(&SHA256);
    context.update(&[1]);
    for (name, digest) in children {
        context.update(&(name.len() as u64).to_be_bytes());
        context.update(name.as_bytes());
        context.update(&digest.0);
    }
    Digest::finish(context)
}

/// A SHA-256 hash, written as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// The hash of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(bytes);
        Self::finish(context)
    }

    fn finish(context: Context) -> Self {
        let mut bytes = [0; 32];
        // SHA-256 always gives 32 bytes.
        bytes.copy_from_slice(context.finish().as_ref());
        Self(bytes)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = BadFacts;

    fn from_str(text: &str) -> Result<Self, BadFacts> {
        let hex = text.strip_prefix("sha256:").filter(|hex| hex.len() == 64 && hex.is_ascii());
        let mut bytes = [0; 32];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = hex
                .and_then(|hex| hex.get(2 * i..2 * i + 2))
                .filter(|pair| pair.bytes().all(|b| b.is_ascii_hexdigit()))
                .and_then(|pair| u8::from_str_radix(pair, 16).ok())
                .ok_or_else(|| BadFacts::Digest(text.chars().take(80).collect()))?;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Digest {
    type Error = BadFacts;

    fn try_from(text: String) -> Result<Self, BadFacts> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

/// The facts of a schema and their hash, which always fit each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    digest: Digest,
    facts: Facts,
}

/// The form of the JSON; a change of the tree or of the meaning of facts raises it.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    format: u32,
    fingerprint: Digest,
    objects: Facts,
}

impl Fingerprint {
    /// The fingerprint of these facts.
    pub fn new(facts: Facts) -> Self {
        Self { digest: facts.root(), facts }
    }

    /// The root of the hash tree: two schemas are the same if and only if it is.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The facts it was made from.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The facts as JSON, with the hash beside them.
    pub fn to_json(&self) -> String {
        // Maps from strings to strings cannot fail to serialize.
        serde_json::json!({
            "format": FORMAT,
            "fingerprint": self.digest.to_string(),
            "objects": self.facts,
        })
        .to_string()
    }

    /// Reads what [`Fingerprint::to_json`] wrote; the hash is computed again and must fit.
    pub fn from_json(json: &str) -> Result<Self, BadFacts> {
        let saved: Saved = serde_json::from_str(json).map_err(BadFacts::Json)?;
        if saved.format != FORMAT {
            return Err(BadFacts::Format(saved.format));
        }
        let read = Self::new(saved.objects);
        if read.digest != saved.fingerprint {
            return Err(BadFacts::Mismatch { says: saved.fingerprint, is: read.digest });
        }
        Ok(read)
    }
}

/// Saved facts that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadFacts {
    /// Not JSON, or not of this shape.
    #[error("the saved facts cannot be read: {0}")]
    Json(serde_json::Error),
    /// Written by another version.
    #[error("the saved facts have format {0}; this version reads format {FORMAT}")]
    Format(u32),
    /// The facts were changed after they were saved.
    #[error("the saved facts do not fit their fingerprint: it says {says}, they give {is}")]
    Mismatch {
        /// The hash in the file.
        says: Digest,
        /// The hash of the facts in the file.
        is: Digest,
    },
    /// Not a hash.
    #[error("`{0}` is not a fingerprint; it must be `sha256:` and 64 hexadecimal digits")]
    Digest(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(of: &[(&str, &str, &str, &str)]) -> Facts {
        let mut facts = Facts::default();
        for (object, part, fact, value) in of {
            let object = facts.objects.entry((*object).to_owned()).or_default();
            let part = object.entry((*part).to_owned()).or_default();
            part.insert((*fact).to_owned(), (*value).to_owned());
        }
        facts
    }

    #[test]
    fn every_word_counts_and_none_can_move_into_its_neighbour() {
        let cases = [
            facts(&[("table a", "column b", "type", "integer")]),
            facts(&[("table a", "column b", "type", "text")]),
            facts(&[("table a", "column b", "typ", "einteger")]),
            facts(&[("table a", "column bt", "ype", "integer")]),
            facts(&[("table acolumn b", "", "type", "integer")]),
            facts(&[("table a", "", "type", "integer"), ("table a", "column b", "type", "")]),
            facts(&[]),
        ];
        let roots: std::collections::BTreeSet<_> = cases.iter().map(Facts::root).collect();
        assert_eq!(roots.len(), cases.len());
    }

    #[test]
    fn saved_facts_come_back_and_changed_ones_do_not() {
        let saved = Fingerprint::new(facts(&[("table a", "column b", "type", "integer")]));
        let json = saved.to_json();
        assert_eq!(Fingerprint::from_json(&json).unwrap(), saved);
        let changed = json.replace("integer", "text");
        assert!(matches!(Fingerprint::from_json(&changed), Err(BadFacts::Mismatch { .. })));
        let newer = json.replace("\"format\":1", "\"format\":2");
        assert!(matches!(Fingerprint::from_json(&newer), Err(BadFacts::Format(2))));
        assert!(matches!(Fingerprint::from_json("{"), Err(BadFacts::Json(_))));
    }

    #[test]
    fn a_digest_is_read_as_it_is_written() {
        let digest = Digest::of(b"abc");
        assert_eq!(
            digest.to_string(),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        for bad in ["", "sha256:", "sha256:zz", "md5:00", "sha256:+1"] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}
