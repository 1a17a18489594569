//! The steady state: headers are walked, the same bytes go on, in both directions, in one task.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::backend::CancelTarget;
use super::control::{Control, Order};
use super::guard::{Decision, Guard};
use super::pipe::{BUFFER, Pipe};
use crate::error::SqlState;
use crate::wire::frame::{HEADER_LEN, Header, backend, frontend};
use crate::wire::message::{self, Severity};
use crate::wire::{ErrorFields, Stream};

/// What a client that stopped sending still waits for may take this long before it is cancelled.
const HALF_CLOSED_GRACE: Duration = Duration::from_secs(1);
/// Between attempts to cancel what a vanished client left running.
const CANCEL_AGAIN: Duration = Duration::from_millis(200);
/// How long a farewell waits for the message that is under way, and for the client to take it.
const FAREWELL: Duration = Duration::from_millis(900);
/// How often what runs is cancelled before the connection is dropped.
const CANCEL_ATTEMPTS: u32 = 4;
/// The longest message that is read whole for the guard.
const MAX_READ: usize = 64 << 20;

/// A session between login and end.
pub struct Relay<G> {
    client: Stream,
    server: Stream,
    /// From the client to the server.
    up: Pipe,
    /// From the server to the client.
    down: Pipe,
    guard: G,
    control: Arc<Control>,
    lease: String,
    cancel: Arc<CancelTarget>,
    /// A message of the client's that is larger than the buffer, while it is read whole.
    whole: Option<Whole>,
    denials: Denials,
    progress: Progress,
    phase: Phase,
    /// What the client is told last.
    farewell: Vec<u8>,
    /// It was told.
    told: bool,
    timer: Option<Pin<Box<Sleep>>>,
    /// Bytes that had gone to the client when the timer was set.
    sent_before: u64,
    cancels: u32,
}

struct Whole {
    bytes: Vec<u8>,
    length: usize,
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts, not a state")]
/// What was asked and answered, as far as it shows whether anything is under way.
#[derive(Debug)]
struct Progress {
    /// `ReadyForQuery` that are due.
    due: u32,
    /// `ReadyForQuery` that came.
    came: u64,
    /// Extended-protocol messages since the last Sync.
    batch_open: bool,
    /// `CopyData` was the last but Sync and Flush: a server in copy mode ignores these two.
    copying: bool,
    /// The transaction status of the last `ReadyForQuery`.
    status: u8,
    /// The client said good-bye.
    terminated: bool,
    /// The server said a last word.
    fatal: bool,
    /// The client sends nothing any more.
    client_eof: bool,
    server_eof: bool,
}

impl Progress {
    fn is_idle(&self) -> bool {
        self.due == 0 && !self.batch_open
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Both directions run.
    Open,
    /// The client is to be told something and then closed, at the next message boundary.
    Farewell,
    /// What was to be said is in the buffer; when it is sent, the session is over.
    Last,
    /// It is over.
    Over,
}

/// What stopped a walk over the unread bytes.
enum Walk {
    /// There is something to send first.
    Send,
    /// More bytes are needed.
    More,
}

impl<G: Guard> Relay<G> {
    /// A session whose login is done; `early` is what the server sent after its first
    /// `ReadyForQuery`.
    pub fn new(
        (client, server): (Stream, Stream),
        early: &[u8],
        guard: G,
        control: Arc<Control>,
        lease: String,
        cancel: Arc<CancelTarget>,
    ) -> Self {
        let mut down = Pipe::default();
        if !early.is_empty() {
            down.seed(early);
        }
        Self {
            client,
            server,
            up: Pipe::default(),
            down,
            guard,
            control,
            lease,
            cancel,
            whole: None,
            denials: Denials::default(),
            progress: Progress {
                due: 0,
                came: 0,
                batch_open: false,
                copying: false,
                status: b'I',
                terminated: false,
                fatal: false,
                client_eof: false,
                server_eof: false,
            },
            phase: Phase::Open,
            farewell: Vec::new(),
            told: false,
            timer: None,
            sent_before: 0,
            cancels: 0,
        }
    }

