//! The steady state: headers are walked, the same bytes go on, in both directions, in one task.

mod down;
mod ends;
mod up;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::Sleep;

use super::backend::CancelTarget;
use super::control::{Activity, Control};
use super::denial::Denials;
use super::guard::{Guard, Sent};
use super::ledger::Ledger;
use super::pipe::Pipe;
use crate::error::SqlState;
use crate::wire::frame::{Header, backend};
use crate::wire::{ErrorFields, Stream, message};

/// A session between login and end.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not a state")]
pub struct Relay<G> {
    client: Stream,
    server: Stream,
    /// From the client to the server.
    up: Pipe,
    /// From the server to the client.
    down: Pipe,
    /// A message of the client's that is larger than the buffer, while it is read whole.
    up_whole: Option<Whole>,
    /// The same of the server's.
    down_whole: Option<Whole>,
    guard: G,
    /// The guard decided on something that is not sent yet.
    uncommitted: bool,
    ledger: Ledger,
    denials: Denials,
    /// What the statement under way has sent so far.
    tally: Sent,
    control: Arc<Control>,
    lease: String,
    cancel: Arc<CancelTarget>,
    /// The transaction status of the last `ReadyForQuery`.
    status: u8,
    /// The client said good-bye.
    terminated: bool,
    /// The server said a last word.
    fatal: bool,
    /// The client sends nothing any more.
    client_eof: bool,
    server_eof: bool,
    phase: Phase,
    /// What the client is told last.
    farewell: Vec<u8>,
    /// The client is there and may still have to read the last word.
    linger: bool,
    timer: Option<Pin<Box<Sleep>>>,
    /// Bytes that had gone either way when the timer was set.
    moved_before: u64,
    cancels: u32,
}

/// A message that is put together.
struct Whole {
    bytes: Vec<u8>,
    length: usize,
}

impl Whole {
    fn new(length: usize) -> Self {
        Self { bytes: Vec::new(), length }
    }

    /// Moves bytes over from a pipe. Is it whole now?
    fn take_from(&mut self, pipe: &mut Pipe) -> bool {
        let unread = pipe.unread();
        let n = unread.len().min(self.length - self.bytes.len());
        self.bytes.extend_from_slice(&unread[..n]);
        pipe.drop_unread(n);
        self.bytes.len() == self.length
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Walk {
    /// There is something to send first.
    Send,
    /// More bytes are needed.
    More,
}

impl Walk {
    /// After as much as there was: more is needed, once it is sent.
    fn after(pipe: &Pipe) -> Self {
        if pipe.is_sent() { Self::More } else { Self::Send }
    }
}

impl<G: Guard> Relay<G> {
    /// A session whose login is done. `greeting` is what the server said during login, `early`
    /// what it sent after its first `ReadyForQuery`.
    pub fn new(
        (client, server): (Stream, Stream),
        (greeting, early): (&[u8], &[u8]),
        guard: G,
        control: Arc<Control>,
        lease: String,
        cancel: Arc<CancelTarget>,
    ) -> Self {
        let mut relay = Self {
            client,
            server,
            up: Pipe::default(),
            down: Pipe::default(),
            up_whole: None,
            down_whole: None,
            guard,
            uncommitted: false,
            ledger: Ledger::default(),
            denials: Denials::default(),
            tally: Sent::default(),
            control,
            lease,
            cancel,
            status: b'I',
            terminated: false,
            fatal: false,
            client_eof: false,
            server_eof: false,
            phase: Phase::Open,
            farewell: Vec::new(),
            linger: false,
            timer: None,
            moved_before: 0,
            cancels: 0,
        };
        if G::LISTENS {
            relay.hear_greeting(greeting);
        }
        if !relay.down.seed(early) {
            // Nothing was asked yet: a server has a notice or two to say, not a buffer full.
            relay.say_farewell(&ErrorFields::new(
                SqlState::CONNECTION_FAILURE,
                "the branch's server answered with something that is not the protocol",
            ));
        }
        relay.control.set_activity(Activity::Idle);
        relay
    }

    fn hear_greeting(&mut self, mut greeting: &[u8]) {
        while let Ok(Some(header)) = Header::parse(greeting) {
            let Some((one, rest)) = greeting.split_at_checked(header.message_len()) else { return };
            if header.kind == backend::PARAMETER_STATUS {
                hear_parameter(&mut self.guard, message::body(one));
            }
            greeting = rest;
        }
    }

    /// Runs the session to its end. Gives back the client's connection when the client was told
    /// something last, which it may still have to read.
    ///
    /// Cancel-safe in that all state is in `self`; a session dropped in the middle closes both
    /// connections.
    pub async fn run(mut self) -> Option<Stream> {
        poll_fn(|cx| self.poll(cx)).await;
        if !self.ledger.is_idle() && !self.server_eof {
            self.cancel_running();
        }
        self.linger.then_some(self.client)
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
}

/// Tells a guard of a `ParameterStatus`.
fn hear_parameter<G: Guard>(guard: &mut G, mut body: &[u8]) {
    if let (Some(name), Some(value)) = (message::take_str(&mut body), message::take_str(&mut body))
    {
        guard.parameter(name, value);
    }
}
