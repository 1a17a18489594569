//! Framing: the five bytes before each message after the startup.
//!
//! A message is its type byte, a length that counts itself but not the type byte, and the body
//! (PostgreSQL manual, "55.2. Message Flow" and "55.7. Message Formats").

/// Type byte and length.
pub const HEADER_LEN: usize = 5;

/// The longest message a server reads: one byte less than 1 GiB (`PQ_LARGE_MESSAGE_LIMIT`,
/// libpq/libpq.h).
pub const MAX_MESSAGE: u32 = 0x3fff_ffff;

/// The header of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The type byte.
    pub kind: u8,
    /// How long the body is, without the length field.
    pub body: u32,
}

impl Header {
    /// Reads the header at the start of `bytes`; `None` when they are too few.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, FrameError> {
        let [kind, a, b, c, d, ..] = *bytes else { return Ok(None) };
        let length = u32::from_be_bytes([a, b, c, d]);
        if !(4..=MAX_MESSAGE).contains(&length) {
            return Err(FrameError { kind, length });
        }
        Ok(Some(Self { kind, body: length - 4 }))
    }

    /// The whole message's length in bytes, header included.
    pub fn message_len(self) -> usize {
        HEADER_LEN + self.body as usize
    }
}

/// A length that no message can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid message length {length}")]
pub struct FrameError {
    /// The type byte before it.
    pub kind: u8,
    /// The length.
    pub length: u32,
}

/// Message types that clients send ("55.7. Message Formats").
pub mod frontend {
    /// Bind
    pub const BIND: u8 = b'B';
    /// Close
    pub const CLOSE: u8 = b'C';
    /// Describe
    pub const DESCRIBE: u8 = b'D';
    /// Execute
    pub const EXECUTE: u8 = b'E';
    /// `FunctionCall`
    pub const FUNCTION_CALL: u8 = b'F';
    /// Flush
    pub const FLUSH: u8 = b'H';
    /// Parse
    pub const PARSE: u8 = b'P';
    /// Query
    pub const QUERY: u8 = b'Q';
    /// Sync
    pub const SYNC: u8 = b'S';
    /// Terminate
    pub const TERMINATE: u8 = b'X';
    /// `PasswordMessage`, `SASLInitialResponse`, `SASLResponse`
    pub const PASSWORD: u8 = b'p';
    /// `CopyData`
    pub const COPY_DATA: u8 = b'd';
    /// `CopyDone`
    pub const COPY_DONE: u8 = b'c';
    /// `CopyFail`
    pub const COPY_FAIL: u8 = b'f';
}

/// Message types that servers send ("55.7. Message Formats").
pub mod backend {
    /// Authentication…
    pub const AUTHENTICATION: u8 = b'R';
    /// `BackendKeyData`
    pub const KEY_DATA: u8 = b'K';
    /// `ParseComplete`
    pub const PARSE_COMPLETE: u8 = b'1';
    /// `BindComplete`
    pub const BIND_COMPLETE: u8 = b'2';
    /// `CloseComplete`
    pub const CLOSE_COMPLETE: u8 = b'3';
    /// `RowDescription`
    pub const ROW_DESCRIPTION: u8 = b'T';
    /// `NoData`
    pub const NO_DATA: u8 = b'n';
    /// `DataRow`
    pub const DATA_ROW: u8 = b'D';
    /// `PortalSuspended`
    pub const PORTAL_SUSPENDED: u8 = b's';
    /// `EmptyQueryResponse`
    pub const EMPTY_QUERY: u8 = b'I';
    /// `CopyInResponse`
    pub const COPY_IN: u8 = b'G';
    /// `CopyData`
    pub const COPY_DATA: u8 = b'd';
    /// `CommandComplete`
    pub const COMMAND_COMPLETE: u8 = b'C';
    /// `ErrorResponse`
    pub const ERROR: u8 = b'E';
    /// `NegotiateProtocolVersion`
    pub const NEGOTIATE: u8 = b'v';
    /// `NoticeResponse`
    pub const NOTICE: u8 = b'N';
    /// `ParameterStatus`
    pub const PARAMETER_STATUS: u8 = b'S';
    /// `ReadyForQuery`
    pub const READY: u8 = b'Z';
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        for length in [0_u32, 1, 2, 3, MAX_MESSAGE + 1, 0x8000_0000, u32::MAX] {
            let mut bytes = vec![b'Q'];
            bytes.extend(length.to_be_bytes());
            assert_eq!(Header::parse(&bytes), Err(FrameError { kind: b'Q', length }));
        }
        assert_eq!(Header::parse(b"S\0\0\0\x04"), Ok(Some(Header { kind: b'S', body: 0 })));
        assert_eq!(Header::parse(b"S\0\0\0"), Ok(None));
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_header_an_error_or_a_wish_for_more(bytes: Vec<u8>) {
            match Header::parse(&bytes) {
                Ok(None) => prop_assert!(bytes.len() < HEADER_LEN),
                Ok(Some(header)) => {
                    prop_assert_eq!(header.kind, bytes[0]);
                    prop_assert!(header.message_len() <= 1 + MAX_MESSAGE as usize);
                }
                Err(error) => prop_assert!(!(4..=MAX_MESSAGE).contains(&error.length)),
            }
        }
    }
}
