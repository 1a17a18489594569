//! Who decides, before a message is forwarded, whether it may be.

use crate::wire::ErrorFields;

/// Looks at a session's messages before the server sees them.
pub trait Guard: Send {
    /// Must messages of this type be read whole? Others stream through unread.
    fn reads(&self, kind: u8) -> bool;

    /// May this message go to the server? `body` is the message without its header.
    fn decide(&mut self, kind: u8, body: &[u8]) -> Decision;
}

/// What becomes of a message.
#[derive(Debug)]
pub enum Decision {
    /// It goes on as it is.
    Forward,
    /// The server gets one in its place that fails at the same point, and the client gets this
    /// error for it.
    Refuse(Box<ErrorFields>),
}

/// Lets everything pass: the server alone is the wall.
#[derive(Debug, Clone, Copy, Default)]
pub struct Open;

impl Guard for Open {
    fn reads(&self, _kind: u8) -> bool {
        false
    }

    fn decide(&mut self, _kind: u8, _body: &[u8]) -> Decision {
        Decision::Forward
    }
}
