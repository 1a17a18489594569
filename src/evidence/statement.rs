//! Statements, before they are sent and after.

use std::time::{Duration, Instant};

use super::event::EventCode;
use super::log::Evidence;
use super::redact::Hidden;
use super::{encode, tags};

/// What kind of statement it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StatementKind {
    /// Any other.
    #[default]
    Statement,
    /// COPY.
    Copy,
    /// A FunctionCall message.
    FunctionCall,
}

impl StatementKind {
    pub(super) const fn code(self) -> EventCode {
        match self {
            Self::Statement => EventCode::Statement,
            Self::Copy => EventCode::Copy,
            Self::FunctionCall => EventCode::FunctionCall,
        }
    }
}

/// How it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Query.
    Simple,
    /// Parse, Bind, Execute.
    Extended,
    /// FunctionCall.
    FunctionCall,
}

impl Protocol {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Extended => "extended",
            Self::FunctionCall => "function_call",
        }
    }
}

/// What the gate knows of a statement.
#[derive(Debug, Clone, Copy, Default)]
pub struct Facts<'a> {
    /// What kind it is.
    pub kind: StatementKind,
    /// `SELECT`, `CREATE TABLE`, …
    pub operation: &'a str,
    /// The classes it needs.
    pub classes: &'a [&'a str],
    /// The tables it names.
    pub tables: &'a [&'a str],
    /// The id of the rule that decided.
    pub rule: &'a str,
    /// Statements in the text, if not one.
    pub count: usize,
}

/// A statement's text and facts, ready to be recorded any number of times. Reading a text again
/// for each execution of a prepared statement would be waste.
#[derive(Debug, Clone, Default)]
pub struct StatementText {
    /// `,"key":value` pairs: facts, tags, text.
    pub(super) fields: Vec<u8>,
    pub(super) kind: StatementKind,
    pub(super) hidden: Hidden,
}

impl StatementText {
    /// Prepares a text. The bytes may be in any encoding; what is not UTF-8 is kept in base64
    /// beside the readable form.
    pub fn new(evidence: &Evidence, sql: &[u8], facts: &Facts<'_>) -> Self {
        let mut text = Self::default();
        text.set(evidence, sql, facts);
        text
    }

    /// Prepares another text in the same memory.
    pub fn set(&mut self, evidence: &Evidence, sql: &[u8], facts: &Facts<'_>) {
        let redactor = &evidence.shared().redactor;
        let (shown, hidden) = redactor.statement(sql);
        self.hidden = hidden;
        self.kind = facts.kind;
        let out = &mut self.fields;
        out.clear();
        if !facts.operation.is_empty() {
            encode::text(out, "db.operation.name", facts.operation);
        }
        if let [table] = facts.tables {
            encode::text(out, "db.collection.name", table);
        }
        if !facts.tables.is_empty() {
            encode::list(out, "postern.tables", facts.tables);
        }
        if !facts.classes.is_empty() {
            encode::list(out, "postern.class", facts.classes);
        }
        if !facts.rule.is_empty() {
            encode::text(out, "postern.rule", facts.rule);
        }
        if facts.count > 1 {
            encode::number(out, "postern.statements", facts.count as u64);
        }
        let found = tags::of_comments(sql);
        if !found.is_empty() {
            encode::key(out, "postern.tags");
            out.push(b'{');
            for (i, (key, value)) in found.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                encode::string(out, key.as_bytes());
                out.push(b':');
                encode::string(out, &redactor.message(&self.hidden, value.as_bytes()));
            }
            out.push(b'}');
        }
        encode::key(out, "db.query.text");
        encode::string(out, &shown);
        if std::str::from_utf8(&shown).is_err() {
            encode::key(out, "postern.query_base64");
            encode::bytes(out, &shown);
        }
    }

    /// Bytes it takes.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Is there no text?
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }
}

/// A bind parameter.
#[derive(Debug, Clone, Copy)]
pub struct Parameter<'a> {
    /// The bytes, as many as are known; `None` for NULL.
    pub value: Option<&'a [u8]>,
    /// Is it in binary format?
    pub binary: bool,
    /// The type's OID, 0 when the client left it to the server.
    pub type_oid: u32,
    /// How long it is, if longer than `value`.
    pub length: usize,
}

/// How a statement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did.
    Ok,
    /// The server raised an error.
    Error,
    /// The server never looked at it: an earlier message of its pipeline failed.
    Skipped,
    /// It reached its row limit and can go on.
    Suspended,
    /// The connection ended before the server answered; it may have run or not.
    Lost,
}