    /// Runs the session to its end. Gives back the client's connection when it was told something
    /// last, which it may still have to read.
    ///
    /// Cancel-safe in that all state is in `self`; a session dropped in the middle closes both
    /// connections.
    pub async fn run(mut self) -> Option<Stream> {
        poll_fn(|cx| self.poll(cx)).await;
        if !self.progress.is_idle() && !self.progress.server_eof {
            self.cancel_running();
        }
        self.told.then_some(self.client)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.control.register(cx);
        if let Some(order) = self.control.current() {
            self.obey(order);
        }
        self.pump_up(cx);
        self.pump_down(cx);
        while self.phase != Phase::Over {
            let Some(timer) = &mut self.timer else { return Poll::Pending };
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.timer = None;
            self.time_is_up();
        }
        Poll::Ready(())
    }

    // -- from the client to the server

    fn pump_up(&mut self, cx: &mut Context<'_>) {
        while matches!(self.phase, Phase::Open) {
            match self.up.poll_send(&mut self.server, cx) {
                Poll::Ready(Ok(())) => {}
                // The server is gone. What it had to say is still to be read.
                Poll::Ready(Err(_)) => self.up.dead = true,
                Poll::Pending => return,
            }
            match self.walk_up() {
                Ok(Walk::Send) => continue,
                Ok(Walk::More) => {}
                Err(refused) => return self.say_farewell(&refused),
            }
            if self.progress.client_eof {
                return;
            }
            match self.up.poll_read(&mut self.client, cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(0)) => {
                    self.progress.client_eof = true;
                    self.up.clear(); // a message that was cut off is none
                    self.set_timer(HALF_CLOSED_GRACE);
                    return;
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => {
                    self.phase = Phase::Over;
                    return;
                }
            }
        }
    }

    /// Looks at what came from the client, up to something that must be sent first.
    fn walk_up(&mut self) -> Result<Walk, ErrorFields> {
        let mut passed = false;
        loop {
            if self.whole.is_some() {
                return Ok(if self.take_whole() { Walk::Send } else { Walk::More });
            }
            if self.up.body_left > 0 {
                let through = self.up.pass_body();
                passed = true;
                if !through {
                    return Ok(Walk::Send.if_any(self.up.is_sent()));
                }
            }
            let header = match Header::parse(self.up.unread()) {
                Ok(Some(header)) => header,
                Ok(None) => return Ok(Walk::Send.if_any(!passed || self.up.is_sent())),
                Err(error) => {
                    return Err(ErrorFields::new(SqlState::PROTOCOL_VIOLATION, error.to_string()));
                }
            };
            let length = header.message_len();
            if !self.guard.reads(header.kind) {
                self.note_sent(header.kind);
                self.up.pass(HEADER_LEN);
                self.up.body_left = header.body as usize;
                passed = true;
            } else if length > MAX_READ {
                return Err(ErrorFields::new(
                    SqlState::PROGRAM_LIMIT_EXCEEDED,
                    format!(
                        "a message of {length} bytes is longer than the {MAX_READ} that are read"
                    ),
                )
                .hint("Send large values as parameters or with COPY, not inside the SQL text."));
            } else if length > BUFFER {
                if !self.up.is_sent() {
                    return Ok(Walk::Send);
                }
                self.whole = Some(Whole { bytes: Vec::new(), length });
            } else if self.up.unread().len() < length {
                return Ok(Walk::Send.if_any(self.up.is_sent()));
            } else {
                match self.guard.decide(header.kind, &self.up.unread()[HEADER_LEN..length]) {
                    Decision::Forward => {
                        self.up.pass(length);
                        passed = true;
                    }
                    Decision::Refuse(fields) => {
                        if !self.up.is_sent() {
                            // Decided again when what is before it is sent: a verdict is cached.
                            return Ok(Walk::Send);
                        }
                        let body = self.up.unread()[HEADER_LEN..length].to_vec();
                        self.up.drop_unread(length);
                        self.replace(header.kind, &body, *fields);
                        return Ok(Walk::Send);
                    }
                }
                self.note_sent(header.kind);
            }
        }
    }

    /// Moves bytes of a large message aside until it is whole, then decides. True when it was.
    fn take_whole(&mut self) -> bool {
        let Some(whole) = &mut self.whole else { return false };
        let unread = self.up.unread();
        let n = unread.len().min(whole.length - whole.bytes.len());
        whole.bytes.extend_from_slice(&unread[..n]);
        self.up.drop_unread(n);
        if whole.bytes.len() < whole.length {
            return false;
        }
        let Some(Whole { bytes, .. }) = self.whole.take() else { return false };
        let kind = bytes[0];
        match self.guard.decide(kind, message::body(&bytes)) {
            Decision::Forward => {
                *self.up.insert() = bytes;
                self.note_sent(kind);
            }
            Decision::Refuse(fields) => self.replace(kind, message::body(&bytes), *fields),
        }
        true
    }

