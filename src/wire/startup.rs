//! What a client says first: a request for encryption, a cancellation, or the startup message.

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::error::{ErrorKind, SqlState, UserFacingError};

/// `SSLRequest` ("55.7. Message Formats").
pub const SSL_REQUEST: u32 = 80_877_103;
/// `GSSENCRequest`
pub const GSSENC_REQUEST: u32 = 80_877_104;
/// `CancelRequest`
pub const CANCEL_REQUEST: u32 = 80_877_102;
/// The longest startup packet, as PostgreSQL has it (`MAX_STARTUP_PACKET_LENGTH`, libpq/pqcomm.h).
pub const MAX_STARTUP: usize = 10_000;
/// The longest cancel key of protocol 3.2 ("55.7", `BackendKeyData`).
pub const MAX_CANCEL_KEY: usize = 256;
/// How much is read at once. Nothing is allocated for what a length only promises.
const CHUNK: usize = 1024;

/// A protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProtocolVersion(pub u32);

impl ProtocolVersion {
    /// 3.0
    pub const V3_0: Self = Self(0x0003_0000);
    /// 3.2, with longer cancel keys; the newest there is.
    pub const V3_2: Self = Self(0x0003_0002);

    /// The major number.
    pub const fn major(self) -> u32 {
        self.0 >> 16
    }

    /// The minor number.
    pub const fn minor(self) -> u32 {
        self.0 & 0xffff
    }

    /// The version that is spoken with a client that asks for this one. 3.1 was never released
    /// and is reserved ("55.1. Overview").
    #[must_use]
    pub fn negotiated(self) -> Self {
        if self >= Self::V3_2 { Self::V3_2 } else { Self::V3_0 }
    }
}

/// The first message of a connection.
#[derive(Debug)]
pub enum StartupRequest {
    /// The client wants TLS.
    Ssl,
    /// The client wants GSSAPI encryption.
    GssEnc,
    /// The client wants a statement of another session cancelled.
    Cancel {
        /// The process id it was given.
        pid: u32,
        /// The key it was given.
        key: Vec<u8>,
    },
    /// The client wants a session.
    Startup(StartupParameters),
}

/// The startup message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartupParameters {
    /// The version the client asks for.
    pub version: ProtocolVersion,
    /// Names and values in the order they came, protocol options aside. Bytes, for what is not
    /// UTF-8 is the server's to judge: it takes a Latin-1 `application_name`.
    pub parameters: Vec<(Vec<u8>, Vec<u8>)>,
    /// Names of `_pq_.` protocol options; none is known yet.
    pub protocol_options: Vec<Vec<u8>>,
}

impl StartupParameters {
    /// The last value of a parameter, as the server takes it.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let mut latest = self.parameters.iter().rev();
        latest.find(|(n, _)| n == name.as_bytes()).map(|(_, value)| value.as_slice())
    }

    fn parse(version: ProtocolVersion, mut body: &[u8]) -> Result<Self, StartupError> {
        let mut out = Self { version, parameters: Vec::new(), protocol_options: Vec::new() };
        loop {
            let name = super::message::take_str(&mut body).ok_or(StartupError::Layout)?;
            if name.is_empty() {
                break;
            }
            let value = super::message::take_str(&mut body).ok_or(StartupError::Layout)?;
            if name.starts_with(b"_pq_.") {
                out.protocol_options.push(name.to_vec());
            } else {
                out.parameters.push((name.to_vec(), value.to_vec()));
            }
        }
        if body.is_empty() { Ok(out) } else { Err(StartupError::Layout) }
    }
}

/// Reads the first message and not a byte more, so that a TLS handshake after it starts where the
/// client started it.
///
/// Cancel-safe only in that nothing outside is changed: what was read is lost, so a caller that
/// gives up closes the connection.
pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<StartupRequest, StartupError> {
    let mut head = [0; 8];
    stream.read_exact(&mut head).await.map_err(gone)?;
    let (length, code) = split(head);
    let length = length as usize;
    if !(8..=MAX_STARTUP).contains(&length) {
        return Err(StartupError::Length);
    }
    let mut body = Vec::new();
    while body.len() < length - 8 {
        let at = body.len();
        body.resize(at + CHUNK.min(length - 8 - at), 0);
        stream.read_exact(&mut body[at..]).await.map_err(gone)?;
    }
    match code {
        SSL_REQUEST if body.is_empty() => Ok(StartupRequest::Ssl),
        GSSENC_REQUEST if body.is_empty() => Ok(StartupRequest::GssEnc),
        CANCEL_REQUEST => match body.split_at_checked(4) {
            Some((pid, key)) if (1..=MAX_CANCEL_KEY).contains(&key.len()) => {
                let pid = pid.try_into().map_or(0, u32::from_be_bytes);
                Ok(StartupRequest::Cancel { pid, key: key.to_vec() })
            }
            _ => Err(StartupError::Length),
        },
        _ if ProtocolVersion(code).major() == 3 => {
            StartupParameters::parse(ProtocolVersion(code), &body).map(StartupRequest::Startup)
        }
        _ => Err(StartupError::Version(ProtocolVersion(code))),
    }
}

