//! Messages that postern itself writes, and the fields of errors that it reads.

use crate::error::{SqlState, UserFacingError};

use super::frame::{HEADER_LEN, backend, frontend};

/// Appends a message: type byte, length, and what `body` writes.
pub fn put(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let at = out.len();
    out.extend([0; 4]);
    body(out);
    // A message of ours is a few kilobytes; one that is not would be cut, not wrapped.
    let length = u32::try_from(out.len() - at).unwrap_or(u32::MAX);
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a string and its terminator. A NUL inside would end it early, so it ends there.
pub fn put_str(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

/// The same for a string in an encoding that nobody knows.
pub fn put_bytes(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(text.split(|byte| *byte == 0).next().unwrap_or_default());
    out.push(0);
}

/// Splits off a string at its terminator; `None` when there is none.
pub fn take_str<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    let (text, rest) = bytes.split_at(end);
    *bytes = &rest[1..];
    Some(text)
}

/// Severities of an error ("55.8. Error and Notice Message Fields").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The statement failed.
    Error,
    /// The session is over.
    Fatal,
}

impl Severity {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Fatal => "FATAL",
        }
    }
}

/// The fields of an error of ours ("55.8. Error and Notice Message Fields").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorFields {
    /// `C`: the SQLSTATE.
    pub sqlstate: SqlState,
    /// `M`: the primary message.
    pub message: String,
    /// `D`: more about it.
    pub detail: Option<String>,
    /// `H`: what can be done.
    pub hint: Option<String>,
    /// `P`: where in the statement, in characters from 1.
    pub position: Option<usize>,
}

impl ErrorFields {
    /// An error without detail or hint.
    pub fn new(sqlstate: SqlState, message: impl Into<String>) -> Self {
        Self { sqlstate, message: message.into(), detail: None, hint: None, position: None }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What the client may see of `error`.
    pub fn of(error: &dyn UserFacingError) -> Self {
        Self {
            sqlstate: error.sqlstate(),
            message: error.message(),
            detail: error.detail(),
            hint: error.hint(),
            position: None,
        }
    }

    /// Appends an `ErrorResponse`.
    pub fn encode(&self, severity: Severity, out: &mut Vec<u8>) {
        put(out, backend::ERROR, |out| {
            let mut field = |code: u8, text: &str| {
                out.push(code);
                put_str(out, text);
            };
            field(b'S', severity.as_str());
            field(b'V', severity.as_str());
            field(b'C', self.sqlstate.0);
            field(b'M', &self.message);
            if let Some(detail) = &self.detail {
                field(b'D', detail);
            }
            if let Some(hint) = &self.hint {
                field(b'H', hint);
            }
            if let Some(position) = self.position {
                field(b'P', &position.to_string());
            }
            out.push(0);
        });
    }
}

/// One field of a received `ErrorResponse` or `NoticeResponse` body.
pub fn error_field(mut body: &[u8], wanted: u8) -> Option<&[u8]> {
    while let [code, rest @ ..] = body {
        if *code == 0 {
            return None;
        }
        body = rest;
        let text = take_str(&mut body)?;
        if *code == wanted {
            return Some(text);
        }
    }
    None
}

/// Does this error end the session? Tells by the field that is never translated.
pub fn is_fatal(body: &[u8]) -> bool {
    matches!(error_field(body, b'V'), Some(b"FATAL" | b"PANIC"))
}

/// A Query.
pub fn query(out: &mut Vec<u8>, sql: &str) {
    put(out, frontend::QUERY, |out| put_str(out, sql));
}

/// `SASLInitialResponse`
pub fn sasl_initial(out: &mut Vec<u8>, mechanism: &str, first: &[u8]) {
    put(out, frontend::PASSWORD, |out| {
        put_str(out, mechanism);
        out.extend(u32::try_from(first.len()).unwrap_or(u32::MAX).to_be_bytes());
        out.extend(first);
    });
}

/// `SASLResponse`
pub fn sasl(out: &mut Vec<u8>, data: &[u8]) {
    put(out, frontend::PASSWORD, |out| out.extend(data));
}

/// Authentication…: a code and its data ("55.7", `AuthenticationOk` and its siblings).
pub fn authentication(out: &mut Vec<u8>, code: u32, data: &[u8]) {
    put(out, backend::AUTHENTICATION, |out| {
        out.extend(code.to_be_bytes());
        out.extend(data);
    });
}

/// `AuthenticationOk`
pub const AUTH_OK: u32 = 0;
/// `AuthenticationSASL`
pub const AUTH_SASL: u32 = 10;
/// `AuthenticationSASLContinue`
pub const AUTH_SASL_CONTINUE: u32 = 11;
/// `AuthenticationSASLFinal`
pub const AUTH_SASL_FINAL: u32 = 12;

/// `BackendKeyData`; the key is longer than four bytes from protocol 3.2 on.
pub fn key_data(out: &mut Vec<u8>, pid: u32, key: &[u8]) {
    put(out, backend::KEY_DATA, |out| {
        out.extend(pid.to_be_bytes());
        out.extend(key);
    });
}

/// `NegotiateProtocolVersion`: the newest minor version we speak, and the options we do not know.
pub fn negotiate(out: &mut Vec<u8>, version: u32, unknown: &[Vec<u8>]) {
    put(out, backend::NEGOTIATE, |out| {
        out.extend(version.to_be_bytes());
        out.extend(u32::try_from(unknown.len()).unwrap_or(u32::MAX).to_be_bytes());
        for option in unknown {
            put_bytes(out, option);
        }
    });
}

/// The body of a complete message.
pub fn body(message: &[u8]) -> &[u8] {
    message.get(HEADER_LEN..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_as_it_was_written() {
        let mut out = Vec::new();
        let error = ErrorFields {
            detail: Some("d".into()),
            position: Some(8),
            ..ErrorFields::new(SqlState::INSUFFICIENT_PRIVILEGE, "no\0hidden").hint("h")
        };
        error.encode(Severity::Fatal, &mut out);
        let fields = body(&out);
        assert_eq!(out.len(), HEADER_LEN + fields.len());
        assert_eq!(u32::from_be_bytes(out[1..5].try_into().unwrap()) as usize, out.len() - 1);
        for (code, text) in [(b'C', "42501"), (b'M', "no"), (b'D', "d"), (b'H', "h"), (b'P', "8")] {
            assert_eq!(error_field(fields, code), Some(text.as_bytes()));
        }
        assert!(is_fatal(fields));
        assert_eq!(error_field(b"Mtruncated", b'M'), None);
    }
}