    /// Puts in place of a refused message one that the server refuses at the same point.
    fn replace(&mut self, kind: u8, body: &[u8], fields: ErrorFields) {
        let marker =
            self.denials.next(self.progress.came + u64::from(self.progress.due) + 1, fields);
        let out = self.up.insert();
        if kind == frontend::PARSE {
            let name = message::take_str(&mut { body }).unwrap_or_default().to_vec();
            message::put(out, frontend::PARSE, |out| {
                out.extend(name);
                out.push(0);
                message::put_str(out, &marker);
                out.extend([0, 0]);
            });
            self.note_sent(frontend::PARSE);
        } else {
            // A FunctionCall is answered like a Query: a result or an error, then ReadyForQuery.
            message::query(out, &marker);
            self.note_sent(frontend::QUERY);
        }
    }

    fn note_sent(&mut self, kind: u8) {
        let progress = &mut self.progress;
        match kind {
            frontend::SYNC if progress.copying => {}
            frontend::QUERY | frontend::FUNCTION_CALL | frontend::SYNC => {
                progress.due += 1;
                progress.batch_open = false;
                progress.copying = false;
            }
            frontend::FLUSH => {}
            frontend::TERMINATE => progress.terminated = true,
            frontend::COPY_DATA => progress.copying = true,
            frontend::COPY_DONE | frontend::COPY_FAIL => progress.copying = false,
            _ => progress.batch_open = true,
        }
    }

    // -- from the server to the client

    fn pump_down(&mut self, cx: &mut Context<'_>) {
        while self.phase != Phase::Over {
            match self.down.poll_send(&mut self.client, cx) {
                Poll::Ready(Ok(())) if self.phase == Phase::Last => {
                    self.told = true;
                    self.phase = Phase::Over;
                    return;
                }
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => {
                    self.phase = Phase::Over; // the client is gone
                    return;
                }
                Poll::Pending => return,
            }
            match self.walk_down() {
                Walk::Send => continue,
                Walk::More => {}
            }
            if self.progress.client_eof && self.progress.is_idle() {
                self.phase = Phase::Over;
                return;
            }
            match self.down.poll_read(&mut self.server, cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(n)) if n > 0 => {}
                Poll::Ready(_) => {
                    self.progress.server_eof = true;
                    self.server_gone();
                }
            }
        }
    }

    fn walk_down(&mut self) -> Walk {
        let mut passed = false;
        loop {
            if self.down.body_left > 0 {
                let through = self.down.pass_body();
                passed = true;
                if !through {
                    return Walk::Send.if_any(self.down.is_sent());
                }
            }
            if self.phase == Phase::Farewell {
                if !passed {
                    self.down.insert().append(&mut self.farewell);
                    self.phase = Phase::Last;
                }
                return Walk::Send;
            }
            let unread = self.down.unread();
            // A server that sends an impossible length is broken; the client will see it as such.
            let Ok(Some(header)) = Header::parse(unread) else {
                return Walk::Send.if_any(!passed || self.down.is_sent());
            };
            let length = header.message_len();
            match header.kind {
                backend::READY if length <= BUFFER => {
                    if unread.len() < length {
                        return Walk::Send.if_any(self.down.is_sent());
                    }
                    self.progress.status = unread[HEADER_LEN..length].first().copied().unwrap_or(0);
                    self.down.pass(length);
                    self.ready_for_query();
                    passed = true;
                    continue;
                }
                backend::ERROR if length <= BUFFER => {
                    if unread.len() < length {
                        return Walk::Send.if_any(self.down.is_sent());
                    }
                    let body = &unread[HEADER_LEN..length];
                    self.progress.copying = false;
                    self.progress.fatal |= message::is_fatal(body);
                    if self.denials.is_next(body) {
                        if !self.down.is_sent() {
                            return Walk::Send;
                        }
                        self.down.drop_unread(length);
                        if let Some(fields) = self.denials.take() {
                            fields.encode(Severity::Error, self.down.insert());
                        }
                        return Walk::Send;
                    }
                    self.down.pass(length);
                    passed = true;
                    continue;
                }
                _ => {}
            }
            self.down.pass(HEADER_LEN);
            self.down.body_left = header.body as usize;
            passed = true;
        }
    }

