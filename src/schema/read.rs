//! Reads the facts of a database.

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::{Client, Row};

use super::catalogs::{self, Catalog, Column};
use super::fact::{Digest, Facts, Fingerprint};
use super::normal::settled;
use super::query::{self, FactQuery, PINNED, Present};
use crate::error::{ErrorKind, SqlState, UserFacingError};

/// The major versions whose catalogs are known.
const KNOWN_VERSIONS: std::ops::RangeInclusive<u32> = 13..=18;

/// What of a database counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// Roles that are not the schema's: what is granted to them or by them, their settings, default
    /// privileges and memberships do not count. What they own does.
    pub ignored_roles: BTreeSet<String>,
}

/// The fingerprint of the database that `client` is connected to, as a superuser, outside any
/// transaction. It works on a standby too.
///
/// It reads in one read-only transaction and runs nothing that can be made without being a
/// superuser; only the connection itself must not have run any: a role or database setting of an
/// agent's making is overridden, a login event trigger (PostgreSQL 17) is for the caller to switch
/// off with `event_triggers=off`.
///
/// Not cancel-safe: a connection on which the future was dropped is still in the transaction and
/// must be closed.
pub async fn fingerprint(client: &Client) -> Result<Fingerprint, FingerprintError> {
    fingerprint_in(client, &Scope::default()).await
}

