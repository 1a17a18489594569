//! What a log that was left at any instant looks like, and how it goes on.

use std::fs::OpenOptions;
use std::path::Path;

use super::chain::{Chain, Line};
use super::head::Head;
use super::segment::{Segment, read_plain};
use super::writer::Begin;
use super::{LogError, encode};

/// How the log was found.
#[derive(Debug)]
pub struct Found {
    /// Where to go on.
    pub begin: Begin,
    /// What there is to say about it; `None` for a new log.
    pub state: Option<State>,
}

/// What recovery has to say, as it is written into the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    /// The log was closed in order.
    pub clean: bool,
    /// Bytes of a record that was not written whole, cut off.
    pub torn_bytes: u64,
    /// Records that a signed head knows and the segments lack.
    pub lost: Option<(u64, u64)>,
    /// What else is wrong.
    pub problem: Option<String>,
}

impl State {
    /// The body of the record that tells it.
    pub fn body(&self, at: u64, version: &str) -> Vec<u8> {
        let whole = self.lost.is_none() && self.problem.is_none();
        let mut body = Vec::new();
        let code = if self.clean && whole { "log.opened" } else { "log.recovered" };
        encode::begin(&mut body, at, code);
        encode::text(&mut body, "postern.version", version);
        if !self.clean {
            encode::number(&mut body, "postern.log.torn_bytes", self.torn_bytes);
        }
        if let Some((first, last)) = self.lost {
            encode::number(&mut body, "postern.log.lost_from", first);
            encode::number(&mut body, "postern.log.lost_to", last);
        }
        if let Some(problem) = &self.problem {
            encode::text(&mut body, "postern.log.problem", problem);
        }
        body
    }
}

/// Looks at the newest segment and the head, and cuts off a torn end.
///
/// Only what was never acknowledged is cut: bytes behind the last whole record, and only if no
/// signed head knows of more. Everything else stays as it is for `super::verify` to name.
pub fn recover(dir: &Path) -> Result<Found, LogError> {
    let head = Head::read(dir)?;
    let mut segments = Segment::list(dir)?;
    let Some(mut newest) = segments.pop() else {
        return Ok(match head {
            None => new_log(),
            // All segments are gone. The numbers go on, so that the gap is seen.
            Some(Ok(head)) => lost_all(&head),
            Some(Err(_)) => gone(Chain::START, 0, "segments and a readable head are missing"),
        });
    };
    let mut tail = Tail::read(&newest)?;
    let mut top = newest.number;
    let mut damaged = false;
    while tail.last.is_none() {
        // A segment of which not even the head was written holds nothing; any other stays.
        if tail.blank {
            newest.remove()?;
            top = newest.number - 1;
        } else {
            damaged = true;
        }
        let Some(before) = segments.pop() else { break };
        newest = before;
        tail = Tail::read(&newest)?;
    }
    let (known, mut problem) = match head {
        Some(Ok(head)) => (Some(head), None),
        Some(Err(error)) => (None, Some(format!("the head cannot be read: {error}"))),
        // A log that has only just begun has none yet.
        None => (None, (tail.first_seq > 1).then(|| "the head is missing".to_owned())),
    };
    let mut state = State { clean: tail.closed && tail.rest == 0, ..State::default() };
    let mut chain = tail.last.unwrap_or(Chain::START);
    let whole = tail.plain && tail.last.is_some() && !damaged && !tail.goes_on;
    let mut open = whole.then_some((newest.number, tail.good));
    if let Some(head) = known.filter(|head| head.seq >= chain.next) {
        // Records are gone that were safe. Their place stays empty.
        state.lost = Some((chain.next, head.seq));
        state.clean = false;
        chain = Chain { next: head.seq + 1, prev: head.hash().unwrap_or(chain.prev) };
        open = None;
    } else if damaged || tail.goes_on {
        problem.get_or_insert_with(|| "the newest segment is damaged".to_owned());
    } else if tail.rest > 0 && whole {
        cut(&newest, tail.good)?;
        state.torn_bytes = tail.rest;
    }
    state.problem = problem;
    Ok(Found { begin: Begin { chain, open, newest: top }, state: Some(state) })
}

fn new_log() -> Found {
    Found { begin: Begin { chain: Chain::START, open: None, newest: 0 }, state: None }
}

fn lost_all(head: &Head) -> Found {
    let chain = Chain { next: head.seq + 1, prev: head.hash().unwrap_or([0; 32]) };
    let mut found = gone(chain, head.segment, "all segments are missing");
    if let Some(state) = &mut found.state {
        state.lost = Some((1, head.seq));
    }
    found
}

fn gone(chain: Chain, newest: u64, problem: &str) -> Found {
    let state = State { problem: Some(problem.to_owned()), ..State::default() };
    Found { begin: Begin { chain, open: None, newest }, state: Some(state) }
}

fn cut(segment: &Segment, length: u64) -> Result<(), LogError> {
    let path = segment.plain();
    OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|file| file.set_len(length).and_then(|()| file.sync_all()))
        .map_err(LogError::file(&path))
}

/// The end of a segment.
struct Tail {
    plain: bool,
    /// The chain after the last good record.
    last: Option<Chain>,
    /// Bytes up to there.
    good: u64,
    /// Bytes behind it.
    rest: u64,
    /// There are whole records behind it again: not a torn end but damage.
    goes_on: bool,
    /// The last good record says that the log was closed.
    closed: bool,
    first_seq: u64,
    /// Not even one line was written whole.
    blank: bool,
}

impl Tail {
    /// Reads records while each is intact and follows the one before.
    fn read(segment: &Segment) -> Result<Self, LogError> {
        let plain = !segment.is_packed();
        let bytes = if plain {
            read_plain(&segment.plain())?
        } else {
            let source = segment.open()?;
            let mut all = Vec::new();
            for block in segment.blocks(&source, 0)? {
                all.extend_from_slice(&block?.bytes);
            }
            all
        };
        let mut tail = Self {
            plain,
            last: None,
            good: 0,
            rest: 0,
            goes_on: false,
            closed: false,
            first_seq: 0,
            blank: plain && bytes.len() < 4096 && !bytes.contains(&b'\n'),
        };
        let mut at = 0;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            at += line.len();
            let record = line.strip_suffix(b"\n").and_then(Line::parse).filter(Line::is_intact);
            let Some(record) = record else { continue };
            if tail.good != (at - line.len()) as u64
                || tail
                    .last
                    .is_some_and(|chain| record.seq != chain.next || record.prev != chain.prev)
            {
                tail.goes_on = true;
                break;
            }
            if tail.last.is_none() {
                tail.first_seq = record.seq;
            }
            tail.good = at as u64;
            tail.last = Some(record.chain());
            tail.closed = super::scan::scan(record.body).event == "log.closed";
        }
        tail.rest = bytes.len() as u64 - tail.good;
        Ok(tail)
    }
}
