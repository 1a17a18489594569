//! From records to events: what was announced and what came of it are put together.

use std::collections::{HashMap, VecDeque};

use serde::Serialize;
use serde_json::{Map, Value};

use super::chain::Line;
use super::scan;

/// Events that may wait for the end of an earlier one. Beyond it they are told in the order in
/// which they end.
const WINDOW: usize = 8192;

/// One event, as readers see it: all facts of the one or two records that tell of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct LogEvent(Map<String, Value>);

impl LogEvent {
    /// A fact by its key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// A fact that is a text; empty when it is not there.
    pub fn text(&self, key: &str) -> &str {
        self.0.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// A fact that is a number.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.0.get(key).and_then(Value::as_u64)
    }

    /// The event code.
    pub fn code(&self) -> &str {
        self.text("event")
    }

    /// Is it a statement that was sent, or refused?
    pub fn is_statement(&self) -> bool {
        matches!(self.code(), "statement" | "copy" | "function_call" | "denial")
    }
}

/// A body that was read whole.
#[derive(Debug)]
pub struct Full(Map<String, Value>);

impl Full {
    /// Reads a body; one that cannot be read has no facts.
    pub fn parse(body: &[u8]) -> Self {
        let json = [b"{", body, b"}"].concat();
        Self(serde_json::from_slice(&json).unwrap_or_default())
    }

    /// The same facts that a scan finds.
    pub fn facts(&self) -> scan::Facts<'_> {
        let text = |key: &str| self.0.get(key).and_then(Value::as_str).unwrap_or_default();
        scan::Facts {
            time: text("time"),
            event: text("event"),
            session: text("postern.session"),
            statement: self.0.get("postern.statement").and_then(Value::as_u64),
            lease: text("postern.lease"),
            run: text("postern.run"),
            branch: text("postern.branch"),
            verdict: text("postern.verdict"),
            outcome: text("postern.outcome"),
            escaped: false,
        }
    }
}

/// Puts records together.
#[derive(Debug)]
pub struct Joiner {
    window: usize,
    waiting: VecDeque<Waiting>,
    /// Number of the first in `waiting`.
    base: u64,
    /// Statements without an end, and where they wait.
    open: HashMap<(String, u64), Open>,
}

#[derive(Debug)]
struct Waiting {
    events: Vec<LogEvent>,
    done: bool,
}

#[derive(Debug)]
struct Open {
    intent: Map<String, Value>,
    place: u64,
    /// Statements of the text that may still end.
    left: u64,
    answered: bool,
}

impl Joiner {
    /// In the order of the log.
    pub fn ordered() -> Self {
        Self::new(WINDOW)
    }

    /// As soon as each event is known in full.
    pub fn prompt() -> Self {
        Self::new(0)
    }

    fn new(window: usize) -> Self {
        Self { window, waiting: VecDeque::new(), base: 0, open: HashMap::new() }
    }

    /// Does this end a statement that is open here?
    pub fn awaits(&self, session: &str, statement: Option<u64>) -> bool {
        statement.is_some_and(|number| self.open.contains_key(&(session.to_owned(), number)))
    }

    /// Sessions with open statements.
    pub fn open_sessions(&self) -> Vec<String> {
        let mut sessions: Vec<_> = self.open.keys().map(|(session, _)| session.clone()).collect();
        sessions.sort_unstable();
        sessions.dedup();
        sessions
    }

    /// Takes the next record, and gives every event that is ready to `each`. False when it wants
    /// no more.
    pub fn push(&mut self, line: &Line<'_>, each: &mut impl FnMut(LogEvent) -> bool) -> bool {
        let mut record = Full::parse(line.body).0;
        record.insert("seq".into(), line.seq.into());
        let text = |key: &str| record.get(key).and_then(Value::as_str).unwrap_or_default();
        let key = (
            text("postern.session").to_owned(),
            record.get("postern.statement").and_then(Value::as_u64).unwrap_or(0),
        );
        match text("event") {
            "statement" | "copy" | "function_call" => {
                let left = record.get("postern.statements").and_then(Value::as_u64).unwrap_or(1);
                let place = self.base + self.waiting.len() as u64;
                self.waiting.push_back(Waiting { events: Vec::new(), done: false });
                self.open.insert(key, Open { intent: record, place, left, answered: false });
            }
            "statement.end" => {
                let Some(open) = self.open.get_mut(&key) else { return true };
                let outcome = text("postern.outcome").to_owned();
                let event = joined(open.intent.clone(), record);
                open.left = open.left.saturating_sub(1);
                open.answered = true;
                let done = open.left == 0 || outcome == "error" || outcome == "lost";
                let place = open.place;
                if done {
                    self.open.remove(&key);
                }
                match place.checked_sub(self.base) {
                    // Its place was given up: it comes late.
                    None => {
                        if !each(event) {
                            return false;
                        }
                    }
                    Some(at) => {
                        let at = usize::try_from(at).unwrap_or(usize::MAX);
                        if let Some(waiting) = self.waiting.get_mut(at) {
                            waiting.events.push(event);
                            waiting.done = done;
                        }
                    }
                }
            }
            _ => self.waiting.push_back(Waiting { events: vec![LogEvent(record)], done: true }),
        }
        self.give(each)
    }

