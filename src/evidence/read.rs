//! Reading: events by lease, run, session, time and content.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use regex::Regex;

use super::chain::Line;
use super::index::{BlockAt, DENIED, Index, Term, Wanted};
use super::join::{Full, Joiner, LogEvent};
use super::scan::{Facts, scan};
use super::segment::{Segment, Source};
use super::{LogError, encode};

/// What is asked for. Everything that is given must hold.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of this run.
    pub run: Option<String>,
    /// Of this lease.
    pub lease: Option<String>,
    /// Of this session.
    pub session: Option<String>,
    /// Of this branch.
    pub branch: Option<String>,
    /// Statements with this verdict: `allowed` or `denied`.
    pub verdict: Option<String>,
    /// Statements that ended like this, see [`super::Outcome`].
    pub outcome: Option<String>,
    /// Began at or after this time.
    pub since: Option<jiff::Timestamp>,
    /// Began at or before this time.
    pub until: Option<jiff::Timestamp>,
    /// Statements that name this table, with or without its schema.
    pub table: Option<String>,
    /// Statements whose text, or whose error, this finds.
    pub grep: Option<Regex>,
}

impl Filter {
    fn terms(&self) -> Vec<(Term, String)> {
        let all = [
            (Term::Session, &self.session),
            (Term::Lease, &self.lease),
            (Term::Run, &self.run),
            (Term::Branch, &self.branch),
        ];
        all.into_iter().filter_map(|(term, value)| Some((term, value.clone()?))).collect()
    }

    /// Is it about statements only?
    fn is_of_statements(&self) -> bool {
        self.verdict.is_some()
            || self.outcome.is_some()
            || self.table.is_some()
            || self.grep.is_some()
    }

    /// What can be said before the end of a statement is known.
    fn may_match(
        &self,
        facts: &Facts<'_>,
        times: (u64, u64),
        sessions: Option<&BTreeSet<String>>,
    ) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        // Plans and the like name their session only; the index knows whose it is.
        let own = if !facts.session.is_empty() && facts.lease.is_empty() {
            sessions.is_none_or(|sessions| sessions.contains(facts.session))
        } else {
            is(&self.lease, facts.lease)
                && is(&self.run, facts.run)
                && is(&self.branch, facts.branch)
                && is(&self.session, facts.session)
        };
        if !own || self.verdict.as_ref().is_some_and(|verdict| verdict != facts.verdict) {
            return false;
        }
        if times == (0, u64::MAX) {
            return true;
        }
        encode::parse_time(facts.time).is_some_and(|at| at >= times.0 && at <= times.1)
    }

    /// What can be said of the whole event.
    fn matches(&self, event: &LogEvent) -> bool {
        if self.is_of_statements() && !event.is_statement() {
            return false;
        }
        self.outcome.as_ref().is_none_or(|wanted| wanted == event.text("postern.outcome"))
            && self.table.as_ref().is_none_or(|wanted| names(event, wanted))
            && self.grep.as_ref().is_none_or(|pattern| {
                ["db.query.text", "postern.message"]
                    .iter()
                    .any(|key| pattern.is_match(event.text(key)))
            })
    }
}

fn names(event: &LogEvent, wanted: &str) -> bool {
    let tables = event.get("postern.tables").and_then(serde_json::Value::as_array);
    tables.into_iter().flatten().filter_map(serde_json::Value::as_str).any(|table| {
        table == wanted || table.rsplit_once('.').is_some_and(|(_, name)| name == wanted)
    })
}

/// Reads a log, also while it is written to.
#[derive(Debug)]
pub struct Reader {
    dir: PathBuf,
    index: Index,
}

impl Reader {
    /// Opens the log in `dir` and brings its index up to date.
    pub fn open(dir: &Path) -> Result<Self, LogError> {
        if !dir.is_dir() || Segment::list(dir)?.is_empty() {
            return Err(LogError::NoLog(dir.to_owned()));
        }
        Ok(Self { dir: dir.to_owned(), index: Index::open(dir)? })
    }