fn split(head: [u8; 8]) -> (u32, u32) {
    let both = u64::from_be_bytes(head);
    let [length, code] = [both >> 32, both & 0xffff_ffff].map(|n| u32::try_from(n).unwrap_or(0));
    (length, code)
}

fn gone(_: std::io::Error) -> StartupError {
    StartupError::Gone
}

/// Why a first message cannot be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StartupError {
    /// The client went away, or sent less than it said.
    #[error("the client went away during startup")]
    Gone,
    /// No startup packet has that length.
    #[error("invalid length of startup packet")]
    Length,
    /// Names and values do not add up.
    #[error("invalid startup packet layout: expected terminator as last byte")]
    Layout,
    /// A protocol that nobody speaks.
    #[error("unsupported frontend protocol {}.{}: postern supports 3.0 to 3.2", .0.major(), .0.minor())]
    Version(ProtocolVersion),
}

impl UserFacingError for StartupError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Gone => ErrorKind::ClientDisconnect,
            _ => ErrorKind::User,
        }
    }
    fn sqlstate(&self) -> SqlState {
        match self {
            Self::Version(_) => SqlState::FEATURE_NOT_SUPPORTED,
            _ => SqlState::PROTOCOL_VIOLATION,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_all(bytes: &[u8]) -> Result<StartupRequest, StartupError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(read(&mut { bytes }))
    }

    fn packet(code: u32, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 8).unwrap();
        [&length.to_be_bytes()[..], &code.to_be_bytes(), body].concat()
    }

    #[test]
    fn an_empty_value_does_not_end_the_list() {
        let bytes = packet(0x0003_0000, b"user\0u\0options\0\0_pq_.x\x001\0database\0d\0\0");
        let Ok(StartupRequest::Startup(startup)) = read_all(&bytes) else { panic!() };
        assert_eq!(startup.get("options"), Some(&b""[..]));
        assert_eq!(startup.get("database"), Some(&b"d"[..]));
        assert_eq!(startup.protocol_options, [b"_pq_.x"]);
    }

    #[test]
    fn bad_packets_are_told_apart() {
        let refused = |bytes: &[u8]| read_all(bytes).unwrap_err();
        assert_eq!(refused(&packet(0x0003_0000, b"user\0u\0")), StartupError::Layout);
        assert_eq!(refused(&packet(0x0003_0000, b"user\0u\0\0more")), StartupError::Layout);
        assert_eq!(
            refused(&packet(0x0004_0000, b"\0")),
            StartupError::Version(ProtocolVersion(0x0004_0000))
        );
        for length in [0_u32, 3, 7, 10_001, 0x7fff_ffff, u32::MAX] {
            let head = [length.to_be_bytes(), 0x0003_0000_u32.to_be_bytes()].concat();
            assert_eq!(refused(&head), StartupError::Length);
        }
        assert_eq!(refused(&packet(CANCEL_REQUEST, b"\0\0\0\x01")), StartupError::Length);
        assert_eq!(refused(b"\0\0\0"), StartupError::Gone);
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_read_back(
            pairs in prop::collection::vec(
                ("[a-z]{1,9}".prop_map(String::into_bytes), prop::collection::vec(1_u8.., 0..20)),
                0..8,
            ),
        ) {
            let mut body = Vec::new();
            for (name, value) in &pairs {
                body.extend([&name[..], b"\0", value, b"\0"].concat());
            }
            body.push(0);
            let Ok(StartupRequest::Startup(startup)) = read_all(&packet(0x0003_0002, &body)) else {
                panic!("refused")
            };
            prop_assert_eq!(startup.parameters, pairs);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), code in prop::sample::select(vec![0x0003_0000_u32, CANCEL_REQUEST, SSL_REQUEST, GSSENC_REQUEST, 1])) {
            let _ = read_all(&bytes);
            let _ = read_all(&packet(code, &bytes));
        }
    }
}
