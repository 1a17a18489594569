//! Queries: what may hide inside a SELECT, INSERT, UPDATE, DELETE or MERGE.
//!
//! One pass over the tokens with a small stack, one level per parenthesis. Where PostgreSQL's
//! grammar lets a statement start (at the front, after an opening parenthesis, after the list of
//! a WITH), the words INSERT, UPDATE, DELETE and MERGE are statements if what follows fits;
//! everywhere else they are names. INTO is reserved and makes a table unless it belongs to an
//! INSERT or MERGE. FOR UPDATE and its like lock rows. A name before a parenthesis is a call.

use super::cursor::{Cursor, is_reserved, owned};
use super::functions::{self, Effect};
use super::statement::Effects;
use super::{MOST_NESTED_TEXTS, read_nested};
use crate::gate::class::Classes;
use crate::gate::facts::Name;
use crate::gate::kind::Kind;
use crate::gate::lexer::TokenKind;

/// What is known about one level of parentheses.
#[derive(Default)]
struct Level {
    /// Nothing but opening parentheses so far.
    at_start: bool,
    /// Between WITH and the statement it belongs to.
    in_with: bool,
    recursive: bool,
    /// The name of the WITH query whose body is awaited.
    awaited: Option<Vec<u8>>,
    /// This level is the body of a WITH query.
    is_with_body: bool,
    /// Commas separate tables here.
    in_from: bool,
    /// A DELETE or MERGE, whose USING names tables.
    using_names: bool,
    /// Arguments of EXTRACT, SUBSTRING, TRIM and OVERLAY, in which FROM and FOR mean other things.
    special: bool,
    /// How many WITH queries were known when it opened.
    known: usize,
}

/// What the next name is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Nothing,
    /// A table to read, unless a WITH query has this name.
    Source,
    /// A table to change.
    Target,
}

struct Scan {
    levels: Vec<Level>,
    with_names: Vec<Vec<u8>>,
    expect: Expect,
    /// The last INSERT or MERGE that was a statement.
    last_dml: Option<usize>,
    changes: Classes,
}

impl Scan {
    fn level(&mut self) -> &mut Level {
        if self.levels.is_empty() {
            self.levels.push(Level::default());
        }
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }
}

