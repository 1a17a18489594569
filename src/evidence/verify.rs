//! Verification: is the log what was written, all of it and in its order?

use std::path::Path;

use serde::Serialize;

use super::chain::{Chain, Line};
use super::head::Head;
use super::key::{PublicKey, Purpose};
use super::segment::Segment;
use super::{LogError, scan};

/// Which records are looked at, by number; both ends are included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first.
    pub from: u64,
    /// The last.
    pub to: u64,
}

impl Range {
    /// Everything there is, the log's beginning and end included.
    pub const ALL: Self = Self { from: 1, to: u64::MAX };
}

/// What is wrong with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// Its bytes are not those that were written.
    Edited,
    /// It should be here and is nowhere.
    Missing,
    /// It stands at another place.
    Reordered,
    /// The log's end was cut off.
    Truncated,
    /// A segment's or the log's signature is missing or not the key's.
    Unsigned,
}

/// The first bad record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its number, or the one that it should have.
    pub seq: u64,
    /// The segment it is, or should be, in.
    pub segment: u64,
    /// The line in the segment, from 1; 0 when there is none.
    pub line: u64,
    /// What is wrong.
    pub reason: Reason,
    /// The same in words.
    pub detail: String,
}

/// What verification found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Is all well?
    pub ok: bool,
    /// Records that were checked and are good.
    pub records: u64,
    /// Segments that were looked at.
    pub segments: u64,
    /// The first of them.
    pub first: u64,
    /// The last of them.
    pub last: u64,
    /// The first bad record.
    pub finding: Option<Finding>,
    /// What is no fault but worth knowing.
    pub notes: Vec<String>,
}

/// Checks the log in `dir` against a public key. Records that are being written meanwhile are no
/// fault. The chain is followed from the first segment that holds a record of `range`; that this
/// segment follows on the ones before is vouched for by its signed first record.
pub fn verify(dir: &Path, key: PublicKey, range: Range) -> Result<Report, LogError> {
    // The head first: what is appended meanwhile only comes on top.
    let head = Head::read(dir)?;
    let segments = Segment::list(dir)?;
    if segments.is_empty() && head.is_none() {
        return Err(LogError::NoLog(dir.to_owned()));
    }
    let mut verifier = Verifier {
        key,
        range,
        head: None,
        head_seen: false,
        chain: None,
        removed_through: 0,
        report: Report {
            ok: true,
            records: 0,
            segments: 0,
            first: 0,
            last: 0,
            finding: None,
            notes: Vec::new(),
        },
    };
    let found = verifier.run(head, &segments)?;
    let mut report = verifier.report;
    report.ok = found.is_none();
    report.finding = found;
    Ok(report)
}

struct Verifier {
    key: PublicKey,
    range: Range,
    head: Option<Head>,
    /// The record that the head is about was found.
    head_seen: bool,
    /// What the next record must follow; unknown before the first.
    chain: Option<Chain>,
    removed_through: u64,
    report: Report,
}