/// As [`fingerprint`], of what is in the scope.
pub async fn fingerprint_in(
    client: &Client,
    scope: &Scope,
) -> Result<Fingerprint, FingerprintError> {
    client
        .batch_execute("START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        .await
        .map_err(FingerprintError::Postgres)?;
    let read = read(client, scope).await;
    let ended = client.batch_execute("ROLLBACK").await;
    let facts = read?;
    ended.map_err(FingerprintError::Postgres)?;
    Ok(Fingerprint::new(facts))
}

async fn read(client: &Client, scope: &Scope) -> Result<Facts, FingerprintError> {
    client.batch_execute(PINNED).await.map_err(FingerprintError::Postgres)?;
    let major = check_server(client).await?;
    let present = check_catalogs(client).await?;
    let ignored = text_array(&scope.ignored_roles);
    let mut reading = Reading::default();
    reading.add("server", "", "major version", major.to_string());
    for catalog in catalogs::all() {
        let Some(columns) = present.get(catalog.name) else { continue };
        let queries =
            [query::facts(catalog, columns, &ignored), query::built_in_grants(catalog, &ignored)];
        for query in queries.into_iter().flatten() {
            for row in client
                .query(query.sql.as_str(), &[])
                .await
                .map_err(|error| FingerprintError::Catalog { catalog: catalog.name, error })?
            {
                reading.row(&query, &row)?;
            }
        }
        if let Some(sql) = query::built_in_rows(catalog, columns) {
            let row = client
                .query_one(sql.as_str(), &[])
                .await
                .map_err(|error| FingerprintError::Catalog { catalog: catalog.name, error })?;
            let object = format!("built-in rows of {}", catalog.name);
            reading.add(&object, "", "rows", row.try_get(0).map_err(FingerprintError::Postgres)?);
        }
    }
    Ok(reading.finish())
}

/// The server's major version, if it is known and the session is a superuser's.
async fn check_server(client: &Client) -> Result<u32, FingerprintError> {
    let row = client
        .query_one(
            "SELECT current_setting('server_version_num')::int / 10000,
                    (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)",
            &[],
        )
        .await
        .map_err(FingerprintError::Postgres)?;
    let major: i32 = row.try_get(0).map_err(FingerprintError::Postgres)?;
    let superuser: Option<bool> = row.try_get(1).map_err(FingerprintError::Postgres)?;
    if superuser != Some(true) {
        return Err(FingerprintError::NotSuperuser);
    }
    u32::try_from(major)
        .ok()
        .filter(|major| KNOWN_VERSIONS.contains(major))
        .ok_or(FingerprintError::UnknownVersion(major))
}

/// The columns of every catalog, if all are known.
async fn check_catalogs(client: &Client) -> Result<BTreeMap<String, Present>, FingerprintError> {
    let rows = client
        .query(
            "SELECT c.relname::text, a.attname::text, t.typname::text
             FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
             JOIN pg_type t ON t.oid = a.atttypid
             WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind IN ('r', 'p', 'f')
               AND c.oid < 16384 AND a.attnum > 0 AND NOT a.attisdropped",
            &[],
        )
        .await
        .map_err(FingerprintError::Postgres)?;
    let mut present: BTreeMap<String, Present> = BTreeMap::new();
    for row in rows {
        let [catalog, column, kind] = [text(&row, 0)?, text(&row, 1)?, text(&row, 2)?];
        present.entry(catalog).or_default().insert(column, kind);
    }
    let known: BTreeMap<&str, &Catalog> = catalogs::all().map(|c| (c.name, c)).collect();
    for (name, columns) in &present {
        let Some(catalog) = known.get(name.as_str()) else {
            return Err(FingerprintError::UnknownCatalog(name.clone()));
        };
        let unknown = |column: &&String| !catalog.columns.iter().any(|(name, _)| name == *column);
        if let Some(column) = columns.keys().find(unknown) {
            return Err(FingerprintError::UnknownColumn {
                catalog: catalog.name,
                column: column.clone(),
            });
        }
    }
    Ok(present)
}

/// Facts as they come in. A name can come twice (two constraints of a table and of a domain never,
/// two internal triggers of one constraint may), so each has a list of values.
#[derive(Default)]
struct Reading {
    facts: BTreeMap<(String, String, String), Vec<String>>,
    /// Facts of objects that an extension brought: extension, member → lines.
    members: BTreeMap<(String, String), Vec<String>>,
}

impl Reading {
    fn add(&mut self, object: &str, part: &str, fact: &str, value: String) {
        let key = (object.to_owned(), part.to_owned(), fact.to_owned());
        self.facts.entry(key).or_default().push(value);
    }

    fn row(&mut self, query: &FactQuery, row: &Row) -> Result<(), FingerprintError> {
        let catalog = query.catalog.name;
        let nameless = || FingerprintError::Changing { catalog };
        let object: String = optional(row, 0)?.ok_or_else(nameless)?;
        let part: String = optional(row, 1)?.ok_or_else(nameless)?;
        let extension = optional(row, 2)?;
        let values: Vec<Option<String>> = row.try_get(3).map_err(FingerprintError::Postgres)?;
        for (column, value) in query.facts.iter().zip(values) {
            let Some(value) = value else { continue };
            let fact = match column {
                Column::Kind(fact, known) if known.contains(value.as_str()) => fact,
                Column::Kind(..) => {
                    return Err(FingerprintError::UnknownKind { catalog, object, kind: value });
                }
                Column::Value(fact)
                | Column::Ref(fact, _)
                | Column::Refs(fact, _)
                | Column::Sql(fact, _)
                | Column::Options(fact) => fact,
                Column::Owner => "owner",
                Column::Grants(_) => "grants",
                Column::Told | Column::Not(_) => continue,
            };
            let value = if let Column::Sql(..) = column { settled(value) } else { value };
            match &extension {
                None => self.add(&object, &part, fact, value),
                Some(extension) => {
                    let (extension, member) =
                        (format!("extension {extension}"), format!("member {object}"));
                    if part.is_empty() && matches!(fact, "owner" | "grants" | "comment") {
                        self.add(&extension, &member, fact, value);
                    } else {
                        self.members
                            .entry((extension, member))
                            .or_default()
                            .push(format!("{part:?} {fact:?} {value:?}"));
                    }
                }
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Facts {
        // An extension's objects follow from its name and version, unless somebody altered them:
        // a hash is enough to see that.
        for ((extension, member), mut lines) in std::mem::take(&mut self.members) {
            lines.sort_unstable();
            let digest = Digest::of(lines.join("\n").as_bytes());
            self.add(&extension, &member, "definition", digest.to_string());
        }
        let mut facts = Facts::default();
        for ((object, part, fact), mut values) in self.facts {
            values.sort_unstable();
            let part = facts.objects.entry(object).or_default().entry(part).or_default();
            part.insert(fact, values.join("\n"));
        }
        facts
    }
}

fn optional(row: &Row, i: usize) -> Result<Option<String>, FingerprintError> {
    row.try_get(i).map_err(FingerprintError::Postgres)
}

fn text(row: &Row, i: usize) -> Result<String, FingerprintError> {
    row.try_get(i).map_err(FingerprintError::Postgres)
}

/// An SQL literal, under `standard_conforming_strings`, of an array of text.
fn text_array(words: &BTreeSet<String>) -> String {
    let elements: Vec<_> =
        words.iter().map(|word| format!("'{}'", word.replace('\'', "''"))).collect();
    format!("ARRAY[{}]::text[]", elements.join(", "))
}

/// Why a schema has no fingerprint.
#[derive(Debug, thiserror::Error)]
pub enum FingerprintError {
    /// Only a superuser sees all facts.
    #[error("a schema fingerprint can only be taken as a superuser")]
    NotSuperuser,
    /// A version of PostgreSQL whose catalogs are not known.
    #[error("the schema of a PostgreSQL {0} cannot be fingerprinted: 13 to 18 are known")]
    UnknownVersion(i32),
    /// A catalog that is not known.
    #[error("the schema cannot be fingerprinted: the catalog `{0}` is not known")]
    UnknownCatalog(String),
    /// A column of a catalog that is not known.
    #[error("the schema cannot be fingerprinted: the column `{catalog}.{column}` is not known")]
    UnknownColumn {
        /// The catalog.
        catalog: &'static str,
        /// Its column.
        column: String,
    },
    /// An object of a kind that is not known.
    #[error(
        "the schema cannot be fingerprinted: {object} is of the unknown kind `{kind}` ({catalog})"
    )]
    UnknownKind {
        /// The catalog.
        catalog: &'static str,
        /// The object.
        object: String,
        /// The letter that says what it is.
        kind: String,
    },
    /// Somebody changes the schema at this moment, or the catalog has a dangling reference.
    #[error("the schema cannot be fingerprinted: `{catalog}` refers to an object that is gone")]
    Changing {
        /// The catalog.
        catalog: &'static str,
    },
    /// The server failed while a catalog was read.
    #[error("reading the schema failed at `{catalog}`: {}", reason(error))]
    Catalog {
        /// The catalog.
        catalog: &'static str,
        /// What the driver says.
        #[source]
        error: tokio_postgres::Error,
    },
    /// The server or the connection failed.
    #[error("reading the schema failed: {}", reason(.0))]
    Postgres(#[source] tokio_postgres::Error),
}

pub(super) fn reason(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |db| db.message().to_owned())
}

impl UserFacingError for FingerprintError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NotSuperuser => ErrorKind::Service,
            _ => ErrorKind::Postgres,
        }
    }

    fn sqlstate(&self) -> SqlState {
        match self {
            Self::NotSuperuser => SqlState::INSUFFICIENT_PRIVILEGE,
            Self::UnknownVersion(_)
            | Self::UnknownCatalog(_)
            | Self::UnknownColumn { .. }
            | Self::UnknownKind { .. } => SqlState::FEATURE_NOT_SUPPORTED,
            Self::Changing { .. } => SqlState::OBJECT_IN_USE,
            Self::Catalog { .. } | Self::Postgres(_) => SqlState::SYSTEM_ERROR,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotSuperuser => "Connect as the superuser of the branch's server.".to_owned(),
            Self::UnknownVersion(_)
            | Self::UnknownCatalog(_)
            | Self::UnknownColumn { .. }
            | Self::UnknownKind { .. } => {
                "Nothing is passed over in silence: a version of Postern that knows it is needed."
                    .to_owned()
            }
            Self::Changing { .. } => {
                "Try again when no session changes the schema; if it stays, a catalog is damaged."
                    .to_owned()
            }
            Self::Catalog { .. } | Self::Postgres(_) => return None,
        })
    }
}
