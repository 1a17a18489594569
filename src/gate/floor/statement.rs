//! One statement by its leading words.

use std::collections::HashMap;

use super::cursor::{Cursor, owned};
use super::{Encoding, Unreadable, functions, settings};
use crate::gate::caps::Caps;
use crate::gate::class::Classes;
use crate::gate::facts::Name;
use crate::gate::kind::Kind;

/// What SQL's own PREPARE made earlier in the same text, by name.
pub(super) type Prepared = HashMap<Vec<u8>, Classes>;

/// Names past this number are not kept; the piece then counts as not read to the end.
const MOST_NAMES: usize = 256;

/// EXPLAIN of PREPARE of … does not exist; two wrappers do (EXPLAIN of DECLARE or CREATE TABLE AS).
const MOST_WRAPPERS: usize = 3;

/// What a statement was found to do so far.
pub(super) struct Effects<'p> {
    pub(super) caps: &'p Caps,
    pub(super) encoding: Encoding,
    /// How many texts inside texts this one stands in.
    pub(super) nested: usize,
    prepared: &'p mut Prepared,
    pub(super) kind: Kind,
    pub(super) inner: Vec<Kind>,
    pub(super) classes: Classes,
    pub(super) tables: Vec<Name>,
    pub(super) functions: Vec<Name>,
    pub(super) settings: Vec<String>,
    pub(super) because: Option<String>,
    pub(super) overfull: bool,
}

impl<'p> Effects<'p> {
    pub(super) fn new(
        caps: &'p Caps,
        encoding: Encoding,
        nested: usize,
        prepared: &'p mut Prepared,
    ) -> Self {
        Self {
            caps,
            encoding,
            nested,
            prepared,
            kind: Kind::of("SELECT"),
            inner: Vec::new(),
            classes: Classes::NONE,
            tables: Vec::new(),
            functions: Vec::new(),
            settings: Vec::new(),
            because: None,
            overfull: false,
        }
    }

    pub(super) fn needs(&mut self, classes: Classes) {
        self.classes = self.classes.and(classes);
    }

    /// Adds classes for a reason that the statement's kind does not tell.
    pub(super) fn needs_because(&mut self, classes: Classes, because: impl FnOnce() -> String) {
        if !classes.within(self.classes) && self.because.is_none() {
            self.because = Some(because());
        }
        self.needs(classes);
    }

    pub(super) fn table(&mut self, name: Name) {
        if self.tables.contains(&name) {
            return;
        }
        if self.tables.len() < MOST_NAMES {
            self.tables.push(name);
        } else {
            self.overfull = true;
        }
    }

    pub(super) fn function(&mut self, name: Name) {
        if self.functions.contains(&name) {
            return;
        }
        if self.functions.len() < MOST_NAMES {
            self.functions.push(name);
        } else {
            self.overfull = true;
        }
    }

    /// Takes the kind of a statement: the outer one's first, then those inside.
    fn is(&mut self, wrapped: usize, kind: Kind) {
        if wrapped == 0 {
            self.kind = kind;
        } else {
            self.inner.push(kind);
        }
    }

