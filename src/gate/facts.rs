//! Facts: what the gate found out about a text.

use serde::Serialize;

use super::class::Classes;
use super::kind::Kind;

/// What is known about the text of one message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// The union over the statements.
    pub classes: Classes,
    /// How many statements the server makes of it; empty ones do not count.
    pub statements: usize,
    /// The statements in their order.
    pub pieces: Vec<Piece>,
}

/// What is known about one statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Piece {
    /// What it does.
    pub classes: Classes,
    /// What kind of statement it is; for EXPLAIN, PREPARE, DECLARE and COPY the outer one.
    pub kind: Kind,
    /// The kinds inside: the statement that EXPLAIN ANALYZE runs, the DELETE in a CTE.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inner: Vec<Kind>,
    /// Byte offset of its first token.
    pub offset: usize,
    /// The same in characters from 1, as POSITION in an error counts.
    pub position: usize,
    /// Byte offset after its last token.
    pub end: usize,
    /// Tables it names, views and sequences included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Name>,
    /// Columns it names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<Name>,
    /// Functions it calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<Name>,
    /// Settings it changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    /// What made it need a class that its kind alone does not, for the person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Were the names read to the end? `None` while nobody asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names_read: Option<bool>,
}

impl Piece {
    /// `UPDATE on public.orders`, for messages.
    pub fn summary(&self) -> String {
        let kind = self.inner.first().copied().unwrap_or(self.kind);
        match (&self.because, self.tables.first()) {
            (Some(because), _) => because.clone(),
            (None, Some(table)) => format!("{kind} on {table}"),
            (None, None) => kind.to_string(),
        }
    }
}

/// A name of up to three parts, as it is meant (quotes resolved, lower case where unquoted).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(pub Vec<String>);

impl Name {
    /// The last part.
    pub fn last(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }

    /// The part before the last.
    pub fn schema(&self) -> Option<&str> {
        self.0.len().checked_sub(2).and_then(|i| self.0.get(i)).map(String::as_str)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, part) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(".")?;
            }
            f.write_str(part)?;
        }
        Ok(())
    }
}

impl Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
