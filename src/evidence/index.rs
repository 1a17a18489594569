//! The index: which blocks of which segments can hold what is asked for.
//!
//! It is a SQLite file of its own, made from the segments and from nothing else; it can be deleted
//! at any time. It knows blocks, not records: a block must be unpacked as a whole anyway, and an
//! index of a few rows per thousand records costs the proxy nothing to speak of.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior, params};

use super::chain::Line;
use super::scan::scan;
use super::segment::Segment;
use super::{LogError, encode};

const NAME: &str = "index.db";
/// An index with another version is made anew.
const VERSION: i32 = 1;
/// The block holds a denial.
pub const DENIED: u32 = 1;

const TABLES: &str = "
    CREATE TABLE segment (number INTEGER PRIMARY KEY) STRICT;
    CREATE TABLE block (
        id INTEGER PRIMARY KEY, segment INTEGER NOT NULL, start INTEGER NOT NULL,
        end INTEGER NOT NULL, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL,
        first_time INTEGER NOT NULL, last_time INTEGER NOT NULL, flags INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX block_seq ON block (first_seq);
    CREATE INDEX block_time ON block (last_time);
    CREATE INDEX block_segment ON block (segment);
    CREATE TABLE term (
        id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, value TEXT NOT NULL, UNIQUE (kind, value)
    ) STRICT;
    CREATE TABLE posting (
        term INTEGER NOT NULL, block INTEGER NOT NULL, PRIMARY KEY (term, block)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX posting_block ON posting (block);
    CREATE TABLE session (
        id TEXT PRIMARY KEY, lease TEXT NOT NULL, run TEXT NOT NULL, branch TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX session_lease ON session (lease);
    CREATE INDEX session_run ON session (run);
    CREATE INDEX session_branch ON session (branch);
";

/// What blocks are looked up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Term {
    /// A session's id.
    Session = 1,
    /// A lease's id.
    Lease = 2,
    /// A run.
    Run = 3,
    /// A branch's id.
    Branch = 4,
}

impl Term {
    /// The column of `session` with the same meaning.
    const fn column(self) -> &'static str {
        match self {
            Self::Session => "id",
            Self::Lease => "lease",
            Self::Run => "run",
            Self::Branch => "branch",
        }
    }
}

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockAt {
    /// The segment.
    pub segment: u64,
    /// Its first byte in the plain segment.
    pub start: u64,
    /// The byte after its last.
    pub end: u64,
    /// Its first record.
    pub first_seq: u64,
}

/// Which blocks are wanted.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Only with all of these.
    pub terms: Vec<(Term, String)>,
    /// Only with records at or after this time.
    pub since: Option<u64>,
    /// Only with records at or before this time.
    pub until: Option<u64>,
    /// Only with these flags.
    pub flags: u32,
    /// Only after this record.
    pub after_seq: u64,
}

/// The index of a log.
#[derive(Debug)]
pub struct Index {
    connection: Connection,
}

impl Index {
    /// Opens the index of the log in `dir` and brings it up to date. Where the directory cannot be
    /// written to, the index is made in memory.
    pub fn open(dir: &Path) -> Result<Self, LogError> {
        let connection = match stored(dir) {
            Ok(connection) => connection,
            Err(error) => {
                tracing::debug!(%error, "the evidence index cannot be stored");
                let connection = Connection::open_in_memory()?;
                connection.execute_batch(TABLES)?;
                connection
            }
        };
        // What is still being written to is indexed for this reader only.
        connection.execute_batch("ATTACH ':memory:' AS live")?;
        connection.execute_batch(&live(TABLES))?;
        let mut index = Self { connection };
        index.refresh(dir)?;
        Ok(index)
    }

    /// Adds what is new and forgets what was removed.
    fn refresh(&mut self, dir: &Path) -> Result<(), LogError> {
        let segments = Segment::list(dir)?;
        let Some((newest, full)) = segments.split_last() else { return Ok(()) };
        self.forget(full)?;
        for segment in full {
            self.add(segment, "main")?;
        }
        self.add(newest, "live")
    }

    /// Adds the full segments only; what the writing process does in the background.
    pub fn keep(dir: &Path) -> Result<(), LogError> {
        let mut index = Self { connection: stored(dir)? };
        let segments = Segment::list(dir)?;
        let Some((_, full)) = segments.split_last() else { return Ok(()) };
        index.forget(full)?;
        full.iter().try_for_each(|segment| index.add(segment, "main"))
    }