impl Verifier {
    fn run(
        &mut self,
        head: Option<Result<Head, String>>,
        segments: &[Segment],
    ) -> Result<Option<Finding>, LogError> {
        let head_problem = match head {
            Some(Ok(head)) if head.is_signed_by(self.key) => {
                self.head = Some(head);
                None
            }
            Some(Ok(_)) => Some("the head is not signed with this key".to_owned()),
            Some(Err(problem)) => Some(format!("the head cannot be read: {problem}")),
            None => Some("there is no signed head".to_owned()),
        };
        let begin = first_of_range(segments, self.range.from)?;
        let mut expected = None;
        for segment in &segments[begin..] {
            if let Some(number) = expected.filter(|number| *number != segment.number) {
                let detail = format!("segment {number} is not there");
                return Ok(Some(self.bad(number, 0, Reason::Missing, detail)));
            }
            expected = Some(segment.number + 1);
            match self.segment(segment)? {
                Step::Go => {}
                Step::Bad(finding) => return Ok(Some(finding)),
                Step::Stop => return Ok(None),
            }
        }
        let newest = segments.last().map_or(0, |segment| segment.number);
        if let Some(problem) = head_problem {
            return Ok(Some(self.bad(newest, 0, Reason::Unsigned, problem)));
        }
        if let Some(head) = self.head.clone().filter(|_| !self.head_seen) {
            let detail = format!("the signed head knows of record {}", head.seq);
            return Ok(Some(self.bad(newest, 0, Reason::Truncated, detail)));
        }
        // The beginning is looked at last: only the rest says what was removed with a reason.
        let oldest = segments.first().map_or(1, |segment| segment.number);
        if begin == 0 && self.range.from <= 1 && oldest > self.removed_through + 1 {
            let detail = format!(
                "segments {} to {} are not there, and no record says that they were removed",
                self.removed_through + 1,
                oldest - 1
            );
            let seq = 1;
            let segment = self.removed_through + 1;
            return Ok(Some(Finding { seq, segment, line: 0, reason: Reason::Missing, detail }));
        }
        Ok(None)
    }

    fn segment(&mut self, segment: &Segment) -> Result<Step, LogError> {
        self.report.segments += 1;
        let source = match segment.open() {
            Ok(source) => source,
            Err(LogError::Damaged { problem, .. }) => {
                return Ok(Step::Bad(self.bad(segment.number, 0, Reason::Edited, problem)));
            }
            Err(error) => return Err(error),
        };
        let mut number = 0;
        let mut rest = segment.blocks(&source, 0)?;
        while let Some(block) = rest.next() {
            let block = match block {
                Ok(block) => block,
                Err(LogError::Damaged { problem, .. }) => {
                    return Ok(Step::Bad(self.bad(segment.number, 0, Reason::Edited, problem)));
                }
                Err(error) => return Err(error),
            };
            for line in block.bytes.split_inclusive(|byte| *byte == b'\n') {
                number += 1;
                let place = Place { segment, line: number };
                let Some(text) = line.strip_suffix(b"\n") else {
                    return Ok(self.unfinished(&place));
                };
                match self.line(&place, text) {
                    Step::Go => {}
                    Step::Bad(finding) => {
                        let all = block.bytes.as_slice();
                        return Ok(Step::Bad(Self::look_further(finding, all, &mut rest)));
                    }
                    Step::Stop => return Ok(Step::Stop),
                }
            }
        }
        Ok(Step::Go)
    }

    /// A line without its end: being written at this moment, or what is left of a record.
    fn unfinished(&mut self, place: &Place<'_>) -> Step {
        let next = self.next_seq();
        if self.head.as_ref().is_some_and(|head| head.seq >= next) {
            let detail = "the record is not whole".to_owned();
            return Step::Bad(self.bad(
                place.segment.number,
                place.line,
                Reason::Truncated,
                detail,
            ));
        }
        self.report.notes.push(format!("record {next} is not whole and was never acknowledged"));
        Step::Go
    }