    fn ready_for_query(&mut self) {
        let progress = &mut self.progress;
        progress.due = progress.due.saturating_sub(1);
        progress.came += 1;
        progress.copying = false;
        self.denials.forget_until(progress.came);
        if self.control.current() == Some(Order::EndWhenIdle) {
            self.obey(Order::EndWhenIdle);
        }
    }

    // -- ends

    fn obey(&mut self, order: Order) {
        if self.phase != Phase::Open {
            return;
        }
        if order == Order::EndWhenIdle && !(self.progress.is_idle() && self.progress.status == b'I')
        {
            return;
        }
        let farewell = order.farewell(&self.lease);
        self.say_farewell(&farewell);
    }

    /// Ends the session with a FATAL error after the message that is under way.
    fn say_farewell(&mut self, fields: &ErrorFields) {
        if !self.progress.is_idle() {
            self.cancel_running();
        }
        self.up.clear();
        if self.progress.fatal || self.progress.terminated {
            self.phase = Phase::Over;
            return;
        }
        self.phase = Phase::Farewell;
        self.set_timer(FAREWELL);
        fields.encode(Severity::Fatal, &mut self.farewell);
    }

    /// The server closed its connection.
    fn server_gone(&mut self) {
        let cut_off = self.down.body_left > 0 || !self.down.unread().is_empty();
        if self.progress.terminated || self.progress.fatal || cut_off || self.phase != Phase::Open {
            // Said already, not wanted any more, or no longer possible: the client got half a
            // message.
            self.phase = Phase::Over;
            return;
        }
        let gone = ErrorFields::new(
            SqlState::CONNECTION_FAILURE,
            "the branch's server closed the connection unexpectedly",
        )
        .hint("Connect again: the branch's server is started anew when it has stopped.");
        self.progress.due = 0;
        self.progress.batch_open = false;
        // Nothing is under way: the loop that called this finds a boundary and says it.
        self.say_farewell(&gone);
    }

    fn time_is_up(&mut self) {
        if self.phase != Phase::Open || self.cancels >= CANCEL_ATTEMPTS {
            self.phase = Phase::Over;
            return;
        }
        // The client sends nothing any more. While it takes what it asked for, all is well.
        if self.down.total > self.sent_before {
            return self.set_timer(HALF_CLOSED_GRACE);
        }
        self.cancel_running();
        self.set_timer(CANCEL_AGAIN);
    }

    fn cancel_running(&mut self) {
        self.cancels += 1;
        let target = Arc::clone(&self.cancel);
        tokio::spawn(async move { target.cancel().await });
    }

    fn set_timer(&mut self, after: Duration) {
        let at = Instant::now() + after;
        self.sent_before = self.down.total;
        match &mut self.timer {
            Some(timer) => timer.as_mut().reset(at),
            None => self.timer = Some(Box::pin(tokio::time::sleep_until(at))),
        }
    }
}

impl Walk {
    /// `Send`, unless there is nothing to send.
    fn if_any(self, nothing: bool) -> Self {
        if nothing { Self::More } else { self }
    }
}

/// Errors of ours that wait for the server to fail where a refused message stood.
#[derive(Debug, Default)]
struct Denials {
    waiting: VecDeque<Denial>,
    count: u64,
}

#[derive(Debug)]
struct Denial {
    marker: String,
    fields: ErrorFields,
    /// The `ReadyForQuery` after which the message was skipped, if it did not fail before.
    until: u64,
}

impl Denials {
    /// SQL that cannot parse and that nobody can guess, for an error to be replaced by `fields`.
    fn next(&mut self, until: u64, fields: ErrorFields) -> String {
        self.count += 1;
        let marker = format!("postern_refused_{}_{}", uuid::Uuid::new_v4().simple(), self.count);
        self.waiting.push_back(Denial { marker: marker.clone(), fields, until });
        marker
    }

    /// Is this the error that the oldest refused message was replaced to raise?
    fn is_next(&self, body: &[u8]) -> bool {
        let Some(next) = self.waiting.front() else { return false };
        let Some(text) = message::error_field(body, b'M') else { return false };
        text.windows(next.marker.len()).any(|part| part == next.marker.as_bytes())
    }

    fn take(&mut self) -> Option<ErrorFields> {
        self.waiting.pop_front().map(|denial| denial.fields)
    }

    /// Forgets those whose batch is over: the server skipped them.
    fn forget_until(&mut self, came: u64) {
        while self.waiting.front().is_some_and(|denial| denial.until <= came) {
            self.waiting.pop_front();
        }
    }
}
