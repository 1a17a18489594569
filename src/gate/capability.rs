//! Capabilities: what a lease lets its run do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One capability. Each stands alone: a lease lists all it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Capability {
    /// Queries without side effects.
    Read,
    /// Changes of rows.
    Write,
    /// Changes of the schema.
    Migrate,
}

impl Capability {
    /// All capabilities, weakest first.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Migrate];

    /// The word used in leases, policies and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Migrate => "migrate",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is no capability.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a capability; the capabilities are read, write and migrate")]
pub struct UnknownCapability(pub String);

impl FromStr for Capability {
    type Err = UnknownCapability;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|c| c.as_str() == word)
            .ok_or_else(|| UnknownCapability(word.to_owned()))
    }
}

/// A set of capabilities. Serialized as a sorted list of words, as in a lease's JSON.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Capability>", into = "Vec<Capability>")]
pub struct Capabilities(u8);

impl Capabilities {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// `read` alone.
    pub const READ: Self = Self(Capability::Read.bit());
    /// All three.
    pub const ALL: Self =
        Self(Capability::Read.bit() | Capability::Write.bit() | Capability::Migrate.bit());

    /// Is `capability` in the set?
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & capability.bit() != 0
    }

    /// The set with `capability` added.
    #[must_use]
    pub const fn with(self, capability: Capability) -> Self {
        Self(self.0 | capability.bit())
    }

    /// Is the set empty?
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// `read` and nothing else: such a lease can live on a standby.
    pub const fn is_read_only(self) -> bool {
        self.0 & !Capability::Read.bit() == 0
    }

    /// The members, weakest first.
    pub fn iter(self) -> impl Iterator<Item = Capability> {
        Capability::ALL.into_iter().filter(move |c| self.has(*c))
    }
}

impl From<Vec<Capability>> for Capabilities {
    fn from(list: Vec<Capability>) -> Self {
        list.into_iter().collect()
    }
}

impl From<Capabilities> for Vec<Capability> {
    fn from(set: Capabilities) -> Self {
        set.iter().collect()
    }
}

impl FromIterator<Capability> for Capabilities {
    fn from_iter<I: IntoIterator<Item = Capability>>(iter: I) -> Self {
        iter.into_iter().fold(Self::NONE, Self::with)
    }
}

impl FromStr for Capabilities {
    type Err = UnknownCapability;

    /// Reads `read,write`. Blanks around the words are allowed, an empty list is not.
    fn from_str(list: &str) -> Result<Self, Self::Err> {
        list.split(',').map(|word| word.trim().parse()).collect()
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, capability) in self.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            f.write_str(capability.as_str())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_printed_sorted() {
        let set: Capabilities = "migrate, read".parse().unwrap();
        assert_eq!(set.to_string(), "read,migrate");
        assert_eq!(serde_json::to_string(&set).unwrap(), r#"["read","migrate"]"#);
    }

    #[test]
    fn a_wrong_word_is_named() {
        assert_eq!("read,drop".parse::<Capabilities>(), Err(UnknownCapability("drop".into())));
        assert!("".parse::<Capabilities>().is_err());
    }
}