    fn line(&mut self, place: &Place<'_>, text: &[u8]) -> Step {
        let bad = |this: &Self, reason, detail: &str| {
            Step::Bad(this.bad(place.segment.number, place.line, reason, detail.to_owned()))
        };
        let Some(line) = Line::parse(text) else {
            return bad(self, Reason::Edited, "it has not the form of a record");
        };
        if !line.is_intact() {
            return bad(self, Reason::Edited, "its hash is not that of its bytes");
        }
        if let Some(chain) = self.chain {
            if line.seq > chain.next {
                let detail = format!("record {} comes instead", line.seq);
                return bad(self, Reason::Missing, &detail);
            }
            if line.seq < chain.next {
                let detail = format!("record {} comes instead", line.seq);
                return bad(self, Reason::Reordered, &detail);
            }
            if line.prev != chain.prev {
                let detail = "it follows another record than the one before it";
                return bad(self, Reason::Edited, detail);
            }
        }
        self.chain.get_or_insert(Chain { next: line.seq, prev: line.prev });
        let facts = scan::scan(line.body);
        if place.line == 1 || facts.event == "log.segment" {
            let signed = line
                .signature()
                .is_some_and(|(bytes, sig)| self.key.has_signed(Purpose::Segment, bytes, &sig));
            if facts.event != "log.segment" || !signed {
                return bad(self, Reason::Unsigned, "the segment is not signed with this key");
            }
            if number_field(line.body, "postern.log.segment") != Some(place.segment.number) {
                return bad(self, Reason::Reordered, "the segment has another number in its name");
            }
            if place.line != 1 {
                return bad(self, Reason::Reordered, "a segment begins inside of another");
            }
        }
        if let Some(head) = self.head.as_ref().filter(|head| head.seq == line.seq) {
            if head.hash() != Some(line.hash) {
                return bad(self, Reason::Edited, "its hash is not the one that was signed");
            }
            self.head_seen = true;
        }
        match facts.event {
            "log.retention" => {
                let through = number_field(line.body, "postern.log.removed_through");
                self.removed_through = self.removed_through.max(through.unwrap_or(0));
            }
            "log.recovered" => {
                if let Some(from) = number_field(line.body, "postern.log.lost_from") {
                    let detail = "records that were signed were lost before postern was started";
                    let finding = self.bad(place.segment.number, 0, Reason::Missing, detail.into());
                    return Step::Bad(Finding { seq: from, ..finding });
                }
            }
            _ => {}
        }
        self.chain = Some(line.chain());
        if line.seq >= self.range.from {
            self.report.records += 1;
            if self.report.first == 0 {
                self.report.first = line.seq;
            }
            self.report.last = line.seq;
        }
        if line.seq >= self.range.to { Step::Stop } else { Step::Go }
    }

    /// A gap is a swap when the record that is missed stands further on.
    fn look_further(
        finding: Finding,
        block: &[u8],
        rest: &mut super::segment::Blocks<'_>,
    ) -> Finding {
        if finding.reason != Reason::Missing {
            return finding;
        }
        let wanted = format!("{{\"seq\":{},", finding.seq);
        let has = |bytes: &[u8]| {
            bytes.split(|byte| *byte == b'\n').any(|line| line.starts_with(wanted.as_bytes()))
        };
        let found = has(block) || rest.any(|block| block.is_ok_and(|block| has(&block.bytes)));
        if !found {
            return finding;
        }
        Finding {
            reason: Reason::Reordered,
            detail: format!("{}; this one stands further on", finding.detail),
            ..finding
        }
    }

    fn next_seq(&self) -> u64 {
        self.chain.map_or(self.range.from, |chain| chain.next)
    }

    fn bad(&self, segment: u64, line: u64, reason: Reason, detail: String) -> Finding {
        Finding { seq: self.next_seq(), segment, line, reason, detail }
    }
}

struct Place<'a> {
    segment: &'a Segment,
    line: u64,
}

enum Step {
    Go,
    Bad(Finding),
    Stop,
}

/// The index of the last segment that begins at or before a record. Segments whose beginning
/// cannot be read are looked at, so that they are found out.
fn first_of_range(segments: &[Segment], from: u64) -> Result<usize, LogError> {
    let mut first = 0;
    if from <= 1 {
        return Ok(first);
    }
    for (index, segment) in segments.iter().enumerate() {
        match super::segment::first_seq(segment)? {
            Some(seq) if seq <= from => first = index,
            _ => break,
        }
    }
    Ok(first)
}

/// A number among the first fields of a body.
fn number_field(body: &[u8], key: &str) -> Option<u64> {
    let needle = format!(",\"{key}\":");
    let at = body.windows(needle.len()).position(|window| window == needle.as_bytes())?;
    let digits = &body[at + needle.len()..];
    let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}