    /// Gives every event that the filter lets through to `each`, in the order of the log, until
    /// `each` wants no more. (A statement that outlasts some thousand others comes when it ended.)
    pub fn read(
        &self,
        filter: &Filter,
        each: &mut impl FnMut(LogEvent) -> bool,
    ) -> Result<(), LogError> {
        let mut pass = Pass::new(self, filter)?;
        let mut each = |event: LogEvent| !filter.matches(&event) || each(event);
        let mut joiner = Joiner::ordered();
        let mut blocks = self.index.blocks(&pass.wanted)?;
        let mut last = 0;
        loop {
            for block in &blocks {
                last = block.first_seq;
                let bytes = pass.load(block)?;
                if !pass.block(&bytes, &mut joiner, &mut each) {
                    return Ok(());
                }
            }
            // Ends of what is open may lie behind the time that was asked for.
            let open = joiner.open_sessions();
            if filter.until.is_none() || open.is_empty() {
                break;
            }
            pass.ends_only = true;
            blocks.clear();
            for session in open {
                let wanted = Wanted {
                    terms: vec![(Term::Session, session)],
                    after_seq: last,
                    ..Wanted::default()
                };
                blocks.extend(self.index.blocks(&wanted)?);
            }
            blocks.sort_unstable_by_key(|block| block.first_seq);
            blocks.dedup();
            if blocks.is_empty() {
                break;
            }
        }
        joiner.finish(&mut each);
        Ok(())
    }

    /// Gives events to `each` as they become known, from the log's present end on. Call
    /// [`Follow::poll`] again and again.
    pub fn follow(&self, filter: &Filter) -> Result<Follow, LogError> {
        let (segment, at) = match self.index.end()? {
            Some(end) => end,
            None => (Segment::list(&self.dir)?.last().map_or(1, |segment| segment.number), 0),
        };
        Ok(Follow {
            dir: self.dir.clone(),
            filter: Arc::new(filter.clone()),
            sessions: Pass::new(self, filter)?.sessions,
            joiner: Joiner::prompt(),
            segment,
            at,
        })
    }
}

/// One reading.
struct Pass<'a> {
    dir: &'a Path,
    filter: &'a Filter,
    wanted: Wanted,
    times: (u64, u64),
    /// The sessions that the filter's lease, run or branch has; `None` when it names none.
    sessions: Option<BTreeSet<String>>,
    ends_only: bool,
    open: Option<(Segment, Source)>,
}

impl<'a> Pass<'a> {
    fn new(reader: &'a Reader, filter: &'a Filter) -> Result<Self, LogError> {
        let micros = |time: jiff::Timestamp| u64::try_from(time.as_microsecond()).unwrap_or(0);
        let (since, until) = (filter.since.map(micros), filter.until.map(micros));
        let wanted = Wanted {
            terms: filter.terms(),
            since,
            until,
            flags: if filter.verdict.as_deref() == Some("denied") { DENIED } else { 0 },
            after_seq: 0,
        };
        let mut sessions = None;
        for (term, value) in &wanted.terms {
            let found = reader.index.sessions(*term, value)?;
            sessions = Some(match sessions {
                Some(known) => &known & &found,
                None => found,
            });
        }
        Ok(Self {
            dir: &reader.dir,
            filter,
            wanted,
            times: (since.unwrap_or(0), until.unwrap_or(u64::MAX)),
            sessions,
            ends_only: false,
            open: None,
        })
    }

    fn load(&mut self, block: &BlockAt) -> Result<Vec<u8>, LogError> {
        if self.open.as_ref().is_none_or(|(segment, _)| segment.number != block.segment) {
            let segment = Segment::new(self.dir, block.segment);
            let source = segment.open()?;
            self.open = Some((segment, source));
        }
        match &self.open {
            Some((segment, source)) => segment.read(source, block.start, block.end),
            None => Ok(Vec::new()),
        }
    }