    fn forget(&self, full: &[Segment]) -> Result<(), LogError> {
        let oldest = full.first().map_or(0, |segment| segment.number);
        let known: Option<u64> =
            self.connection.query_row("SELECT min(number) FROM main.segment", [], |r| r.get(0))?;
        if known.is_none_or(|known| known >= oldest) {
            return Ok(());
        }
        self.connection.execute(
            "DELETE FROM main.posting WHERE block IN (SELECT id FROM main.block WHERE segment < ?1)",
            [oldest],
        )?;
        self.connection.execute("DELETE FROM main.block WHERE segment < ?1", [oldest])?;
        self.connection.execute("DELETE FROM main.segment WHERE number < ?1", [oldest])?;
        Ok(())
    }

    fn add(&mut self, segment: &Segment, schema: &str) -> Result<(), LogError> {
        let known = format!("SELECT 1 FROM {schema}.segment WHERE number = ?1");
        let is_known = |connection: &Connection| {
            connection.query_row(&known, [segment.number], |_| Ok(())).optional()
        };
        if is_known(&self.connection)?.is_some() {
            return Ok(());
        }
        let source = segment.open()?;
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if is_known(&transaction)?.is_some() {
            return Ok(()); // another process was faster
        }
        let mut adder = Adder { connection: &transaction, schema, sessions: HashMap::new() };
        for block in segment.blocks(&source, 0)? {
            let block = block?;
            adder.block(segment.number, block.start, &block.bytes)?;
        }
        transaction
            .execute(&format!("INSERT INTO {schema}.segment VALUES (?1)"), [segment.number])?;
        transaction.commit()?;
        Ok(())
    }

