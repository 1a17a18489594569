//! From the server to the client: headers are looked at, and a few short bodies.

use std::task::{Context, Poll};

use super::super::control::{Activity, Order};
use super::super::guard::{Guard, MAX_NOTICE, Reply};
use super::super::ledger::Step;
use super::super::pipe::BUFFER;
use super::{Phase, Relay, Walk, Whole, hear_parameter};
use crate::wire::frame::{HEADER_LEN, Header, backend};
use crate::wire::message::{self, Severity};

impl<G: Guard> Relay<G> {
    pub(super) fn pump_down(&mut self, cx: &mut Context<'_>) {
        while self.phase != Phase::Over {
            match self.down.poll_send(&mut self.client, cx) {
                Poll::Ready(Ok(())) if self.phase == Phase::Last => {
                    self.linger = true;
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
            if self.walk_down() == Walk::Send {
                continue;
            }
            if self.client_eof && self.ledger.is_idle() {
                self.phase = Phase::Over;
                return;
            }
            match self.down.poll_read(&mut self.server, cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(n)) if n > 0 => {}
                Poll::Ready(_) => {
                    self.server_eof = true;
                    self.server_gone();
                }
            }
        }
    }

    fn walk_down(&mut self) -> Walk {
        loop {
            if self.down_whole.is_some() {
                if !self.take_whole_down() {
                    return Walk::after(&self.down);
                }
                continue;
            }
            if self.down.has_gap() {
                return Walk::Send;
            }
            if self.down.body_left > 0 && !self.down.pass_body() {
                return Walk::after(&self.down);
            }
            if self.phase == Phase::Farewell {
                self.down.drop_all_unread();
                self.down.insert().append(&mut self.farewell);
                self.phase = Phase::Last;
                return Walk::Send;
            }
            let unread = self.down.unread();
            let header = match Header::parse(unread) {
                Ok(Some(header)) => header,
                Ok(None) => return Walk::after(&self.down),
                Err(_) => {
                    self.server_is_broken();
                    continue;
                }
            };
            let length = header.message_len();
            if G::LISTENS
                && header.kind == backend::NOTICE
                && (BUFFER..=MAX_NOTICE).contains(&length)
            {
                self.down_whole = Some(Whole::new(length));
                continue;
            }
            if length <= BUFFER && must_see::<G>(header.kind) {
                if unread.len() < length {
                    return Walk::after(&self.down);
                }
                self.hear(header.kind, length);
                continue;
            }
            match header.kind {
                backend::DATA_ROW => {
                    self.tally.rows += 1;
                    self.tally.bytes += length as u64;
                }
                backend::COPY_DATA => self.tally.bytes += length as u64,
                // Too long to be one of ours, or to be told to the guard: it fails all the same.
                backend::ERROR => {
                    self.failed(&[]);
                }
                kind => self.replied(kind, &[]),
            }
            self.down.pass(HEADER_LEN);
            self.down.body_left = header.body as usize;
        }
    }

    /// A message that is here whole and is looked at.
    fn hear(&mut self, kind: u8, length: usize) {
        let body = &self.down.unread()[HEADER_LEN..length];
        match kind {
            backend::READY => {
                self.status = body.first().copied().unwrap_or(0);
                self.down.pass(length);
                self.ready_for_query();
            }
            backend::ERROR => {
                let body = body.to_vec();
                match self.failed(&body) {
                    None => self.down.pass(length),
                    Some(ours) => {
                        self.down.drop_unread(length);
                        self.down.insert().extend(ours);
                    }
                }
            }
            backend::NOTICE => {
                if self.guard.notice(body) {
                    self.down.pass(length);
                } else {
                    self.down.drop_unread(length);
                }
            }
            backend::PARAMETER_STATUS => {
                hear_parameter(&mut self.guard, body);
                self.down.pass(length);
            }
            kind => {
                let mut tag = [0; 64]; // COMPLETION_TAG_BUFSIZE, tcop/cmdtag.h
                let n = body.len().saturating_sub(1).min(tag.len());
                tag[..n].copy_from_slice(&body[..n]);
                self.replied(kind, &tag[..n]);
                self.down.pass(length);
            }
        }
    }

    /// Moves bytes of a long notice aside until it is whole, then asks the guard. True when it was.
    fn take_whole_down(&mut self) -> bool {
        if !self.down_whole.as_mut().is_some_and(|whole| whole.take_from(&mut self.down)) {
            return false;
        }
        let Some(Whole { bytes, .. }) = self.down_whole.take() else { return false };
        if self.guard.notice(message::body(&bytes)) {
            self.down.insert().extend(bytes);
        }
        true
    }

    fn replied(&mut self, kind: u8, tag: &[u8]) {
        let Some((number, step)) = self.ledger.reply(kind) else { return };
        if !G::LISTENS {
            return;
        }
        let reply = match step {
            Step::Done => Reply::Done,
            Step::Complete => Reply::Complete { tag, sent: std::mem::take(&mut self.tally) },
            Step::Suspended => Reply::Suspended { sent: std::mem::take(&mut self.tally) },
        };
        self.guard.reply(number, reply);
    }

    /// An `ErrorResponse` came. Gives what stands in for it, when it answers a refused message.
    fn failed(&mut self, error: &[u8]) -> Option<Vec<u8>> {
        self.fatal |= message::is_fatal(error);
        let guard = &mut self.guard;
        // The failed one is told first: it comes before what is skipped for it.
        let number = self.ledger.failing()?;
        let ours = self.denials.take(number, error).map(|fields| {
            let mut out = Vec::new();
            fields.encode(Severity::Error, &mut out);
            out
        });
        let sent = std::mem::take(&mut self.tally);
        if G::LISTENS {
            let error = ours.as_deref().map_or(error, message::body);
            guard.reply(number, Reply::Failed { error, refused: ours.is_some(), sent });
        }
        self.ledger.error(|skipped| {
            if G::LISTENS {
                guard.reply(skipped, Reply::Skipped);
            }
        });
        ours
    }

    fn ready_for_query(&mut self) {
        let ended = self.ledger.ready();
        self.denials.forget_before(self.ledger.oldest());
        self.tally = super::Sent::default();
        if let Some(number) = ended.filter(|_| G::LISTENS) {
            self.guard.reply(number, Reply::Ready { status: self.status });
        }
        if self.ledger.is_idle() {
            self.control.set_activity(Activity::of(self.status));
        }
        if self.control.current() == Some(Order::EndWhenIdle) {
            self.obey(Order::EndWhenIdle);
        }
    }
}

/// Messages whose body is looked at.
fn must_see<G: Guard>(kind: u8) -> bool {
    match kind {
        backend::READY | backend::ERROR => true,
        backend::COMMAND_COMPLETE | backend::NOTICE | backend::PARAMETER_STATUS => G::LISTENS,
        _ => false,
    }
}