    /// False when `each` wants no more.
    fn block(
        &self,
        bytes: &[u8],
        joiner: &mut Joiner,
        each: &mut impl FnMut(LogEvent) -> bool,
    ) -> bool {
        for line in bytes.split(|byte| *byte == b'\n') {
            let Some(line) = Line::parse(line) else { continue };
            if !offer(self, &line, joiner, each) {
                return false;
            }
        }
        true
    }
}

/// What decides which records are looked at in full.
trait Sieve {
    fn passes(&self, facts: &Facts<'_>) -> bool;
}

impl Sieve for Pass<'_> {
    fn passes(&self, facts: &Facts<'_>) -> bool {
        !self.ends_only && self.filter.may_match(facts, self.times, self.sessions.as_ref())
    }
}

fn offer(
    sieve: &impl Sieve,
    line: &Line<'_>,
    joiner: &mut Joiner,
    each: &mut impl FnMut(LogEvent) -> bool,
) -> bool {
    let owned;
    let mut facts = scan(line.body);
    if facts.escaped {
        owned = Full::parse(line.body);
        facts = owned.facts();
    }
    let wanted = if facts.event == "statement.end" {
        joiner.awaits(facts.session, facts.statement)
    } else {
        sieve.passes(&facts)
    };
    !wanted || joiner.push(line, each)
}

/// Events as they come.
#[derive(Debug)]
pub struct Follow {
    dir: PathBuf,
    filter: Arc<Filter>,
    sessions: Option<BTreeSet<String>>,
    joiner: Joiner,
    segment: u64,
    at: u64,
}

impl Sieve for Follow {
    fn passes(&self, facts: &Facts<'_>) -> bool {
        self.filter.may_match(facts, (0, u64::MAX), self.sessions.as_ref())
    }
}

impl Follow {
    /// Gives what has come since the last call. False when `each` wants no more.
    pub fn poll(&mut self, each: &mut impl FnMut(LogEvent) -> bool) -> Result<bool, LogError> {
        let mut joiner = std::mem::replace(&mut self.joiner, Joiner::prompt());
        let result = self.read_on(&mut joiner, each);
        self.joiner = joiner;
        result
    }

    fn read_on(
        &mut self,
        joiner: &mut Joiner,
        each: &mut impl FnMut(LogEvent) -> bool,
    ) -> Result<bool, LogError> {
        let filter = Arc::clone(&self.filter);
        let mut each = |event: LogEvent| !filter.matches(&event) || each(event);
        loop {
            // Looked at before reading: a segment that is followed by another gets no more lines.
            let next = Segment::list(&self.dir)?.into_iter().find(|s| s.number > self.segment);
            let segment = Segment::new(&self.dir, self.segment);
            let source = segment.open()?;
            let mut position = self.at;
            let from = if matches!(source, Source::Plain { .. }) { self.at } else { 0 };
            for block in segment.blocks(&source, from)? {
                let block = block?;
                let mut start = block.start;
                for line in block.bytes.split_inclusive(|byte| *byte == b'\n') {
                    let end = start + line.len() as u64;
                    let (begin, whole) = (start, line.strip_suffix(b"\n"));
                    start = end;
                    let Some(text) = whole else { break };
                    if begin < self.at {
                        continue; // read before it was packed
                    }
                    position = end;
                    let Some(line) = Line::parse(text) else { continue };
                    self.learn(&line);
                    if !offer(self, &line, joiner, &mut each) {
                        self.at = position;
                        return Ok(false);
                    }
                }
            }
            self.at = position;
            match next {
                Some(next) => (self.segment, self.at) = (next.number, 0),
                None => return Ok(true),
            }
        }
    }

    /// A session that begins while we follow may be one of those asked for.
    fn learn(&mut self, line: &Line<'_>) {
        let Some(sessions) = &mut self.sessions else { return };
        if scan(line.body).event != "session.start" {
            return;
        }
        let full = Full::parse(line.body);
        let facts = full.facts();
        if self.filter.may_match(&facts, (0, u64::MAX), None) {
            sessions.insert(facts.session.to_owned());
        }
    }
}
