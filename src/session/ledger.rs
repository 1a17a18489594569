//! Which message of the client's a reply of the server's belongs to.
//!
//! The server answers in order, so the oldest unanswered message is the one that a reply is about
//! (PostgreSQL manual, "55.2. Message Flow"). After an error in the extended protocol it skips to
//! the next Sync, Query and `FunctionCall` included; while it copies in, it ignores Sync and Flush
//! ("55.2.6. COPY Operations").

use std::collections::VecDeque;

use crate::wire::frame::{backend, frontend};

/// How many entries an idle session keeps room for.
const KEPT: usize = 64;

/// Messages that are not answered yet, oldest first.
#[derive(Debug, Default)]
pub struct Ledger {
    waiting: VecDeque<Entry>,
    sent: u64,
    /// The server skips everything up to a Sync that is the oldest here, or still to come.
    skipping: bool,
    /// Extended-protocol messages were sent since the last Sync.
    open: bool,
    /// The server takes `CopyData`, and the client has not said that it is done.
    copying: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    kind: u8,
    number: u64,
}

/// What happened to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is answered in full.
    Done,
    /// A statement of it ended.
    Complete,
    /// It sent as many rows as were asked for.
    Suspended,
}

impl Ledger {
    /// The number that the next message gets.
    pub fn next_number(&self) -> u64 {
        self.sent
    }

    /// A message went to the server. False when the server skips it.
    pub fn sent(&mut self, kind: u8) -> bool {
        let number = self.sent;
        self.sent += 1;
        match kind {
            frontend::FLUSH | frontend::TERMINATE | frontend::COPY_DATA => return true,
            frontend::COPY_DONE | frontend::COPY_FAIL => {
                self.copying = false;
                // Remembered only while it may be the end of a copy that has not begun yet.
                if self.waiting.is_empty() {
                    return true;
                }
            }
            frontend::SYNC if self.copying => return true,
            frontend::SYNC => self.open = false,
            _ if self.skipping && self.waiting.is_empty() => return false,
            frontend::QUERY | frontend::FUNCTION_CALL => self.open = false,
            _ => self.open = true,
        }
        self.waiting.push_back(Entry { kind, number });
        true
    }

