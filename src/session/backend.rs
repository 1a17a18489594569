//! The server's side of a session: connecting, logging in, cancelling.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use secrecy::SecretString;

use super::{Backend, BackendAddress};
use crate::error::SqlState;
use crate::wire::frame::{Header, backend};
use crate::wire::scram::SCRAM_SHA_256;
use crate::wire::scram_client::ClientExchange;
use crate::wire::startup::{CANCEL_REQUEST, ProtocolVersion, StartupParameters};
use crate::wire::{ErrorFields, Stream, message};

/// The longest message a server sends during startup. Errors and settings are far shorter.
const MAX_STARTUP_REPLY: usize = 256 * 1024;
/// How long a cancel connection may take.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// A server connection that is ready for queries.
pub struct Connected {
    /// The connection.
    pub stream: Stream,
    /// `ParameterStatus` and `NoticeResponse` messages, as they came.
    pub greeting: Vec<u8>,
    /// The server process.
    pub pid: u32,
    /// How to cancel what runs there.
    pub cancel: Arc<CancelTarget>,
    /// What came after the first `ReadyForQuery`.
    pub early: Vec<u8>,
}

/// Connects and logs in as the lease's role, with the client's own parameters.
pub async fn connect(
    target: &Backend,
    startup: &StartupParameters,
) -> Result<Connected, BackendError> {
    let mut stream = dial(&target.address).await.map_err(BackendError::Unreachable)?;
    stream.write_all(&startup_message(target, startup)).await.map_err(BackendError::Unreachable)?;
    let mut inbox = Vec::with_capacity(4096);
    let mut at = 0;
    let mut greeting = Vec::with_capacity(1024);
    let (mut pid, mut key) = (0, Vec::new());
    let mut login = Login { password: target.password.as_ref(), exchange: None, known: false };
    loop {
        let message = next(&mut stream, &mut inbox, &mut at).await?;
        let body = message::body(&inbox[message.clone()]);
        match inbox[message.start] {
            backend::AUTHENTICATION => {
                let Some((code, data)) = body.split_first_chunk::<4>() else {
                    return Err(BackendError::Protocol);
                };
                let answer = login.answer(u32::from_be_bytes(*code), data)?;
                if !answer.is_empty() {
                    stream.write_all(&answer).await.map_err(BackendError::Unreachable)?;
                }
            }
            backend::PARAMETER_STATUS | backend::NOTICE => greeting.extend(&inbox[message]),
            backend::KEY_DATA => {
                let Some((id, rest)) = body.split_first_chunk::<4>() else {
                    return Err(BackendError::Protocol);
                };
                pid = u32::from_be_bytes(*id);
                key = rest.to_vec();
            }
            backend::ERROR => return Err(BackendError::Refused(inbox[message].to_vec())),
            backend::NEGOTIATE => {}
            backend::READY => break,
            _ => return Err(BackendError::Protocol),
        }
    }
    let cancel = Arc::new(CancelTarget { address: target.address.clone(), pid, key });
    Ok(Connected { stream, greeting, pid, cancel, early: inbox.split_off(at) })
}

/// The password exchange with the server.
struct Login<'a> {
    password: Option<&'a SecretString>,
    exchange: Option<ClientExchange>,
    /// The server proved that it knows the password too.
    known: bool,
}

impl Login<'_> {
    /// What to send for an Authentication… message; empty when nothing is due.
    ///
    /// A server that is reached with a password must prove that it knows it: one that lets us in
    /// without, or wants it in the clear, is not the one that was attached.
    fn answer(&mut self, code: u32, data: &[u8]) -> Result<Vec<u8>, BackendError> {
        let mut out = Vec::new();
        let failed = |_| BackendError::Authentication;
        match (code, self.password) {
            (message::AUTH_OK, password) if password.is_none() || self.known => {}
            (message::AUTH_SASL, Some(password)) if self.exchange.is_none() => {
                if !data.split(|byte| *byte == 0).any(|name| name == SCRAM_SHA_256.as_bytes()) {
                    return Err(BackendError::Authentication);
                }
                let (exchange, first) = ClientExchange::begin(password).map_err(failed)?;
                self.exchange = Some(exchange);
                message::sasl_initial(&mut out, SCRAM_SHA_256, &first);
            }
            (message::AUTH_SASL_CONTINUE, _) => {
                let exchange = self.exchange.as_mut().ok_or(BackendError::Authentication)?;
                message::sasl(&mut out, &exchange.answer(data).map_err(failed)?);
            }
            (message::AUTH_SASL_FINAL, _) => {
                let exchange = self.exchange.as_ref().ok_or(BackendError::Authentication)?;
                self.known = exchange.verify(data);
            }
            _ => return Err(BackendError::Authentication),
        }
        Ok(out)
    }
}