impl Effects<'_> {
    /// A query statement: adds `read` unless it changes something.
    pub(super) fn query(&mut self, c: Cursor<'_, '_>) {
        if self.scan(c).is_empty() {
            self.needs(Classes::READ);
        }
    }

    /// Adds what the tokens need, and gives back the classes of the changes among it. Settings
    /// count as needed, but are no change of persistent state.
    pub(super) fn scan(&mut self, c: Cursor<'_, '_>) -> Classes {
        let mut scan = Scan {
            levels: vec![Level { at_start: true, ..Level::default() }],
            with_names: Vec::new(),
            expect: Expect::Nothing,
            last_dml: None,
            changes: Classes::NONE,
        };
        for at in 0..c.len() {
            let Some(token) = c.get(at) else { break };
            match token.kind {
                TokenKind::Symbol(b'(' | b'[') => self.open(c, at, &mut scan),
                TokenKind::Symbol(b')' | b']') => close(&mut scan),
                TokenKind::Symbol(b',') => {
                    if scan.level().in_from {
                        scan.expect = Expect::Source;
                    }
                }
                TokenKind::Word => self.word(c, at, &mut scan),
                TokenKind::Quoted => self.identifier(c, at, &mut scan),
                _ => {
                    scan.expect = Expect::Nothing;
                    scan.level().at_start = false;
                }
            }
        }
        self.needs(scan.changes);
        scan.changes
    }

    fn open(&mut self, c: Cursor<'_, '_>, at: usize, scan: &mut Scan) {
        let before = at.checked_sub(1).map_or(&b""[..], |i| c.word(i));
        let known = scan.with_names.len();
        let outer = scan.level();
        let is_with_body = outer.in_with && matches!(before, b"as" | b"materialized");
        let special = matches!(
            before,
            b"extract" | b"substring" | b"trim" | b"overlay" | b"position" | b"normalize"
        );
        // FROM (a JOIN b …) goes on naming tables inside.
        let in_from = scan.expect != Expect::Nothing;
        scan.levels.push(Level {
            at_start: true,
            is_with_body,
            special,
            in_from,
            known,
            ..Level::default()
        });
    }

    fn word(&mut self, c: Cursor<'_, '_>, at: usize, scan: &mut Scan) {
        let word = c.word(at);
        let at_start = std::mem::take(&mut scan.level().at_start);
        let expect = std::mem::replace(&mut scan.expect, Expect::Nothing);
        match word {
            b"with" => {
                let named = c.identifier(at + 1).is_some_and(|n| n != b"ordinality")
                    && (c.word(at + 2) == b"as" || c.is_symbol(at + 2, b'('));
                if at_start || c.word(at + 1) == b"recursive" || named {
                    let recursive = c.word(at + 1) == b"recursive";
                    let level = scan.level();
                    level.in_with = true;
                    level.recursive = recursive;
                }
            }
            b"select" | b"values" => {
                let level = scan.level();
                level.in_with = false;
                level.in_from = false;
                self.call(c, at, scan);
            }
            b"table" => {
                let level = scan.level();
                level.in_with = false;
                level.in_from = false;
                scan.expect = Expect::Source;
            }
            b"insert" | b"merge" | b"delete" | b"update" => {
                if (at_start || scan.level().in_with) && fits(c, at) {
                    self.change(c, at, scan);
                } else {
                    scan.level().at_start = false;
                    scan.expect = expect;
                    self.identifier(c, at, scan);
                }
            }
            b"into" => {
                scan.expect = Expect::Target;
                if scan.last_dml != at.checked_sub(1) || at == 0 {
                    scan.changes = scan.changes.and(Classes::MIGRATE);
                    self.needs_because(Classes::MIGRATE, || "SELECT INTO".to_owned());
                    self.inner.push(Kind::of("SELECT INTO"));
                }
            }
            b"temp" | b"temporary" | b"unlogged" | b"local" | b"global"
                if expect == Expect::Target && c.identifier(at + 1).is_some() =>
            {
                scan.expect = expect;
            }
            b"for" => {
                let locks = c.word(at + 1) == b"update"
                    || c.word(at + 1) == b"share"
                    || c.words(at + 1, &["no", "key", "update"])
                    || c.words(at + 1, &["key", "share"]);
                if locks {
                    scan.changes = scan.changes.and(Classes::WRITE);
                    self.needs_because(Classes::WRITE, || "SELECT FOR UPDATE".to_owned());
                    self.inner.push(Kind::of("SELECT FOR UPDATE"));
                }
            }
            b"from" => {
                let distinct = at > 0 && c.word(at - 1) == b"distinct";
                let level = scan.level();
                if !level.special && !distinct {
                    level.in_from = true;
                    scan.expect = Expect::Source;
                }
            }
            b"join" => scan.expect = Expect::Source,
            b"using" => {
                let level = scan.level();
                if std::mem::take(&mut level.using_names) {
                    level.in_from = true;
                    scan.expect = Expect::Source;
                }
            }
            b"only" | b"lateral" => scan.expect = expect,
            b"where" | b"group" | b"having" | b"order" | b"limit" | b"offset" | b"fetch"
            | b"window" | b"union" | b"intersect" | b"except" | b"returning" => {
                scan.level().in_from = false;
            }
            b"set" if expect == Expect::Nothing => {
                scan.level().in_from = false;
                self.call(c, at, scan);
            }
            _ => {
                scan.expect = expect;
                self.identifier(c, at, scan);
            }
        }
    }

    /// A statement that changes rows starts at `at`.
    fn change(&mut self, c: Cursor<'_, '_>, at: usize, scan: &mut Scan) {
        let word = c.word(at);
        let level = scan.level();
        level.in_with = false;
        level.in_from = false;
        level.using_names = matches!(word, b"delete" | b"merge");
        scan.changes = scan.changes.and(Classes::WRITE);
        let kind = match word {
            b"insert" => "INSERT",
            b"merge" => "MERGE",
            b"delete" => "DELETE",
            _ => "UPDATE",
        };
        if at > 0 {
            self.inner.push(Kind::of(kind));
        }
        match word {
            b"update" => {
                scan.expect = Expect::Target;
                let mut target = at + 1;
                while c.word(target) == b"only" || c.is_symbol(target, b'(') {
                    target += 1;
                }
                // The view's rule turns an UPDATE into set_config of whatever rows it meets.
                if let Some((name, _)) = c.name(target)
                    && name.last() == "pg_settings"
                {
                    scan.changes = scan.changes.and(Classes::ADMIN);
                    let because = || "an UPDATE of pg_settings".to_owned();
                    self.needs_because(Classes::ADMIN, because);
                }
            }
            b"delete" => {}
            _ => scan.last_dml = Some(at),
        }
    }

    /// An identifier, or a word that may be one.
    fn identifier(&mut self, c: Cursor<'_, '_>, at: usize, scan: &mut Scan) {
        let expect = std::mem::replace(&mut scan.expect, Expect::Nothing);
        let after_dot = at > 0 && c.is_symbol(at - 1, b'.');
        let Some(text) = c.identifier(at) else { return };
        let is_word = !c.word(at).is_empty();
        let level = scan.level();
        level.at_start = false;
        if level.in_with
            && at > 0
            && (matches!(c.word(at - 1), b"with" | b"recursive") || c.is_symbol(at - 1, b','))
        {
            if level.recursive {
                let name = text.to_vec();
                if text != b"recursive" {
                    scan.with_names.push(name);
                }
            } else {
                level.awaited = Some(text.to_vec());
            }
            return;
        }
        if expect != Expect::Nothing
            && !after_dot
            && !(is_word && is_reserved(text))
            && let Some((name, end)) = c.name(at)
            && (!c.is_symbol(end, b'(') || expect == Expect::Target)
        {
            let is_with_query = expect == Expect::Source
                && name.0.len() == 1
                && scan.with_names.iter().any(|known| known == text);
            if !is_with_query {
                self.table(name);
            }
            if expect == Expect::Target {
                return;
            }
        }
        // `DELETE FROM x`: the name after FROM is changed, and no WITH query hides it.
        self.call(c, at, scan);
    }

    /// If a call starts (or its last name part stands) at `at`, what it needs.
    fn call(&mut self, c: Cursor<'_, '_>, at: usize, scan: &mut Scan) {
        if !c.is_symbol(at + 1, b'(') {
            return;
        }
        let Some(name) = c.identifier(at) else { return };
        match functions::effect(name) {
            None => {}
            Some(Effect::Needs(classes)) => self.called(name, classes, scan),
            Some(Effect::SetConfig) => self.set_config(c.range(at + 2..c.closing(at + 1))),
            Some(Effect::LoOpen) => {
                let arguments = c.range(at + 2..c.closing(at + 1)).list();
                // INV_READ alone (large objects, "35.3.4. Opening an Existing Large Object").
                let reads = matches!(arguments.as_slice(), [_, mode]
                    if mode.len() == 1 && mode.written(0) == b"262144");
                if !reads {
                    self.called(name, Classes::WRITE, scan);
                }
            }
            Some(Effect::RunsText) => {
                let classes = self.nested_text(c.range(at + 2..c.closing(at + 1)));
                self.called(name, classes, scan);
            }
            Some(Effect::HidesNames) => self.overfull = true,
        }
        let is_alias = at > 0 && matches!(c.word(at - 1), b"as" | b"into");
        let is_type = at > 0 && c.is_operator(at - 1, b"::");
        if !is_alias && !is_type && !(c.word(at) == name && is_no_function(name)) {
            let mut parts = vec![owned(name)];
            let mut first = at;
            while first >= 2
                && c.is_symbol(first - 1, b'.')
                && let Some(part) = c.identifier(first - 2)
            {
                parts.insert(0, owned(part));
                first -= 2;
                if parts.len() > 3 {
                    break;
                }
            }
            self.function(Name(parts));
        }
    }

    fn called(&mut self, name: &[u8], classes: Classes, scan: &mut Scan) {
        scan.changes = scan.changes.and(classes);
        self.needs_because(classes, || format!("a call of {}", owned(name)));
    }

    /// `set_config(name, value, is_local)` with its arguments by position or by name.
    fn set_config(&mut self, arguments: Cursor<'_, '_>) {
        let (mut name, mut value) = (None, None);
        for (position, argument) in arguments.list().into_iter().enumerate() {
            let named = argument.is_operator(1, b"=>") || argument.is_operator(1, b":=");
            let (role, argument) = match (named, argument.word(0), position) {
                (true, b"setting_name", _) | (false, _, 0) => (Some(&mut name), argument),
                (true, b"new_value", _) | (false, _, 1) => (Some(&mut value), argument),
                _ => (None, argument),
            };
            if let Some(role) = role {
                *role = Some(constant(if named { argument.from(2) } else { argument }));
            }
        }
        let Some(Some(name)) = name else {
            self.settings.push("*".to_owned());
            self.needs_because(Classes::ADMIN, || "a setting by a computed name".to_owned());
            return;
        };
        self.setting(&name, Some(value.flatten()));
    }

    /// What the SQL text in a function's arguments would need.
    fn nested_text(&mut self, arguments: Cursor<'_, '_>) -> Classes {
        if self.nested >= MOST_NESTED_TEXTS {
            return Classes::ADMIN;
        }
        let mut classes = Classes::NONE;
        for (position, argument) in arguments.list().into_iter().enumerate() {
            match constant(argument) {
                Some(text) if position == 0 || looks_like_sql(&text) => {
                    let read =
                        read_nested(text.as_bytes(), self.encoding, self.caps, self.nested + 1);
                    let Ok(facts) = read else { return Classes::ADMIN };
                    classes = classes.and(facts.classes);
                    for piece in facts.pieces {
                        piece.tables.into_iter().for_each(|table| self.table(table));
                        piece.functions.into_iter().for_each(|name| self.function(name));
                        self.overfull |= piece.names_read == Some(false);
                    }
                }
                None if position == 0 => return Classes::ADMIN,
                _ => {}
            }
        }
        classes.without(Classes::READ)
    }
}

