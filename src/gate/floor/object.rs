//! CREATE, ALTER, DROP, GRANT and REVOKE.
//!
//! A definition runs nothing of what it defines. What does run while it is made is judged: the
//! query of CREATE TABLE AS and of a materialized view, the expressions that fill a new or
//! rewritten column, the bounds of a partition.

use super::Unreadable;
use super::cursor::{Cursor, owned};
use super::functions;
use super::statement::{Effects, unexpected};
use crate::gate::class::Classes;
use crate::gate::kind::{Kind, OBJECTS};

/// Objects of the whole server, and ways to other servers.
const ADMIN_OBJECTS: &[&str] = &[
    "DATABASE",
    "FOREIGN DATA WRAPPER",
    "FOREIGN TABLE",
    "GROUP",
    "OWNED",
    "ROLE",
    "SERVER",
    "SUBSCRIPTION",
    "SYSTEM",
    "TABLESPACE",
    "USER",
    "USER MAPPING",
];

impl Effects<'_> {
    pub(super) fn create(&mut self, c: Cursor<'_, '_>, wrapped: usize) -> Result<(), Unreadable> {
        let mut at = 1;
        while matches!(
            c.word(at),
            b"or"
                | b"replace"
                | b"temp"
                | b"temporary"
                | b"unlogged"
                | b"global"
                | b"local"
                | b"recursive"
                | b"trusted"
                | b"procedural"
                | b"default"
                | b"unique"
                | b"constraint"
        ) {
            at += 1;
        }
        let (object, end) = object(c, at)?;
        let kind = Kind::with("CREATE", object);
        self.object(c, wrapped, kind, end);
        match object {
            "TABLE" | "MATERIALIZED VIEW" => {
                if let Some(query) = c.find(end, &["as"]) {
                    return self.create_as(c, query + 1, wrapped);
                }
                if let Some(bounds) = c.find(end, &["values"]) {
                    self.scan(c.from(bounds));
                }
            }
            "FUNCTION" | "PROCEDURE" => self.language(c.from(end)),
            "LANGUAGE" => {
                if let Some(name) = c.text(end).or_else(|| c.identifier(end).map(<[u8]>::to_vec))
                    && !functions::is_trusted_language(&name)
                {
                    let because = || format!("language {}", owned(&name));
                    self.needs_because(Classes::ADMIN, because);
                }
            }
            "EXTENSION" => self.extension(c, skip_if_exists(c, end)),
            _ => {}
        }
        Ok(())
    }

    /// The query behind AS runs now, unless it says WITH NO DATA.
    fn create_as(
        &mut self,
        c: Cursor<'_, '_>,
        query: usize,
        wrapped: usize,
    ) -> Result<(), Unreadable> {
        if self.kind == Kind::with("CREATE", "TABLE") {
            self.kind = Kind::with("CREATE", "TABLE AS");
        }
        let runs = c.len() < 3 || !c.words(c.len() - 3, &["with", "no", "data"]);
        let before = self.classes;
        let because = self.because.clone();
        self.classes = Classes::NONE;
        self.statement(c.from(query), wrapped + 1)?;
        let inside = if self.classes.meets(Classes::CHANGES) {
            self.classes
        } else {
            self.classes.without(Classes::READ)
        };
        self.classes = before;
        if runs {
            self.needs(inside);
        } else {
            self.because = because;
        }
        // The kind of what runs inside does not say what is refused here.
        self.inner.clear();
        Ok(())
    }

    pub(super) fn alter(&mut self, c: Cursor<'_, '_>) -> Result<(), Unreadable> {
        let at = if c.word(1) == b"procedural" { 2 } else { 1 };
        let (object, end) = object(c, at)?;
        self.object(c, 0, Kind::with("ALTER", object), end);
        match object {
            "EXTENSION" => self.extension(c, end),
            // A default of a new column, and what a column is rewritten with, run for each row.
            "TABLE" => {
                let mut from = end;
                while let Some(found) = c.find(from, &["default", "using", "values"]) {
                    from = found + 1;
                    let sets_later = found > 0 && c.word(found - 1) == b"set";
                    if !sets_later {
                        let to = c.from(from).list().first().map_or(0, Cursor::len);
                        self.scan(c.range(from..from + to));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn drop_object(&mut self, c: Cursor<'_, '_>) -> Result<(), Unreadable> {
        let at = if c.word(1) == b"procedural" { 2 } else { 1 };
        let (object, end) = object(c, at)?;
        self.object(c, 0, Kind::with("DROP", object), end);
        // Dropping what stands here for a table elsewhere touches nothing there.
        if object == "FOREIGN TABLE" {
            self.classes = Classes::MIGRATE;
        }
        for part in c.from(skip_if_exists(c, end)).list().into_iter().skip(1) {
            if matches!(object, "TABLE" | "VIEW" | "MATERIALIZED VIEW" | "SEQUENCE")
                && let Some((name, _)) = part.name(0)
            {
                self.table(name);
            }
        }
        Ok(())
    }

    fn object(&mut self, c: Cursor<'_, '_>, wrapped: usize, kind: Kind, end: usize) {
        if wrapped == 0 {
            self.kind = kind;
        } else {
            self.inner.push(kind);
        }
        let object = kind.object();
        self.needs(if ADMIN_OBJECTS.contains(&object) { Classes::ADMIN } else { Classes::MIGRATE });
        let at = match object {
            "TABLE" | "VIEW" | "MATERIALIZED VIEW" | "SEQUENCE" | "FOREIGN TABLE" => {
                Some(skip_if_exists(c, end))
            }
            "INDEX" | "TRIGGER" | "POLICY" | "RULE" => c.find(end, &["on", "to"]).map(|on| on + 1),
            _ => None,
        };
        if let Some(mut at) = at {
            // A rule says ON event TO table.
            if object == "RULE" && c.word(at.saturating_sub(1)) == b"on" {
                at = c.find(at, &["to"]).map_or(at, |to| to + 1);
            }
            if c.word(at) == b"only" {
                at += 1;
            }
            if let Some((name, _)) = c.name(at) {
                self.table(name);
            }
        }
    }

    fn extension(&mut self, c: Cursor<'_, '_>, at: usize) {
        let Some(name) = c.identifier(at) else { return };
        if functions::is_dangerous_extension(name) {
            self.needs_because(Classes::ADMIN, || format!("extension {}", owned(name)));
        }
    }

    /// ON makes it a matter of objects; without it, roles change hands.
    pub(super) fn grant(
        &mut self,
        c: Cursor<'_, '_>,
        on_objects: &'static str,
        of_roles: &'static str,
    ) -> Result<(), Unreadable> {
        let Some(on) = c.find(1, &["on", "to", "from"]) else {
            return Err(unexpected(c, c.len()));
        };
        if c.word(on) != b"on" {
            self.kind = Kind::of(of_roles);
            self.needs(Classes::ADMIN);
            return Ok(());
        }
        self.kind = Kind::of(on_objects);
        self.needs(Classes::MIGRATE);
        // GRANT … ON PARAMETER hands out the server's settings (version 15).
        if c.word(on + 1) == b"parameter"
            && c.identifier(on + 2).is_some()
            && c.word(on + 2) != b"to"
        {
            self.needs_because(Classes::ADMIN, || "privileges on a setting".to_owned());
        }
        let at = if c.word(on + 1) == b"table" { on + 2 } else { on + 1 };
        if let Some((name, end)) = c.name(at)
            && (matches!(c.word(end), b"to" | b"from") || c.is_symbol(end, b','))
        {
            self.table(name);
        }
        Ok(())
    }
}

fn skip_if_exists(c: Cursor<'_, '_>, mut at: usize) -> usize {
    if c.word(at) == b"concurrently" {
        at += 1;
    }
    if c.words(at, &["if", "not", "exists"]) {
        at + 3
    } else if c.words(at, &["if", "exists"]) {
        at + 2
    } else {
        at
    }
}

/// The kind of object that is named at `at`, and where its words end.
fn object(c: Cursor<'_, '_>, at: usize) -> Result<(&'static str, usize), Unreadable> {
    for object in OBJECTS {
        let mut end = at;
        let fits = object.split(' ').all(|word| {
            let same = c.word(end).eq_ignore_ascii_case(word.as_bytes());
            end += 1;
            same
        });
        if fits {
            return Ok((object, end));
        }
    }
    Err(unexpected(c, at))
}