/// The next message: its place in `inbox`.
async fn next(
    stream: &mut Stream,
    inbox: &mut Vec<u8>,
    at: &mut usize,
) -> Result<std::ops::Range<usize>, BackendError> {
    loop {
        let unread = &inbox[*at..];
        if let Some(header) = Header::parse(unread).map_err(|_| BackendError::Protocol)? {
            if header.message_len() > MAX_STARTUP_REPLY {
                return Err(BackendError::Protocol);
            }
            if unread.len() >= header.message_len() {
                let message = *at..*at + header.message_len();
                *at = message.end;
                return Ok(message);
            }
        }
        match stream.read_buf(inbox).await {
            Ok(0) => return Err(BackendError::Unreachable(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => {}
            Err(error) => return Err(BackendError::Unreachable(error)),
        }
    }
}

/// The startup message for the server ("55.7. Message Formats", `StartupMessage`). Protocol 3.0,
/// which every supported version speaks.
fn startup_message(target: &Backend, startup: &StartupParameters) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.extend(ProtocolVersion::V3_0.0.to_be_bytes());
    let own = [(&b"user"[..], target.role.as_bytes()), (b"database", target.database.as_bytes())];
    let theirs = startup
        .parameters
        .iter()
        .map(|(name, value)| (name.as_slice(), value.as_slice()))
        .filter(|(name, _)| !matches!(*name, b"user" | b"database" | b"replication"));
    for (name, value) in own.into_iter().chain(theirs) {
        message::put_bytes(&mut out, name);
        message::put_bytes(&mut out, value);
    }
    out.push(0);
    let length = u32::try_from(out.len()).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

async fn dial(address: &BackendAddress) -> io::Result<Stream> {
    match address {
        BackendAddress::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
        BackendAddress::Tcp(host, port) => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            Ok(Stream::Tcp(stream))
        }
    }
}

/// What a `CancelRequest` to the server needs.
pub struct CancelTarget {
    address: BackendAddress,
    pid: u32,
    key: Vec<u8>,
}

impl CancelTarget {
    /// Sends a `CancelRequest` and waits until the server has closed: only then is the signal
    /// sent, so what the client does next cannot be hit by it.
    pub async fn cancel(&self) {
        let work = async {
            let mut stream = dial(&self.address).await?;
            let length = u32::try_from(12 + self.key.len()).unwrap_or(u32::MAX);
            let mut request = Vec::with_capacity(12 + self.key.len());
            request.extend(length.to_be_bytes());
            request.extend(CANCEL_REQUEST.to_be_bytes());
            request.extend(self.pid.to_be_bytes());
            request.extend(&self.key);
            stream.write_all(&request).await?;
            let mut nothing = [0; 1];
            stream.read(&mut nothing).await
        };
        match tokio::time::timeout(CANCEL_TIMEOUT, work).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a cancel request was not delivered"),
            Err(_) => tracing::warn!("a cancel request took too long"),
        }
    }
}

/// Why there is no server connection.
#[derive(Debug)]
pub enum BackendError {
    /// It could not be reached, or went away.
    Unreachable(io::Error),
    /// It refused in its own words: a whole `ErrorResponse`.
    Refused(Vec<u8>),
    /// It wants an authentication that is not spoken here.
    Authentication,
    /// It said something that makes no sense.
    Protocol,
}

impl BackendError {
    /// What the client is told, when the server told nothing itself.
    pub fn fields(&self) -> ErrorFields {
        let hint = "Connect again: the branch's server is started anew when it has stopped.";
        match self {
            Self::Unreachable(error) => {
                tracing::warn!(%error, "a branch's server could not be reached");
                ErrorFields::new(
                    SqlState::CONNECTION_FAILURE,
                    "the branch's server does not answer",
                )
                .hint(hint)
            }
            Self::Authentication => ErrorFields::new(
                SqlState::CONNECTION_FAILURE,
                "the branch's server did not accept postern's login",
            ),
            Self::Refused(_) | Self::Protocol => ErrorFields::new(
                SqlState::CONNECTION_FAILURE,
                "the branch's server answered with something that is not the protocol",
            ),
        }
    }
}
