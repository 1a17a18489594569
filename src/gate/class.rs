//! Classes: what a statement does, as leases and policies speak of it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a statement does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// What no lease may do: server configuration, files, roles, other servers and sessions,
    /// identity, settings that change how SQL is read.
    Admin,
    /// Changes of the schema, and code blocks that no parser sees into.
    Migrate,
    /// Queries without side effects on persistent state.
    Read,
    /// Transaction control, harmless settings, cursors, prepared statements.
    Session,
    /// TRUNCATE.
    Truncate,
    /// Changes of rows, sequences and large objects; locks; notifications.
    Write,
}

impl Class {
    /// All classes in the order of their words.
    pub const ALL: [Self; 6] =
        [Self::Admin, Self::Migrate, Self::Read, Self::Session, Self::Truncate, Self::Write];

    /// The word used in policies and evidence.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Migrate => "migrate",
            Self::Read => "read",
            Self::Session => "session",
            Self::Truncate => "truncate",
            Self::Write => "write",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is no class.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a class; the classes are read, write, truncate, migrate, session and admin")]
pub struct UnknownClass(pub String);

impl FromStr for Class {
    type Err = UnknownClass;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|c| c.as_str() == word)
            .ok_or_else(|| UnknownClass(word.to_owned()))
    }
}

/// A set of classes. Serialized as a sorted list of words.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Class>", into = "Vec<Class>")]
pub struct Classes(u8);

impl Classes {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// `read` alone.
    pub const READ: Self = Self(Class::Read.bit());
    /// `write` alone.
    pub const WRITE: Self = Self(Class::Write.bit());
    /// `truncate` alone.
    pub const TRUNCATE: Self = Self(Class::Truncate.bit());
    /// `migrate` alone.
    pub const MIGRATE: Self = Self(Class::Migrate.bit());
    /// `session` alone.
    pub const SESSION: Self = Self(Class::Session.bit());
    /// `admin` alone.
    pub const ADMIN: Self = Self(Class::Admin.bit());
    /// The classes of changes to persistent state; beside them a statement does not need `read`.
    pub const CHANGES: Self =
        Self(Self::WRITE.0 | Self::TRUNCATE.0 | Self::MIGRATE.0 | Self::ADMIN.0);

    /// Is `class` in the set?
    pub const fn has(self, class: Class) -> bool {
        self.0 & class.bit() != 0
    }

    /// The union.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is here and not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Is there something in both?
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Is everything here in `other` too?
    pub const fn within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Is the set empty?
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members, sorted by their words.
    pub fn iter(self) -> impl Iterator<Item = Class> {
        Class::ALL.into_iter().filter(move |c| self.has(*c))
    }
}

impl From<Class> for Classes {
    fn from(class: Class) -> Self {
        Self(class.bit())
    }
}

impl From<Vec<Class>> for Classes {
    fn from(list: Vec<Class>) -> Self {
        list.into_iter().collect()
    }
}

impl From<Classes> for Vec<Class> {
    fn from(set: Classes) -> Self {
        set.iter().collect()
    }
}

impl FromIterator<Class> for Classes {
    fn from_iter<I: IntoIterator<Item = Class>>(iter: I) -> Self {
        iter.into_iter().fold(Self::NONE, |set, class| set.and(class.into()))
    }
}

impl fmt::Display for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, class) in self.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            f.write_str(class.as_str())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}
