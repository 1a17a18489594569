//! Who decides, before a message is forwarded, whether it may be, and who hears what came of it.

use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::Grant;
use crate::wire::{ErrorFields, StartupParameters};

/// Makes a guard for each session.
pub trait Guards: Send + Sync + 'static {
    /// What guards one session.
    type Guard: Guard;

    /// A session is about to begin: the client is authenticated and admitted, its server is not
    /// reached yet. An error refuses it (FATAL), say for a startup parameter.
    fn open(&self, opening: &Opening<'_>) -> Result<Self::Guard, Box<ErrorFields>>;
}

/// A session that is about to begin.
#[derive(Debug)]
pub struct Opening<'a> {
    /// Its number.
    pub session: u64,
    /// Its lease.
    pub grant: &'a Arc<Grant>,
    /// What the client asked for; all of it reaches the server, save user and database.
    pub startup: &'a StartupParameters,
    /// Where the client is; `None` on the unix socket.
    pub client: Option<IpAddr>,
}

/// Stands in the way of one session's messages. All methods are called from the session's task, in
/// the order of the bytes.
pub trait Guard: Send {
    /// Does it want to hear of replies? If not, none is looked at for it.
    const LISTENS: bool;

    /// How much of a message of this type must it see? The rest streams through unread.
    fn reads(&self, kind: u8) -> Reads;

    /// May this message go to the server? Asked once for each message that it reads, before any
    /// byte of it is forwarded. `body` is without the header; with [`Reads::Start`] it may be only
    /// the beginning.
    fn decide(&mut self, number: u64, kind: u8, body: &[u8]) -> Decision;

    /// What was decided since the last call is about to be sent, in one write: the place to write
    /// down a batch at once and to wait until it is safe. An error ends the session before
    /// anything of the batch is sent. Called again after `Pending` until it is ready.
    fn poll_commit(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Box<ErrorFields>>> {
        Poll::Ready(Ok(()))
    }

    /// The server process is known.
    fn ready(&mut self, _pid: u32) {}

    /// What became of message `number`. A Query may complete several times, then it is ready.
    fn reply(&mut self, _number: u64, _reply: Reply<'_>) {}

    /// The server sent a `NoticeResponse`. Does it go to the client? Longer ones than
    /// [`MAX_NOTICE`] do, unasked.
    fn notice(&mut self, _body: &[u8]) -> bool {
        true
    }

    /// The server reported a setting, at login or later (`ParameterStatus`).
    fn parameter(&mut self, _name: &[u8], _value: &[u8]) {}
}

/// The longest notice that is shown to a guard, in bytes.
pub const MAX_NOTICE: usize = 4 << 20;

/// How much of a message a guard sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Nothing.
    Nothing,
    /// The first [`START`] bytes of its body: enough for the names in a Bind, whose values may be
    /// of any length.
    Start,
    /// All of it. A message that is too long for that is refused.
    Whole,
}

/// How much of a body is seen with [`Reads::Start`], in bytes, if it has as many.
pub const START: usize = 8 * 1024;

/// What becomes of a message.
#[derive(Debug)]
pub enum Decision {
    /// It goes on as it is.
    Forward,
    /// The server gets one in its place that fails at the same point, and the client gets this
    /// error for it.
    Refuse(Box<ErrorFields>),
}

/// What the server made of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// Parse, Bind, Describe or Close succeeded.
    Done,
    /// A statement of a Query, or an Execute, ended with this tag.
    Complete {
        /// The command tag; empty for an empty query.
        tag: &'a [u8],
        /// What it sent.
        sent: Sent,
    },
    /// An Execute reached its row limit.
    Suspended {
        /// What it sent so far.
        sent: Sent,
    },
    /// It failed.
    Failed {
        /// The body of the `ErrorResponse`; empty when it was too long to be looked at.
        error: &'a [u8],
        /// The guard had refused it: the error is the guard's own.
        refused: bool,
        /// What it sent before.
        sent: Sent,
    },
    /// The server did not look at it: an earlier message of its pipeline failed.
    Skipped,
    /// `ReadyForQuery` for a Query, Sync or `FunctionCall`.
    Ready {
        /// `I`, `T` or `E`.
        status: u8,
    },
}

/// What a statement moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    /// `DataRow` messages.
    pub rows: u64,
    /// Bytes of `DataRow` and `CopyData` to the client, headers included.
    pub bytes: u64,
    /// Bytes of `CopyData` from the client, headers included.
    pub copied_in: u64,
}

/// Lets everything pass: the server alone is the wall.
#[derive(Debug, Clone, Copy, Default)]
pub struct Open;

impl Guards for Open {
    type Guard = Self;

    fn open(&self, _opening: &Opening<'_>) -> Result<Self, Box<ErrorFields>> {
        Ok(Self)
    }
}

impl Guard for Open {
    const LISTENS: bool = false;

    fn reads(&self, _kind: u8) -> Reads {
        Reads::Nothing
    }

    fn decide(&mut self, _number: u64, _kind: u8, _body: &[u8]) -> Decision {
        Decision::Forward
    }
}