    /// Judges a statement. `wrapped` counts the statements around it.
    pub(super) fn statement(
        &mut self,
        c: Cursor<'_, '_>,
        wrapped: usize,
    ) -> Result<(), Unreadable> {
        if wrapped > MOST_WRAPPERS {
            return Err(unexpected(c, 0));
        }
        let plain = |effects: &mut Self, command: &'static str, classes: Classes| {
            effects.is(wrapped, Kind::of(command));
            effects.needs(classes);
            Ok(())
        };
        // A query may stand in any number of parentheses.
        let lead = (0..c.len()).find(|i| !c.is_symbol(*i, b'(')).unwrap_or(c.len());
        let word = c.word(lead);
        if lead > 0 && !matches!(word, b"select" | b"with" | b"values" | b"table") {
            return Err(unexpected(c, lead));
        }
        match word {
            b"select" | b"with" | b"values" | b"table" => self.query_statement(c, lead, wrapped),
            b"insert" | b"update" | b"delete" | b"merge" => self.query_statement(c, lead, wrapped),

            b"abort" => plain(self, "ABORT", Classes::SESSION),
            b"alter" => self.alter(c),
            b"analyze" | b"analyse" => {
                self.named_table(c, 1);
                plain(self, "ANALYZE", Classes::MIGRATE)
            }
            b"begin" => {
                self.transaction_modes(c);
                plain(self, "BEGIN", Classes::SESSION)
            }
            b"call" => {
                let name = c.name(1);
                if let Some((name, _)) = name {
                    self.function(name);
                }
                plain(self, "CALL", Classes::MIGRATE)?;
                self.scan(c);
                Ok(())
            }
            b"checkpoint" => plain(self, "CHECKPOINT", Classes::ADMIN),
            b"close" => plain(self, "CLOSE", Classes::SESSION),
            b"cluster" => {
                self.named_table(c, 1);
                plain(self, "CLUSTER", Classes::MIGRATE)
            }
            b"comment" => plain(self, "COMMENT", Classes::MIGRATE),
            b"commit" if c.word(1) == b"prepared" => plain(self, "COMMIT PREPARED", Classes::ADMIN),
            b"commit" => plain(self, "COMMIT", Classes::SESSION),
            b"copy" => self.copy(c, wrapped),
            b"create" => self.create(c, wrapped),
            b"deallocate" => plain(self, "DEALLOCATE", Classes::SESSION),
            b"declare" => self.declare(c, wrapped),
            b"discard" => plain(self, "DISCARD", Classes::SESSION),
            b"do" => {
                self.is(wrapped, Kind::of("DO"));
                self.needs(Classes::MIGRATE);
                self.overfull = true;
                self.language(c);
                Ok(())
            }
            b"drop" => self.drop_object(c),
            b"end" => plain(self, "END", Classes::SESSION),
            b"execute" => self.execute(c, wrapped),
            b"explain" => self.explain(c, wrapped),
            b"fetch" => plain(self, "FETCH", Classes::READ),
            b"grant" => self.grant(c, "GRANT", "GRANT ROLE"),
            b"import" => plain(self, "IMPORT FOREIGN SCHEMA", Classes::ADMIN),
            b"listen" => plain(self, "LISTEN", Classes::SESSION),
            b"load" => plain(self, "LOAD", Classes::ADMIN),
            b"lock" => {
                self.named_table(c, 1);
                plain(self, "LOCK", Classes::WRITE)
            }
            b"move" => plain(self, "MOVE", Classes::READ),
            b"notify" => plain(self, "NOTIFY", Classes::WRITE),
            b"prepare" => self.prepare(c, wrapped),
            b"reassign" => plain(self, "REASSIGN OWNED", Classes::ADMIN),
            b"refresh" => {
                let at = if c.word(3) == b"concurrently" { 4 } else { 3 };
                self.named_table(c, at);
                plain(self, "REFRESH MATERIALIZED VIEW", Classes::MIGRATE)
            }
            b"reindex" => plain(self, "REINDEX", Classes::MIGRATE),
            b"release" => plain(self, "RELEASE", Classes::SESSION),
            b"reset" => self.reset(c),
            b"revoke" => self.grant(c, "REVOKE", "REVOKE ROLE"),
            b"rollback" if c.word(1) == b"prepared" => {
                plain(self, "ROLLBACK PREPARED", Classes::ADMIN)
            }
            b"rollback" => plain(self, "ROLLBACK", Classes::SESSION),
            b"savepoint" => plain(self, "SAVEPOINT", Classes::SESSION),
            b"security" => plain(self, "SECURITY LABEL", Classes::MIGRATE),
            b"set" => self.set(c),
            b"show" => plain(self, "SHOW", Classes::READ),
            b"start" => {
                self.transaction_modes(c);
                plain(self, "START", Classes::SESSION)
            }
            b"truncate" => {
                self.truncated(c);
                plain(self, "TRUNCATE", Classes::TRUNCATE)
            }
            b"unlisten" => plain(self, "UNLISTEN", Classes::SESSION),
            b"vacuum" => {
                self.named_table(c, 1);
                plain(self, "VACUUM", Classes::MIGRATE)
            }
            _ => Err(unexpected(c, lead)),
        }
    }

    fn query_statement(
        &mut self,
        c: Cursor<'_, '_>,
        lead: usize,
        wrapped: usize,
    ) -> Result<(), Unreadable> {
        let kind = match c.word(lead) {
            b"insert" => "INSERT",
            b"update" => "UPDATE",
            b"delete" => "DELETE",
            b"merge" => "MERGE",
            b"values" => "VALUES",
            b"table" => "TABLE",
            _ => "SELECT",
        };
        self.is(wrapped, Kind::of(kind));
        self.query(c);
        Ok(())
    }

    /// EXPLAIN runs its statement only with ANALYZE; of an option that is given twice the last
    /// counts.
    fn explain(&mut self, c: Cursor<'_, '_>, wrapped: usize) -> Result<(), Unreadable> {
        let mut at = 1;
        let mut runs = false;
        let is_query = c.is_symbol(1, b'(')
            && (c.is_symbol(2, b'(')
                || matches!(c.word(2), b"select" | b"with" | b"table")
                || (c.word(2) == b"values" && c.is_symbol(3, b'(')));
        if c.is_symbol(1, b'(') && !is_query {
            let close = c.closing(1);
            for option in c.range(2..close).list() {
                if matches!(option.identifier(0), Some(b"analyze" | b"analyse")) {
                    let value = match option.len() {
                        1 => Some("true".to_owned()),
                        2 => value(option, 1),
                        _ => None,
                    };
                    runs = !value.is_some_and(|value| settings::is_false(&value));
                }
            }
            at = close + 1;
        } else {
            if matches!(c.word(at), b"analyze" | b"analyse") {
                runs = true;
                at += 1;
            }
            if c.word(at) == b"verbose" {
                at += 1;
            }
        }
        self.is(wrapped, Kind::of(if runs { "EXPLAIN ANALYZE" } else { "EXPLAIN" }));
        let before = self.classes;
        let because = self.because.take();
        self.classes = Classes::NONE;
        self.statement(c.from(at), wrapped + 1)?;
        let inside = self.classes;
        self.classes = before.and(Classes::READ);
        if runs {
            self.needs(inside);
        } else {
            // What is only planned neither runs nor explains a refusal.
            self.because = because;
            self.inner.truncate(wrapped);
        }
        Ok(())
    }

    fn prepare(&mut self, c: Cursor<'_, '_>, wrapped: usize) -> Result<(), Unreadable> {
        if c.word(1) == b"transaction" && c.is_text(2) {
            self.is(wrapped, Kind::of("PREPARE TRANSACTION"));
            self.needs(Classes::ADMIN);
            return Ok(());
        }
        let Some(inside) = c.find(2, &["as"]) else { return Err(unexpected(c, c.len())) };
        self.is(wrapped, Kind::of("PREPARE"));
        let before = self.classes;
        self.classes = Classes::NONE;
        self.statement(c.from(inside + 1), wrapped + 1)?;
        if let Some(name) = c.identifier(1) {
            // A name that stands twice (after DEALLOCATE, or in a branch of a failed pipeline)
            // needs what either needs.
            let needs = self.prepared.entry(name.to_vec()).or_default();
            *needs = needs.and(self.classes);
        }
        self.needs(before.and(Classes::SESSION));
        Ok(())
    }

    /// EXECUTE needs what was admitted under its name, so nothing more than a lease had when it
    /// sent the PREPARE; in the same text that is known.
    fn execute(&mut self, c: Cursor<'_, '_>, wrapped: usize) -> Result<(), Unreadable> {
        let Some(name) = c.identifier(1) else { return Err(unexpected(c, 1)) };
        self.is(wrapped, Kind::of("EXECUTE"));
        let known = self.prepared.get(name).copied();
        self.needs(known.unwrap_or(Classes::SESSION));
        if c.len() > 2 {
            self.scan(c.from(2));
        }
        Ok(())
    }

    fn declare(&mut self, c: Cursor<'_, '_>, wrapped: usize) -> Result<(), Unreadable> {
        let Some(inside) = c.find(2, &["for"]) else { return Err(unexpected(c, c.len())) };
        self.is(wrapped, Kind::of("DECLARE"));
        let before = self.classes;
        self.classes = Classes::NONE;
        self.statement(c.from(inside + 1), wrapped + 1)?;
        self.needs(before.and(Classes::SESSION));
        Ok(())
    }

    fn copy(&mut self, c: Cursor<'_, '_>, wrapped: usize) -> Result<(), Unreadable> {
        let Some(direction) = c.find(1, &["from", "to"]) else {
            return Err(unexpected(c, c.len()));
        };
        let reads = c.word(direction) == b"to";
        let program = c.word(direction + 1) == b"program" && c.is_text(direction + 2);
        let file = c.is_text(direction + 1);
        let client = matches!(c.word(direction + 1), b"stdin" | b"stdout");
        let (kind, classes) = match (reads, program, file || !client) {
            (true, true, _) => ("COPY TO PROGRAM", Classes::ADMIN),
            (false, true, _) => ("COPY FROM PROGRAM", Classes::ADMIN),
            (true, _, true) => ("COPY TO FILE", Classes::ADMIN),
            (false, _, true) => ("COPY FROM FILE", Classes::ADMIN),
            (true, _, false) => ("COPY TO", Classes::READ),
            (false, _, false) => ("COPY FROM", Classes::WRITE),
        };
        self.is(wrapped, Kind::of(kind));
        if c.is_symbol(1, b'(') {
            // COPY needs what its query needs, and the file or program where there is one.
            self.statement(c.range(2..c.closing(1)), wrapped + 1)?;
            if classes != Classes::READ {
                self.needs(classes);
            }
            return Ok(());
        }
        self.needs(classes);
        let at = if c.word(1) == b"binary" && c.identifier(2).is_some() && direction > 2 {
            2
        } else {
            1
        };
        if let Some((name, _)) = c.name(at) {
            self.table(name);
        }
        self.scan(c.from(direction + 1));
        Ok(())
    }

    fn truncated(&mut self, c: Cursor<'_, '_>) {
        let start = if c.word(1) == b"table" { 2 } else { 1 };
        for part in c.from(start).list() {
            let at = usize::from(part.word(0) == b"only");
            if let Some((name, _)) = part.name(at) {
                self.table(name);
            }
        }
    }

    /// The table a maintenance command names, its option words skipped.
    fn named_table(&mut self, c: Cursor<'_, '_>, mut at: usize) {
        if c.is_symbol(at, b'(') {
            at = c.closing(at) + 1;
        }
        while matches!(
            c.word(at),
            b"table" | b"only" | b"verbose" | b"full" | b"freeze" | b"analyze" | b"analyse"
        ) {
            at += 1;
        }
        if let Some((name, _)) = c.name(at) {
            self.table(name);
        }
    }

    fn transaction_modes(&mut self, c: Cursor<'_, '_>) {
        if (0..c.len()).any(|i| c.words(i, &["read", "write"])) {
            self.needs_because(Classes::WRITE, || "READ WRITE".to_owned());
        }
    }

    fn set(&mut self, c: Cursor<'_, '_>) -> Result<(), Unreadable> {
        self.is(0, Kind::of("SET"));
        let mut at = 1;
        if matches!(c.word(1), b"local" | b"session")
            && !c.is_symbol(2, b'=')
            && !(c.word(2) == b"to" && c.len() > 3)
            && c.word(2) != b"authorization"
            && !c.is_symbol(2, b'.')
        {
            at = 2;
        }
        match c.word(at) {
            b"constraints" if !self.is_assignment(c, at) => {
                self.is(0, Kind::of("SET CONSTRAINTS"));
                self.needs(Classes::SESSION);
            }
            b"transaction" | b"characteristics" if !self.is_assignment(c, at) => {
                self.is(0, Kind::of("SET TRANSACTION"));
                self.transaction_modes(c);
                self.needs(Classes::SESSION);
            }
            b"time" if c.word(at + 1) == b"zone" => self.setting("timezone", None),
            b"names" if !self.is_assignment(c, at) => {
                let named = c.len() > at + 1 && c.word(at + 1) != b"default";
                let value = named.then(|| value(c, at + 1));
                self.setting("client_encoding", value);
            }
            b"role" if !self.is_assignment(c, at) => {
                self.setting("role", Some(value(c, at + 1)));
            }
            b"session" if c.word(at + 1) == b"authorization" => {
                self.setting("session_authorization", Some(value(c, at + 2)));
            }
            b"schema" if !self.is_assignment(c, at) => self.setting("search_path", None),
            b"xml" if c.word(at + 1) == b"option" => self.setting("xmloption", None),
            b"catalog" if !self.is_assignment(c, at) => self.needs(Classes::SESSION),
            _ => {
                let Some((name, end)) = c.name(at) else { return Err(unexpected(c, at)) };
                let given = c.word(end) == b"to" || c.is_symbol(end, b'=');
                if !given && c.words(end, &["from", "current"]) {
                    self.needs(Classes::SESSION);
                    return Ok(());
                }
                if !given {
                    return Err(unexpected(c, end));
                }
                let value = match c.len() - end {
                    2 if c.word(end + 1) == b"default" => None,
                    2 => Some(value(c, end + 1)),
                    _ => Some(None),
                };
                self.setting(&name.to_string(), value);
            }
        }
        Ok(())
    }

    #[expect(clippy::unused_self, reason = "reads as a question about the statement")]
    fn is_assignment(&self, c: Cursor<'_, '_>, at: usize) -> bool {
        c.is_symbol(at + 1, b'=') || (c.word(at + 1) == b"to") || c.is_symbol(at + 1, b'.')
    }

    fn reset(&mut self, c: Cursor<'_, '_>) -> Result<(), Unreadable> {
        self.is(0, Kind::of("RESET"));
        if c.words(1, &["session", "authorization"]) {
            self.setting("session_authorization", None);
        } else if c.word(1) == b"all" {
            self.needs(Classes::SESSION);
        } else if c.words(1, &["time", "zone"]) {
            self.setting("timezone", None);
        } else if c.words(1, &["transaction", "isolation"]) {
            self.setting("transaction_isolation", None);
        } else {
            let Some((name, _)) = c.name(1) else { return Err(unexpected(c, 1)) };
            self.setting(&name.to_string(), None);
        }
        Ok(())
    }

    /// Takes a change of a setting; see [`settings::needs`] for `value`.
    pub(super) fn setting(&mut self, name: &str, value: Option<Option<String>>) {
        let needs = settings::needs(name, value.as_ref().map(Option::as_deref));
        self.needs_because(needs.without(Classes::SESSION), || match &value {
            Some(Some(value)) => format!("{name} = {value}"),
            _ => format!("a change of {name}"),
        });
        self.needs(needs);
        self.settings.push(name.to_ascii_lowercase());
    }

    /// A language other than the trusted ones, anywhere outside parentheses.
    pub(super) fn language(&mut self, c: Cursor<'_, '_>) {
        let mut at = 0;
        while let Some(found) = c.find(at, &["language"]) {
            at = found + 1;
            let name = c.text(at).or_else(|| c.identifier(at).map(<[u8]>::to_vec));
            if let Some(name) = name
                && !functions::is_trusted_language(&name)
            {
                self.needs_because(Classes::ADMIN, || format!("language {}", owned(&name)));
            }
        }
    }
}

/// A setting's value of one token: a word, a string or a number.
fn value(c: Cursor<'_, '_>, at: usize) -> Option<String> {
    match c.text(at) {
        Some(text) => String::from_utf8(text).ok(),
        None => match c.identifier(at) {
            Some(word) => Some(owned(word)),
            None => String::from_utf8(c.written(at).to_vec()).ok().filter(|v| !v.is_empty()),
        },
    }
}

/// The grammar has nothing for the token at `at`.
pub(super) fn unexpected(c: Cursor<'_, '_>, at: usize) -> Unreadable {
    match c.get(at) {
        Some(token) => Unreadable::Grammar { at: token.start(), end: token.end() },
        None => {
            let at = c.last().map_or(0, super::Token::end);
            Unreadable::Grammar { at, end: at }
        }
    }
}
