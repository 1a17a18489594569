//! Kinds of statements, as policies and messages speak of them.

use std::fmt;

use serde::{Serialize, Serializer};

/// A kind of statement: its command, and for DDL the kind of object (`CREATE TABLE`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind {
    command: &'static str,
    object: &'static str,
}

/// The commands of PostgreSQL 13 to 18 that a policy can name. Those in [`WITH_OBJECT`] may be
/// followed by the kind of an object.
pub const COMMANDS: &[&str] = &[
    "ABORT",
    "ALTER",
    "ANALYZE",
    "BEGIN",
    "CALL",
    "CHECKPOINT",
    "CLOSE",
    "CLUSTER",
    "COMMENT",
    "COMMIT",
    "COMMIT PREPARED",
    "COPY FROM",
    "COPY FROM FILE",
    "COPY FROM PROGRAM",
    "COPY TO",
    "COPY TO FILE",
    "COPY TO PROGRAM",
    "CREATE",
    "DEALLOCATE",
    "DECLARE",
    "DELETE",
    "DISCARD",
    "DO",
    "DROP",
    "END",
    "EXECUTE",
    "EXPLAIN",
    "EXPLAIN ANALYZE",
    "FETCH",
    "FUNCTION CALL",
    "GRANT",
    "GRANT ROLE",
    "IMPORT FOREIGN SCHEMA",
    "INSERT",
    "LISTEN",
    "LOAD",
    "LOCK",
    "MERGE",
    "MOVE",
    "NOTIFY",
    "PREPARE",
    "PREPARE TRANSACTION",
    "REASSIGN OWNED",
    "REFRESH MATERIALIZED VIEW",
    "REINDEX",
    "RELEASE",
    "RESET",
    "REVOKE",
    "REVOKE ROLE",
    "ROLLBACK",
    "ROLLBACK PREPARED",
    "SAVEPOINT",
    "SECURITY LABEL",
    "SELECT",
    "SELECT FOR UPDATE",
    "SELECT INTO",
    "SET",
    "SET CONSTRAINTS",
    "SET TRANSACTION",
    "SHOW",
    "START",
    "STARTUP",
    "TABLE",
    "TRUNCATE",
    "UNLISTEN",
    "UPDATE",
    "VACUUM",
    "VALUES",
];

/// Commands whose kind names an object too.
pub const WITH_OBJECT: &[&str] = &["ALTER", "CREATE", "DROP"];

/// Kinds of objects; of two that start alike, the longer comes first.
pub const OBJECTS: &[&str] = &[
    "ACCESS METHOD",
    "AGGREGATE",
    "CAST",
    "COLLATION",
    "CONVERSION",
    "DATABASE",
    "DEFAULT PRIVILEGES",
    "DOMAIN",
    "EVENT TRIGGER",
    "EXTENSION",
    "FOREIGN DATA WRAPPER",
    "FOREIGN TABLE",
    "FUNCTION",
    "GROUP",
    "INDEX",
    "LANGUAGE",
    "LARGE OBJECT",
    "MATERIALIZED VIEW",
    "OPERATOR CLASS",
    "OPERATOR FAMILY",
    "OPERATOR",
    "OWNED",
    "POLICY",
    "PROCEDURE",
    "PUBLICATION",
    "ROLE",
    "ROUTINE",
    "RULE",
    "SCHEMA",
    "SEQUENCE",
    "SERVER",
    "STATISTICS",
    "SUBSCRIPTION",
    "SYSTEM",
    "TABLE AS",
    "TABLESPACE",
    "TABLE",
    "TEXT SEARCH CONFIGURATION",
    "TEXT SEARCH DICTIONARY",
    "TEXT SEARCH PARSER",
    "TEXT SEARCH TEMPLATE",
    "TRANSFORM",
    "TRIGGER",
    "TYPE",
    "USER MAPPING",
    "USER",
    "VIEW",
];

impl Kind {
    /// A kind without an object. `command` is one of `COMMANDS`.
    pub const fn of(command: &'static str) -> Self {
        Self { command, object: "" }
    }

    /// A kind with an object, one of `OBJECTS`.
    pub const fn with(command: &'static str, object: &'static str) -> Self {
        Self { command, object }
    }

    /// The command alone.
    pub const fn command(self) -> &'static str {
        self.command
    }

    /// The kind of object; empty where there is none.
    pub const fn object(self) -> &'static str {
        self.object
    }

    /// The kind that a policy names: any case, blanks as one space. A command that takes an object
    /// stands for all of them when it is named alone.
    pub fn parse(words: &str) -> Option<Self> {
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ").to_ascii_uppercase();
        if let Some(command) = COMMANDS.iter().find(|c| **c == words) {
            return Some(Self::of(command));
        }
        let (command, object) = words.split_once(' ')?;
        let command = WITH_OBJECT.iter().find(|c| **c == command)?;
        let object = OBJECTS.iter().find(|o| **o == object)?;
        Some(Self::with(command, object))
    }

    /// Does a rule that names `self` speak of `other`?
    pub fn covers(self, other: Self) -> bool {
        self.command == other.command && (self.object.is_empty() || self.object == other.object)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.command)?;
        if !self.object.is_empty() {
            write!(f, " {}", self.object)?;
        }
        Ok(())
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
