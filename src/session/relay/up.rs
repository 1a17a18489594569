//! From the client to the server: what the guard must see is decided on before it goes.

use std::task::{Context, Poll};

use super::super::control::Activity;
use super::super::guard::{Decision, Guard, Reads, Reply, START};
use super::super::pipe::BUFFER;
use super::ends::HALF_CLOSED_GRACE;
use super::{Phase, Relay, Walk, Whole};
use crate::error::SqlState;
use crate::wire::frame::{HEADER_LEN, Header, frontend};
use crate::wire::{ErrorFields, message};

/// The longest message that is read whole for the guard, in bytes.
const MAX_READ: usize = 64 << 20;

impl<G: Guard> Relay<G> {
    pub(super) fn pump_up(&mut self, cx: &mut Context<'_>) {
        while self.phase == Phase::Open {
            if self.uncommitted {
                match self.guard.poll_commit(cx) {
                    Poll::Ready(Ok(())) => self.uncommitted = false,
                    Poll::Ready(Err(fields)) => return self.say_farewell(&fields),
                    Poll::Pending => return,
                }
            }
            match self.up.poll_send(&mut self.server, cx) {
                Poll::Ready(Ok(())) => {}
                // The server is gone. What it had to say is still to be read.
                Poll::Ready(Err(_)) => {
                    self.up.dead = true;
                    continue;
                }
                Poll::Pending => return self.watch_client(),
            }
            match self.walk_up() {
                Ok(Walk::Send) => continue,
                Ok(Walk::More) => {}
                Err(refused) => return self.say_farewell(&refused),
            }
            if self.client_eof {
                return;
            }
            match self.up.poll_read(&mut self.client, cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(0)) => {
                    self.client_eof = true;
                    self.up.clear(); // a message that was cut off is none
                    self.up_whole = None;
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
        loop {
            if self.up_whole.is_some() {
                return Ok(if self.take_whole_up() { Walk::Send } else { Walk::after(&self.up) });
            }
            if self.up.drop_left > 0 && !self.up.drop_body() || self.up.has_gap() {
                return Ok(Walk::after(&self.up));
            }
            if self.up.body_left > 0 && !self.up.pass_body() {
                return Ok(Walk::after(&self.up));
            }
            let header = match Header::parse(self.up.unread()) {
                Ok(Some(header)) => header,
                Ok(None) => return Ok(Walk::after(&self.up)),
                Err(error) => {
                    return Err(ErrorFields::new(SqlState::PROTOCOL_VIOLATION, error.to_string()));
                }
            };
            let length = header.message_len();
            let seen = match self.guard.reads(header.kind) {
                Reads::Nothing => {
                    if header.kind == frontend::COPY_DATA {
                        self.tally.copied_in += length as u64;
                    }
                    self.note_sent(header.kind);
                    self.up.pass(HEADER_LEN);
                    self.up.body_left = header.body as usize;
                    continue;
                }
                Reads::Whole if length <= BUFFER => length,
                Reads::Whole if length <= MAX_READ => {
                    self.up_whole = Some(Whole::new(length));
                    continue;
                }
                Reads::Start | Reads::Whole => length.min(HEADER_LEN + START),
            };
            let unread = self.up.unread();
            if unread.len() < seen {
                return Ok(Walk::after(&self.up));
            }
            let body = &unread[HEADER_LEN..seen];
            let number = self.ledger.next_number();
            let too_long = length > MAX_READ && self.guard.reads(header.kind) == Reads::Whole;
            let decision = if too_long {
                Decision::Refuse(Box::new(too_long_to_read(length)))
            } else {
                self.uncommitted = true;
                self.guard.decide(number, header.kind, body)
            };
            match decision {
                Decision::Forward => {
                    self.note_sent(header.kind);
                    self.up.pass(HEADER_LEN);
                    self.up.body_left = header.body as usize;
                }
                Decision::Refuse(fields) => {
                    // Of a Parse only the name is needed, which is at its beginning.
                    let body = body[..body.len().min(START)].to_vec();
                    self.up.drop_unread(HEADER_LEN);
                    self.up.drop_left = header.body as usize;
                    self.refuse(header.kind, &body, *fields);
                }
            }
        }
    }

    /// Moves bytes of a large message aside until it is whole, then decides. True when it was.
    fn take_whole_up(&mut self) -> bool {
        if !self.up_whole.as_mut().is_some_and(|whole| whole.take_from(&mut self.up)) {
            return false;
        }
        let Some(Whole { bytes, .. }) = self.up_whole.take() else { return false };
        let kind = bytes[0];
        self.uncommitted = true;
        match self.guard.decide(self.ledger.next_number(), kind, message::body(&bytes)) {
            Decision::Forward => {
                *self.up.insert() = bytes;
                self.note_sent(kind);
            }
            Decision::Refuse(fields) => self.refuse(kind, message::body(&bytes), *fields),
        }
        true
    }

    /// Puts in place of a refused message one that the server refuses at the same point.
    fn refuse(&mut self, kind: u8, body: &[u8], fields: ErrorFields) {
        let number = self.ledger.next_number();
        let stand_in = self.denials.refuse(number, kind, body, fields, self.up.insert());
        self.note_sent(stand_in);
    }

    fn note_sent(&mut self, kind: u8) {
        let number = self.ledger.next_number();
        if !self.ledger.sent(kind) && G::LISTENS {
            self.guard.reply(number, Reply::Skipped);
        }
        if kind == frontend::TERMINATE {
            self.terminated = true;
        }
        self.control.set_activity(Activity::Active);
    }
}

fn too_long_to_read(length: usize) -> ErrorFields {
    ErrorFields::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        format!("a message of {length} bytes is longer than the {MAX_READ} bytes that are read"),
    )
    .hint("Send large values as parameters or with COPY, not inside the SQL text.")
}