impl Outcome {
    /// The word in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Skipped => "skipped",
            Self::Suspended => "suspended",
            Self::Lost => "lost",
        }
    }
}

/// What came of a statement.
#[derive(Debug, Clone, Copy)]
pub struct Completion<'a> {
    /// How it ended.
    pub outcome: Outcome,
    /// Which statement of a text with several, from 0.
    pub part: u32,
    /// The command tag.
    pub tag: &'a [u8],
    /// Rows that were sent.
    pub rows: u64,
    /// Bytes of rows and COPY data to the client.
    pub bytes_to_client: u64,
    /// Bytes of COPY data from the client.
    pub bytes_from_client: u64,
    /// The error's SQLSTATE.
    pub sqlstate: &'a [u8],
    /// The error's message.
    pub message: &'a [u8],
    /// `I`, `T` or `E`, when it is known.
    pub transaction_status: Option<u8>,
    /// When the first byte of the reply came.
    pub first_byte: Option<Instant>,
    /// CPU time of the server, when it is metered.
    pub cpu: Option<Duration>,
    /// The plan's id.
    pub plan: &'a str,
}

impl Completion<'_> {
    /// One with this outcome that nothing more is known of.
    pub const fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            part: 0,
            tag: b"",
            rows: 0,
            bytes_to_client: 0,
            bytes_from_client: 0,
            sqlstate: b"",
            message: b"",
            transaction_status: None,
            first_byte: None,
            cpu: None,
            plan: "",
        }
    }

    /// Appends its fields, after those that say whose it is.
    pub(super) fn write(&self, out: &mut Vec<u8>, started: Instant, message: &[u8]) {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        encode::text(out, "postern.outcome", self.outcome.as_str());
        if self.part > 0 {
            encode::number(out, "postern.part", u64::from(self.part));
        }
        if let Some(first) = self.first_byte {
            let time = first.saturating_duration_since(started);
            encode::number(out, "postern.first_byte_us", micros(time));
        }
        encode::number(out, "postern.duration_us", micros(started.elapsed()));
        if !self.tag.is_empty() {
            encode::key(out, "postern.command_tag");
            encode::string(out, self.tag);
        }
        if self.outcome != Outcome::Skipped && self.outcome != Outcome::Lost {
            encode::number(out, "db.response.returned_rows", self.rows);
        }
        if let Some(rows) = affected_rows(self.tag) {
            encode::number(out, "postern.affected_rows", rows);
        }
        if self.bytes_to_client > 0 {
            encode::number(out, "postern.bytes_to_client", self.bytes_to_client);
        }
        if self.bytes_from_client > 0 {
            encode::number(out, "postern.bytes_from_client", self.bytes_from_client);
        }
        if !self.sqlstate.is_empty() {
            encode::key(out, "db.response.status_code");
            encode::string(out, self.sqlstate);
        }
        if !message.is_empty() {
            encode::key(out, "postern.message");
            encode::string(out, message);
        }
        if let Some(status) = self.transaction_status {
            encode::key(out, "postern.transaction_status");
            encode::string(out, &[status]);
        }
        if let Some(cpu) = self.cpu {
            encode::number(out, "postern.cpu_us", micros(cpu));
        }
        if !self.plan.is_empty() {
            encode::text(out, "postern.plan", self.plan);
        }
    }
}

/// The count in the tag of a command that changes rows (manual, "55.7. Message Formats",
/// CommandComplete).
fn affected_rows(tag: &[u8]) -> Option<u64> {
    let tag = std::str::from_utf8(tag).ok()?;
    let (command, rest) = tag.split_once(' ')?;
    let count = match command {
        "INSERT" => rest.split_once(' ')?.1, // the first number is an OID
        "UPDATE" | "DELETE" | "MERGE" | "COPY" => rest,
        _ => return None,
    };
    count.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affected_rows_are_read_from_the_tag() {
        assert_eq!(affected_rows(b"INSERT 0 5"), Some(5));
        assert_eq!(affected_rows(b"UPDATE 3"), Some(3));
        assert_eq!(affected_rows(b"COPY 12"), Some(12));
        for tag in [&b"SELECT 5"[..], b"CREATE TABLE", b"", b"INSERT 5", b"\xff 1"] {
            assert_eq!(affected_rows(tag), None);
        }
    }
}
