//! Every system catalog of PostgreSQL 13 to 18 and what each of its columns means to a schema.
//!
//! A catalog or column that is not listed here makes the fingerprint fail, so that a new version
//! of PostgreSQL cannot bring a kind of object that goes uncounted. The meaning of the columns is
//! that of the manual, part VII, chapter "System Catalogs".

mod access;
mod relation;
mod routine;
mod server;
mod text;
mod types;

/// A system catalog.
#[derive(Debug)]
pub(super) struct Catalog {
    pub(super) name: &'static str,
    pub(super) rows: Rows,
    pub(super) columns: &'static [(&'static str, Column)],
}

/// Which rows of a catalog are facts, and of what. SQL in here names the row `c`.
#[derive(Debug)]
pub(super) enum Rows {
    /// Facts of the object `oid` of the catalog `class`.
    Of { class: &'static str, oid: &'static str, part: &'static str, keep: &'static str },
    /// Facts of something that has no identity of its own in the database.
    Named { object: &'static str, part: &'static str, keep: &'static str },
    /// No row is a fact of the schema; why.
    None(#[expect(dead_code, reason = "read by people")] &'static str),
}

/// What a column is. The first word is the name of the fact.
#[derive(Debug)]
pub(super) enum Column {
    /// Its text.
    Value(&'static str),
    /// A letter that selects how other columns are read; an unlisted one makes the reading fail.
    Kind(&'static str, &'static str),
    /// The role that owns the object.
    Owner,
    /// The identity of an object of that catalog.
    Ref(&'static str, &'static str),
    /// The identities of several, in order.
    Refs(&'static str, &'static str),
    /// An SQL expression that tells what the column, with others, stands for.
    Sql(&'static str, &'static str),
    /// Privileges; the expression is what a null stands for.
    Grants(&'static str),
    /// Options of foreign objects, without the values that may be secrets.
    Options(&'static str),
    /// Part of the name of the object, or told by a fact of another column.
    Told,
    /// Not a fact; why.
    Not(#[expect(dead_code, reason = "read by people")] &'static str),
}

/// Columns that say where or how something is stored.
const PHYSICAL: Column = Column::Not("physical");
/// The object identifier.
const OID: (&str, Column) = ("oid", Column::Not("identifier"));
/// Objects that `initdb` did not make.
const MADE: &str = "c.oid >= 16384";
/// The same, and what the extensions brought that `initdb` creates: an extension counts the same
/// when it is dropped and made anew.
const MADE_OR_MEMBER: &str = "(c.oid >= 16384 OR EXISTS (SELECT FROM pg_depend m
    WHERE m.classid = c.tableoid AND m.objid = c.oid AND m.deptype = 'e'))";

/// All catalogs.
pub(super) fn all() -> impl Iterator<Item = &'static Catalog> {
    [relation::ALL, types::ALL, routine::ALL, access::ALL, text::ALL, server::ALL]
        .into_iter()
        .flatten()
}