fn close(scan: &mut Scan) {
    if scan.levels.len() <= 1 {
        return;
    }
    if let Some(inner) = scan.levels.pop() {
        scan.with_names.truncate(inner.known);
        if inner.is_with_body
            && let Some(name) = scan.level().awaited.take()
        {
            scan.with_names.push(name);
        }
    }
    scan.expect = Expect::Nothing;
}

/// Can the row-changing statement that this word names start here?
fn fits(c: Cursor<'_, '_>, at: usize) -> bool {
    match c.word(at) {
        b"insert" | b"merge" => c.word(at + 1) == b"into",
        b"delete" => c.word(at + 1) == b"from",
        _ => match c.identifier(at + 1) {
            Some(word) => c.word(at + 1).is_empty() || word == b"only" || !is_reserved(word),
            None => false,
        },
    }
}

/// A string constant, a cast of its own allowed.
fn constant(c: Cursor<'_, '_>) -> Option<String> {
    let is_cast = c.is_operator(1, b"::")
        && (c.len() == 3 || (c.len() == 5 && c.is_symbol(3, b'.')))
        && matches!(c.identifier(c.len() - 1), Some(b"text" | b"varchar" | b"unknown"));
    if c.len() != 1 && !is_cast {
        return None;
    }
    if c.len() == 1 && matches!(c.word(0), b"true" | b"false") {
        return Some(owned(c.word(0)));
    }
    String::from_utf8(c.text(0)?).ok()
}