    /// Is nothing under way?
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && !self.open && !self.skipping
    }

    /// The number of the oldest message without an answer.
    pub fn oldest(&self) -> u64 {
        self.waiting.front().map_or(self.sent, |entry| entry.number)
    }

    /// A reply came, errors and `ReadyForQuery` aside. Gives the message that it is about and what
    /// it means for it, if anything.
    pub fn reply(&mut self, kind: u8) -> Option<(u64, Step)> {
        self.forget_copy_ends();
        let Entry { kind: asked, number } = *self.waiting.front()?;
        let step = match (kind, asked) {
            (backend::PARSE_COMPLETE, frontend::PARSE)
            | (backend::BIND_COMPLETE, frontend::BIND)
            | (backend::CLOSE_COMPLETE, frontend::CLOSE)
            | (backend::ROW_DESCRIPTION | backend::NO_DATA, frontend::DESCRIBE) => Step::Done,
            (backend::PORTAL_SUSPENDED, frontend::EXECUTE) => Step::Suspended,
            (backend::COMMAND_COMPLETE | backend::EMPTY_QUERY, frontend::EXECUTE) => Step::Complete,
            (backend::COMMAND_COMPLETE | backend::EMPTY_QUERY, frontend::QUERY) => {
                return Some((number, Step::Complete)); // more may follow
            }
            (backend::COPY_IN, frontend::QUERY | frontend::EXECUTE) => {
                self.copy_begins();
                return None;
            }
            _ => return None,
        };
        self.waiting.pop_front();
        Some((number, step))
    }

    /// The message that an `ErrorResponse` would be about.
    pub fn failing(&mut self) -> Option<u64> {
        if !self.copying {
            self.forget_copy_ends();
        }
        self.waiting.front().map(|entry| entry.number)
    }

    /// An `ErrorResponse` came. Gives the message that failed; `skipped` hears of those that the
    /// server will not look at.
    pub fn error(&mut self, mut skipped: impl FnMut(u64)) -> Option<u64> {
        self.copying = false;
        self.forget_copy_ends();
        let Entry { kind, number } = *self.waiting.front()?;
        if !matches!(kind, frontend::QUERY | frontend::FUNCTION_CALL | frontend::SYNC) {
            self.waiting.pop_front();
            self.skipping = true;
            while let Some(next) = self.waiting.front().filter(|next| next.kind != frontend::SYNC) {
                if !matches!(next.kind, frontend::COPY_DONE | frontend::COPY_FAIL) {
                    skipped(next.number);
                }
                self.waiting.pop_front();
            }
        }
        Some(number)
    }

    /// `ReadyForQuery` came. Gives the message that it ends.
    pub fn ready(&mut self) -> Option<u64> {
        self.skipping = false;
        self.copying = false;
        while let Some(entry) = self.waiting.pop_front() {
            if matches!(entry.kind, frontend::QUERY | frontend::FUNCTION_CALL | frontend::SYNC) {
                self.forget_copy_ends();
                if self.waiting.is_empty() && self.waiting.capacity() > KEPT {
                    self.waiting = VecDeque::new();
                }
                return Some(entry.number);
            }
        }
        None
    }

    /// The server is gone: nothing is answered any more.
    pub fn clear(&mut self) {
        self.waiting = VecDeque::new();
        self.open = false;
        self.skipping = false;
    }

    /// The server reads `CopyData` from here on: each Sync up to the end of the copy is ignored.
    fn copy_begins(&mut self) {
        let is_end =
            |entry: &Entry| matches!(entry.kind, frontend::COPY_DONE | frontend::COPY_FAIL);
        let end = self.waiting.iter().skip(1).position(is_end).map(|at| at + 1);
        let upto = end.unwrap_or(self.waiting.len());
        let mut at = 0;
        self.waiting.retain(|entry| {
            at += 1;
            !(entry.kind == frontend::SYNC && at <= upto)
        });
        self.copying = end.is_none();
    }

    /// `CopyDone` and `CopyFail` outside of a copy are ignored by the server.
    fn forget_copy_ends(&mut self) {
        while let Some(Entry { kind: frontend::COPY_DONE | frontend::COPY_FAIL, .. }) =
            self.waiting.front()
        {
            self.waiting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Plays `>` (sent) and `<` (came) messages and gives what came of each.
    fn play(ledger: &mut Ledger, script: &str) -> Vec<String> {
        let mut out = Vec::new();
        for word in script.split_whitespace() {
            let (way, kind) = (word.as_bytes()[0], word.as_bytes()[1]);
            match (way, kind) {
                (b'>', kind) => {
                    let number = ledger.next_number();
                    if !ledger.sent(kind) {
                        out.push(format!("skipped {number}"));
                    }
                }
                (_, b'E') => {
                    let mut skipped = Vec::new();
                    if let Some(failed) = ledger.error(|n| skipped.push(n)) {
                        out.push(format!("failed {failed}"));
                    }
                    out.extend(skipped.into_iter().map(|n| format!("skipped {n}")));
                }
                (_, b'Z') => out.extend(ledger.ready().map(|n| format!("ready {n}"))),
                (_, kind) => {
                    out.extend(ledger.reply(kind).map(|(n, step)| format!("{step:?} {n}")));
                }
            }
        }
        out
    }

    #[test]
    fn replies_find_their_messages() {
        let mut ledger = Ledger::default();
        assert_eq!(play(&mut ledger, ">Q <T <D <C <C <Z"), ["Complete 0", "Complete 0", "ready 0"]);
        assert!(ledger.is_idle());
        assert_eq!(
            play(&mut ledger, ">P >B >D >E >S <1 <2 <T <D <s <Z"),
            ["Done 1", "Done 2", "Done 3", "Suspended 4", "ready 5"]
        );
        assert_eq!(play(&mut ledger, ">D <t <n >H >E"), ["Done 6"]);
        assert!(!ledger.is_idle());
        assert_eq!(play(&mut ledger, "<I >S <Z"), ["Complete 8", "ready 9"]);
        assert!(ledger.is_idle());
    }

    #[test]
    fn an_error_skips_to_the_sync_whatever_stands_before_it() {
        let mut ledger = Ledger::default();
        let script = ">P >B >Q >S >Q <1 <E <Z <C <Z";
        let expected = ["Done 0", "failed 1", "skipped 2", "ready 3", "Complete 4", "ready 4"];
        assert_eq!(play(&mut ledger, script), expected);
        // The same when the rest is sent after the error came.
        assert_eq!(
            play(&mut ledger, ">P <E >Q >F >E"),
            ["failed 5", "skipped 6", "skipped 7", "skipped 8"]
        );
        assert!(!ledger.is_idle());
        assert_eq!(play(&mut ledger, ">S <Z"), ["ready 9"]);
        assert!(ledger.is_idle());
        // A skipped Query does not end the batch.
        assert_eq!(play(&mut Ledger::default(), ">P >Q <E"), ["failed 0", "skipped 1"]);
        let mut waits = Ledger::default();
        play(&mut waits, ">P >Q <E");
        assert!(!waits.is_idle());
        // A Query's own error skips nothing.
        assert_eq!(
            play(&mut ledger, ">Q >Q <E <Z <C <Z"),
            ["failed 10", "ready 10", "Complete 11", "ready 11"]
        );
        // Nor does one at Sync, where deferred constraints are checked.
        assert_eq!(play(&mut ledger, ">E >S >Q <C <E <Z <C <Z").len(), 6 - 1);
        assert!(ledger.is_idle());
    }

    #[test]
    fn a_copy_swallows_syncs_up_to_its_end() {
        // As libpq does it: Sync with the Execute, another after CopyDone.
        let mut ledger = Ledger::default();
        assert_eq!(play(&mut ledger, ">E >S <G >d >S >H >c >S <C <Z"), ["Complete 0", "ready 6"]);
        assert!(ledger.is_idle());
        // All at once, before the server said anything.
        assert_eq!(play(&mut ledger, ">Q >S >d >c >Q <G <C <Z <C <Z").len(), 4);
        assert!(ledger.is_idle());
        // One that fails before it begins: the Sync between is answered.
        let mut ledger = Ledger::default();
        let script = ">Q >d >S >c >Q <E <Z <Z <C <Z";
        let expected = ["failed 0", "ready 0", "ready 2", "Complete 4", "ready 4"];
        assert_eq!(play(&mut ledger, script), expected);
        assert!(ledger.is_idle());
        // One that the client gives up.
        let mut ledger = Ledger::default();
        assert_eq!(play(&mut ledger, ">Q <G >d >f <E <Z"), ["failed 0", "ready 0"]);
        assert!(ledger.is_idle());
    }

    /// A server as the manual describes it, which decides by `fate` whether a message fails or
    /// copies in, and what each message of the client's then comes to.
    #[derive(Default)]
    struct Server {
        sent: Vec<u8>,
        /// Replies, and how many messages were sent before each could come.
        replies: Vec<(usize, u8)>,
        expected: Vec<(u64, &'static str)>,
        skipping: bool,
        open: bool,
        /// The message that copies in.
        copying: Option<(u8, u64)>,
    }

    impl Server {
        fn say(&mut self, kinds: &[u8]) {
            let upto = self.sent.len();
            self.replies.extend(kinds.iter().map(|kind| (upto, *kind)));
        }

        fn take(&mut self, choice: u8, fate: u8) {
            let all = if self.copying.is_some() { &b"ddSHcf"[..] } else { b"QFPBDECSSHdcf" };
            let kind = all[usize::from(choice) % all.len()];
            let number = self.sent.len() as u64;
            self.sent.push(kind);
            if let Some((asked, asker)) = self.copying {
                let failed = kind == b'f' || fate == 0;
                match (kind, failed, asked) {
                    (b'c' | b'f', true, b'Q') => {
                        self.say(b"EZ");
                        self.expected.extend([(asker, "failed"), (asker, "ready")]);
                    }
                    (b'c' | b'f', true, _) => {
                        self.say(b"E");
                        self.expected.push((asker, "failed"));
                        self.skipping = true;
                    }
                    (b'c', _, b'Q') => {
                        self.say(b"CZ");
                        self.expected.extend([(asker, "Complete"), (asker, "ready")]);
                    }
                    (b'c', ..) => {
                        self.say(b"C");
                        self.expected.push((asker, "Complete"));
                    }
                    _ => return,
                }
                self.copying = None;
                return;
            }
            match kind {
                b'S' => {
                    self.skipping = false;
                    self.open = false;
                    if fate == 0 {
                        self.say(b"E");
                        self.expected.push((number, "failed"));
                    }
                    self.say(b"Z");
                    self.expected.push((number, "ready"));
                }
                b'H' | b'd' | b'c' | b'f' => {}
                _ if self.skipping => self.expected.push((number, "skipped")),
                b'Q' | b'F' => {
                    self.open = false;
                    match (fate, kind) {
                        (0, _) => {
                            self.say(b"TDEZ");
                            self.expected.extend([(number, "failed"), (number, "ready")]);
                        }
                        (1, b'Q') => {
                            self.say(b"G");
                            self.copying = Some((kind, number));
                        }
                        (_, b'Q') => {
                            self.say(b"TDDNCSIZ");
                            let twice = [(number, "Complete"); 2];
                            self.expected.extend(twice);
                            self.expected.push((number, "ready"));
                        }
                        _ => {
                            self.say(b"VZ");
                            self.expected.push((number, "ready"));
                        }
                    }
                }
                _ if fate == 0 => {
                    self.open = true;
                    self.skipping = true;
                    self.say(b"E");
                    self.expected.push((number, "failed"));
                }
                _ => {
                    self.open = true;
                    let (replies, came): (&[u8], _) = match (kind, fate) {
                        (b'P', _) => (b"1", "Done"),
                        (b'B', _) => (b"2", "Done"),
                        (b'C', _) => (b"N3", "Done"),
                        (b'D', 1) => (b"tn", "Done"),
                        (b'D', _) => (b"T", "Done"),
                        (_, 1) => {
                            self.say(b"G");
                            self.copying = Some((kind, number));
                            return;
                        }
                        (_, 2) => (b"DDs", "Suspended"),
                        _ => (b"DSDAC", "Complete"),
                    };
                    self.say(replies);
                    self.expected.push((number, came));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn whatever_is_sent_and_however_late_it_is_answered(
            choices in prop::collection::vec((any::<u8>(), 0_u8..8), 0..40),
            hurry in prop::collection::vec(any::<bool>(), 400),
        ) {
            let mut server = Server::default();
            for (choice, fate) in choices {
                server.take(choice, fate);
            }
            let mut ledger = Ledger::default();
            let mut came = Vec::new();
            let (mut sent, mut answered) = (0, 0);
            let mut hurry = hurry.into_iter().chain(std::iter::repeat(true));
            while sent < server.sent.len() || answered < server.replies.len() {
                let can_answer = server.replies.get(answered).is_some_and(|(upto, _)| *upto <= sent);
                if sent < server.sent.len() && (!can_answer || hurry.next() == Some(true)) {
                    let number = ledger.next_number();
                    if !ledger.sent(server.sent[sent]) {
                        came.push((number, "skipped"));
                    }
                    sent += 1;
                    continue;
                }
                match server.replies[answered].1 {
                    b'E' => {
                        let failing = ledger.failing();
                        let failed = ledger.error(|number| came.push((number, "skipped")));
                        prop_assert_eq!(failing, failed);
                        came.extend(failed.map(|number| (number, "failed")));
                    }
                    b'Z' => came.extend(ledger.ready().map(|number| (number, "ready"))),
                    kind => came.extend(ledger.reply(kind).map(|(number, step)| match step {
                        Step::Done => (number, "Done"),
                        Step::Complete => (number, "Complete"),
                        Step::Suspended => (number, "Suspended"),
                    })),
                }
                answered += 1;
            }
            came.sort_by_key(|(number, _)| *number);
            server.expected.sort_by_key(|(number, _)| *number);
            prop_assert_eq!(came, server.expected);
            if server.copying.is_none() {
                prop_assert_eq!(ledger.is_idle(), !server.open);
            }
        }
    }
}