    /// The blocks that can hold what is wanted, in order.
    pub fn blocks(&self, wanted: &Wanted) -> Result<Vec<BlockAt>, LogError> {
        let mut blocks = Vec::new();
        for schema in ["main", "live"] {
            let mut sql = format!(
                "SELECT segment, start, end, first_seq FROM {schema}.block b
                 WHERE first_seq > ?1 AND last_time >= ?2 AND first_time <= ?3 AND flags & ?4 = ?4"
            );
            for (i, (term, _)) in wanted.terms.iter().enumerate() {
                use std::fmt::Write as _;
                // Writing to a String cannot fail.
                let _ = write!(
                    sql,
                    " AND id IN (SELECT block FROM {schema}.posting WHERE term =
                      (SELECT id FROM {schema}.term WHERE kind = {} AND value = ?{}))",
                    *term as i32,
                    i + 5
                );
            }
            sql.push_str(" ORDER BY first_seq");
            let bounds = [
                wanted.after_seq,
                wanted.since.unwrap_or(0),
                wanted.until.unwrap_or(i64::MAX as u64),
                u64::from(wanted.flags),
            ];
            let mut statement = self.connection.prepare(&sql)?;
            let values = bounds
                .iter()
                .map(|bound| bound as &dyn rusqlite::ToSql)
                .chain(wanted.terms.iter().map(|(_, value)| value as &dyn rusqlite::ToSql))
                .collect::<Vec<_>>();
            let rows = statement.query_map(values.as_slice(), |row| {
                Ok(BlockAt {
                    segment: row.get(0)?,
                    start: row.get(1)?,
                    end: row.get(2)?,
                    first_seq: row.get(3)?,
                })
            })?;
            for row in rows {
                blocks.push(row?);
            }
        }
        blocks.sort_unstable_by_key(|block| block.first_seq);
        Ok(blocks)
    }

    /// The sessions of a lease, run or branch.
    pub fn sessions(&self, term: Term, value: &str) -> Result<BTreeSet<String>, LogError> {
        let column = term.column();
        let sql = format!(
            "SELECT id FROM main.session WHERE {column} = ?1
             UNION SELECT id FROM live.session WHERE {column} = ?1"
        );
        let mut statement = self.connection.prepare(&sql)?;
        let rows = statement.query_map([value], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The byte after the last whole record of the newest segment, when it was indexed.
    pub fn end(&self) -> Result<Option<(u64, u64)>, LogError> {
        let sql = "SELECT segment, end FROM live.block ORDER BY first_seq DESC LIMIT 1";
        Ok(self.connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
    }
}

fn stored(dir: &Path) -> Result<Connection, LogError> {
    let path = dir.join(NAME);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(&path, flags)?;
    connection.busy_timeout(Duration::from_secs(30))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // It can be made again at any time.
    connection.pragma_update(None, "synchronous", "OFF")?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version != VERSION {
        for table in ["segment", "block", "term", "posting", "session"] {
            transaction.execute_batch(&format!("DROP TABLE IF EXISTS main.{table}"))?;
        }
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()?;
    Ok(connection)
}

fn live(tables: &str) -> String {
    tables
        .replace("CREATE TABLE ", "CREATE TABLE live.")
        .replace("CREATE INDEX ", "CREATE INDEX live.")
}

/// Adds the blocks of a segment.
struct Adder<'a> {
    connection: &'a Connection,
    schema: &'a str,
    /// Lease, run and branch of sessions; records of completions name the session only.
    sessions: HashMap<String, Option<[String; 3]>>,
}

impl Adder<'_> {
    fn block(&mut self, segment: u64, start: u64, bytes: &[u8]) -> Result<(), LogError> {
        let mut terms = BTreeSet::new();
        let (mut first, mut last, mut end, mut flags) = (None, 0, 0, 0);
        let (mut first_time, mut last_time) = (String::new(), String::new());
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let Some(record) = line.strip_suffix(b"\n").and_then(Line::parse) else { break };
            end += line.len();
            first.get_or_insert(record.seq);
            last = record.seq;
            let owned;
            let mut facts = scan(record.body);
            if facts.escaped {
                owned = super::join::Full::parse(record.body);
                facts = owned.facts();
            }
            if first_time.is_empty() || facts.time < first_time.as_str() {
                facts.time.clone_into(&mut first_time);
            }
            if facts.time > last_time.as_str() {
                facts.time.clone_into(&mut last_time);
            }
            if facts.verdict == "denied" {
                flags |= DENIED;
            }
            let own = [facts.lease, facts.run, facts.branch];
            if facts.session.is_empty() {
                add_terms(&mut terms, "", &own);
            } else if facts.lease.is_empty() {
                let known = self.session(facts.session)?.clone().unwrap_or_default();
                add_terms(&mut terms, facts.session, &known.each_ref().map(String::as_str));
            } else {
                self.learn(facts.session, &own)?;
                add_terms(&mut terms, facts.session, &own);
            }
        }
        let Some(first) = first else { return Ok(()) };
        let time = |text: &str| encode::parse_time(text).unwrap_or(0);
        let Self { connection, schema, .. } = self;
        connection
            .prepare_cached(&format!(
                "INSERT INTO {schema}.block (segment, start, end, first_seq, last_seq, first_time,
                 last_time, flags) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
            ))?
            .execute(params![
                segment,
                start,
                start + end as u64,
                first,
                last,
                time(&first_time),
                time(&last_time),
                flags
            ])?;
        let block = connection.last_insert_rowid();
        for (term, value) in terms {
            let kind = term as i32;
            connection
                .prepare_cached(&format!(
                    "INSERT OR IGNORE INTO {schema}.term (kind, value) VALUES (?1, ?2)"
                ))?
                .execute(params![kind, value])?;
            connection
                .prepare_cached(&format!(
                    "INSERT OR IGNORE INTO {schema}.posting
                     SELECT id, ?3 FROM {schema}.term WHERE kind = ?1 AND value = ?2"
                ))?
                .execute(params![kind, value, block])?;
        }
        Ok(())
    }

    fn learn(&mut self, session: &str, own: &[&str; 3]) -> Result<(), LogError> {
        if self.sessions.get(session).is_some_and(Option::is_some) {
            return Ok(());
        }
        self.sessions.insert(session.to_owned(), Some(own.map(str::to_owned)));
        let schema = self.schema;
        self.connection
            .prepare_cached(&format!(
                "INSERT OR IGNORE INTO {schema}.session VALUES (?1, ?2, ?3, ?4)"
            ))?
            .execute(params![session, own[0], own[1], own[2]])?;
        Ok(())
    }

    fn session(&mut self, session: &str) -> Result<&Option<[String; 3]>, LogError> {
        if !self.sessions.contains_key(session) {
            // Began in an earlier segment, which is always in `main`.
            let known = self
                .connection
                .prepare_cached("SELECT lease, run, branch FROM main.session WHERE id = ?1")?
                .query_row([session], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))
                .optional()?;
            self.sessions.insert(session.to_owned(), known);
        }
        Ok(&self.sessions[session])
    }
}

fn add_terms(terms: &mut BTreeSet<(Term, String)>, session: &str, own: &[&str; 3]) {
    let [lease, run, branch] = *own;
    let all =
        [(Term::Session, session), (Term::Lease, lease), (Term::Run, run), (Term::Branch, branch)];
    for (term, value) in all {
        if !value.is_empty() && !terms.contains(&(term, value.to_owned())) {
            terms.insert((term, value.to_owned()));
        }
    }
}