fn looks_like_sql(text: &str) -> bool {
    let start = text.trim_start().get(..6).unwrap_or_default();
    start.eq_ignore_ascii_case("select") || start.eq_ignore_ascii_case("values")
}

/// Words that stand before a parenthesis without being called.
fn is_no_function(word: &[u8]) -> bool {
    is_reserved(word)
        || matches!(
            word,
            b"values"
                | b"exists"
                | b"row"
                | b"coalesce"
                | b"nullif"
                | b"greatest"
                | b"least"
                | b"over"
                | b"filter"
                | b"set"
                | b"conflict"
                | b"key"
                | b"by"
                | b"sets"
                | b"rollup"
                | b"cube"
                | b"materialized"
                | b"between"
                | b"like"
                | b"ilike"
                | b"operator"
                | b"interval"
                | b"numeric"
                | b"decimal"
                | b"dec"
                | b"varchar"
                | b"char"
                | b"character"
                | b"nchar"
                | b"varying"
                | b"bit"
                | b"float"
                | b"time"
                | b"timestamp"
                | b"precision"
                | b"is"
                | b"join"
                | b"insert"
                | b"tablesample"
                | b"columns"
                | b"passing"
                | b"xmltable"
                | b"xmlnamespaces"
                | b"json_table"
                | b"grouping"
                | b"extract"
                | b"escape"
                | b"isnull"
                | b"notnull"
                | b"similar"
                | b"second"
                | b"zone"
                | b"matched"
                | b"search"
                | b"cycle"
                | b"within"
        )
}
