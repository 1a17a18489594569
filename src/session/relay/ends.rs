//! How a session ends: by order, by the client, by the server.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::control::Order;
use super::super::guard::Guard;
use super::{Phase, Relay};
use crate::error::SqlState;
use crate::wire::ErrorFields;
use crate::wire::message::Severity;
use crate::wire::stream::Peer;

/// What a client that stopped sending still waits for may take this long before it is cancelled.
pub(super) const HALF_CLOSED_GRACE: Duration = Duration::from_secs(1);
/// Between attempts to cancel what a vanished client left running.
const CANCEL_AGAIN: Duration = Duration::from_millis(200);
/// How long a farewell waits for the message that is under way, and for the client to take it.
const FAREWELL: Duration = Duration::from_millis(900);
/// How often what runs is cancelled before the connection is dropped.
const CANCEL_ATTEMPTS: u32 = 4;

impl<G: Guard> Relay<G> {
    pub(super) fn obey(&mut self, order: Order) {
        if self.phase != Phase::Open {
            return;
        }
        if order == Order::EndWhenIdle && !(self.ledger.is_idle() && self.status == b'I') {
            return;
        }
        let farewell = order.farewell(&self.lease);
        self.say_farewell(&farewell);
    }

    /// Ends the session with a FATAL error after the message that is under way.
    pub(super) fn say_farewell(&mut self, fields: &ErrorFields) {
        if !self.ledger.is_idle() {
            self.cancel_running();
        }
        self.up.clear();
        self.phase = Phase::Farewell;
        self.set_timer(FAREWELL);
        // Never a second word after the server's last one, nor one to a client that left.
        if !self.fatal && !self.terminated {
            fields.encode(Severity::Fatal, &mut self.farewell);
        }
    }

    /// The server closed its connection.
    pub(super) fn server_gone(&mut self) {
        if self.fatal || self.terminated || self.phase != Phase::Open {
            // Said already, or not wanted any more.
            self.linger = self.fatal && !self.terminated;
            self.phase = Phase::Over;
        } else if self.down.body_left > 0 {
            // Half a message is with the client: nothing can be said in the middle of it.
            self.phase = Phase::Over;
        } else {
            self.ledger.clear();
            self.say_farewell(
                &ErrorFields::new(
                    SqlState::CONNECTION_FAILURE,
                    "the branch's server closed the connection unexpectedly",
                )
                .hint("Connect again: the branch's server is started anew when it has stopped."),
            );
        }
    }

    /// The server sent what no server sends.
    pub(super) fn server_is_broken(&mut self) {
        self.say_farewell(&ErrorFields::new(
            SqlState::CONNECTION_FAILURE,
            "the branch's server answered with something that is not the protocol",
        ));
    }

    /// The server does not take what the client sent. As long as this lasts the client is not
    /// read, so whether it is still there is looked up now and then.
    pub(super) fn watch_client(&mut self) {
        if self.timer.is_none() {
            self.set_timer(HALF_CLOSED_GRACE);
        }
    }

    pub(super) fn time_is_up(&mut self) {
        if self.phase != Phase::Open || self.cancels >= CANCEL_ATTEMPTS {
            self.phase = Phase::Over;
            return;
        }
        if !self.client_eof {
            if self.up.is_sent() {
                return; // it was taken after all
            }
            match self.client.peer() {
                Peer::There => return self.set_timer(HALF_CLOSED_GRACE),
                Peer::Gone => {
                    self.phase = Phase::Over;
                    return;
                }
                Peer::SendsNoMore => {}
            }
        }
        // The client sends nothing any more. While it takes what it asked for, all is well.
        if self.up.total + self.down.total > self.moved_before {
            return self.set_timer(HALF_CLOSED_GRACE);
        }
        self.cancel_running();
        self.set_timer(CANCEL_AGAIN);
    }

    pub(super) fn cancel_running(&mut self) {
        self.cancels += 1;
        let target = Arc::clone(&self.cancel);
        tokio::spawn(async move { target.cancel().await });
    }

    pub(super) fn set_timer(&mut self, after: Duration) {
        let at = Instant::now() + after;
        self.moved_before = self.up.total + self.down.total;
        match &mut self.timer {
            Some(timer) => timer.as_mut().reset(at),
            None => self.timer = Some(Box::pin(tokio::time::sleep_until(at))),
        }
    }
}