    fn give(&mut self, each: &mut impl FnMut(LogEvent) -> bool) -> bool {
        while let Some(first) = self.waiting.front() {
            if !first.done && self.waiting.len() <= self.window {
                break;
            }
            let events = self.waiting.pop_front().map(|first| first.events).unwrap_or_default();
            self.base += 1;
            for event in events {
                if !each(event) {
                    return false;
                }
            }
        }
        true
    }

    /// There are no more records: what is open has no answer.
    pub fn finish(mut self, each: &mut impl FnMut(LogEvent) -> bool) {
        let mut late = Vec::new();
        for (_, open) in self.open.drain().filter(|(_, open)| !open.answered) {
            let mut event = open.intent;
            event.insert("postern.outcome".into(), "unanswered".into());
            match open.place.checked_sub(self.base).and_then(|at| usize::try_from(at).ok()) {
                Some(at) if at < self.waiting.len() => {
                    self.waiting[at].events.push(LogEvent(event));
                }
                _ => late.push(LogEvent(event)),
            }
        }
        late.sort_by_key(|event| event.number("seq"));
        let waiting = self.waiting.into_iter().flat_map(|waiting| waiting.events);
        for event in late.into_iter().chain(waiting) {
            if !each(event) {
                return;
            }
        }
    }
}

/// The end's facts on top of the intent's; the numbers of both records stay known.
fn joined(mut intent: Map<String, Value>, end: Map<String, Value>) -> LogEvent {
    for (key, value) in end {
        match key.as_str() {
            "seq" => intent.insert("end_seq".into(), value),
            "time" => intent.insert("end_time".into(), value),
            "event" => None,
            _ => intent.insert(key, value),
        };
    }
    LogEvent(intent)
}

#[cfg(test)]
mod tests {
    use super::super::chain::Chain;
    use super::*;

    fn events(window: usize, bodies: &[&str]) -> Vec<(u64, String)> {
        let mut chain = Chain::START;
        let mut joiner = Joiner::new(window);
        let mut events = Vec::new();
        let mut each = |event: LogEvent| {
            events.push((event.number("seq").unwrap(), event.text("postern.outcome").to_owned()));
            true
        };
        for body in bodies {
            let mut line = Vec::new();
            chain.seal(body.as_bytes(), &mut line);
            joiner.push(&Line::parse(line.strip_suffix(b"\n").unwrap()).unwrap(), &mut each);
        }
        joiner.finish(&mut each);
        events
    }

    const A: &str = r#""event":"statement","postern.session":"1.1","postern.statement":1"#;
    const B: &str = r#""event":"statement","postern.session":"1.1","postern.statement":2"#;
    const END_A: &str = r#""event":"statement.end","postern.session":"1.1","postern.statement":1,"postern.outcome":"ok""#;
    const END_B: &str = r#""event":"statement.end","postern.session":"1.1","postern.statement":2,"postern.outcome":"error""#;
    const OTHER: &str = r#""event":"cancel""#;

    fn is(expected: &[(u64, &str)]) -> Vec<(u64, String)> {
        expected.iter().map(|(seq, outcome)| (*seq, (*outcome).to_owned())).collect()
    }

    #[test]
    fn events_come_in_the_order_of_the_log() {
        let bodies = [A, B, OTHER, END_B, END_A];
        assert_eq!(events(10, &bodies), is(&[(1, "ok"), (2, "error"), (3, "")]));
        assert_eq!(events(0, &bodies), is(&[(3, ""), (2, "error"), (1, "ok")]));
    }

    #[test]
    fn what_has_no_answer_says_so() {
        assert_eq!(events(10, &[A, B, END_B]), is(&[(1, "unanswered"), (2, "error")]));
        assert_eq!(events(0, &[A, B, END_B]), is(&[(2, "error"), (1, "unanswered")]));
        assert_eq!(events(10, &[END_A]), is(&[]));
    }

    #[test]
    fn a_text_with_several_statements_has_an_event_for_each_that_ran() {
        let several = format!("{A},\"postern.statements\":3");
        let error = END_A.replace("ok", "error");
        assert_eq!(
            events(10, &[&several, END_A, END_A, END_A]),
            is(&[(1, "ok"), (1, "ok"), (1, "ok")])
        );
        assert_eq!(
            events(10, &[&several, END_A, &error, OTHER]),
            is(&[(1, "ok"), (1, "error"), (4, "")])
        );
    }
}
