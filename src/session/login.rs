//! From accept to the first `ReadyForQuery`.

use std::net::IpAddr;
use std::sync::Arc;

use ring::rand::{SecureRandom, SystemRandom};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use super::authority::{Authority, Grant, NotAdmitted};
use super::backend::{self, BackendError, Connected};
use super::guard::{Guard, Guards, Opening};
use super::listener::Shared;
use super::registry::Seat;
use crate::config::TlsMode;
use crate::error::SqlState;
use crate::wire::frame::{Header, backend::READY, frontend};
use crate::wire::message::{self, Severity};
use crate::wire::scram::{self, Exchange, Verifier};
use crate::wire::startup::{ProtocolVersion, StartupParameters, StartupRequest};
use crate::wire::tls::HANDSHAKE_RECORD;
use crate::wire::{ErrorFields, Stream, proxy_protocol, startup};

/// The longest message of the password exchange. A client's first and last take a few hundred
/// bytes (PostgreSQL allows 1,024, `PG_MAX_SASL_MESSAGE_LENGTH`).
const MAX_SASL: usize = 1024;
/// Cancel keys: four bytes in protocol 3.0, more in 3.2.
const KEY_3_0: usize = 4;
const KEY_3_2: usize = 32;

/// A client that is logged in.
pub struct LoggedIn<A: Authority, G> {
    /// Its connection.
    pub client: Stream,
    /// Its server's connection.
    pub server: Connected,
    /// What stands in the way of its messages.
    pub guard: G,
    /// Its lease.
    pub grant: Arc<Grant>,
    /// Its place.
    pub seat: Seat,
    /// Its stay on the branch.
    pub visit: Visit<A>,
}

/// A stay on a branch. The branch hears of its end, however it ends.
pub struct Visit<A: Authority> {
    authority: Arc<A>,
    grant: Arc<Grant>,
}

impl<A: Authority> Drop for Visit<A> {
    fn drop(&mut self) {
        self.authority.left(&self.grant);
    }
}

/// Why a connection does not become a session.
pub enum Refusal {
    /// Nothing more is to be said: the client is gone, or it only came to cancel.
    Silent,
    /// The client is told, if it still listens.
    Told(Box<Stream>, Vec<u8>),
}

/// Serves the startup of a connection, within the startup timeout from now. A client that has not
/// said what it wants by then is simply left; one that has is told.
pub async fn login<A: Authority, W: Guards>(
    shared: &Arc<Shared<A, W>>,
    stream: Stream,
    peer: Option<IpAddr>,
) -> Result<LoggedIn<A, W::Guard>, Refusal> {
    let deadline = Instant::now() + shared.settings().startup_timeout;
    let negotiated = timeout_at(deadline, negotiate(shared, stream, peer)).await;
    let (mut client, binding, request, peer) = negotiated.map_err(|_| Refusal::Silent)??;
    let mut out = Vec::new();
    let startup = match request {
        Ok(startup) => startup,
        Err(fields) => return Err(told(client, &mut out, &fields)),
    };
    let served = serve_startup(shared, &mut client, binding.as_deref(), &startup, peer, &mut out);
    let outcome = timeout_at(deadline, served).await;
    let outcome = outcome.unwrap_or_else(|_| {
        out.clear(); // what was not sent in time is not sent
        Err(startup_took_too_long().into())
    });
    match outcome {
        Ok((server, guard, grant, seat, visit)) => {
            let sent = timeout_at(deadline, send(&mut client, &mut out)).await;
            match sent {
                Ok(Ok(())) => Ok(LoggedIn { client, server, guard, grant, seat, visit }),
                _ => Err(Refusal::Silent),
            }
        }
        Err(Failure::Gone) => Err(Refusal::Silent),
        Err(Failure::Told(fields)) => Err(told(client, &mut out, &fields)),
        Err(Failure::Server(message)) => {
            out.extend(message);
            Err(Refusal::Told(Box::new(client), out))
        }
    }
}

fn startup_took_too_long() -> ErrorFields {
    ErrorFields::new(SqlState::QUERY_CANCELED, "canceling authentication due to timeout").hint(
        "The login, the start of the branch's server included, took longer than the startup timeout.",
    )
}

fn told(client: Stream, out: &mut Vec<u8>, fields: &ErrorFields) -> Refusal {
    fields.encode(Severity::Fatal, out);
    Refusal::Told(Box::new(client), std::mem::take(out))
}

/// Why a startup fails.
enum Failure {
    Gone,
    Told(Box<ErrorFields>),
    /// The server's own last words.
    Server(Vec<u8>),
}

impl From<ErrorFields> for Failure {
    fn from(fields: ErrorFields) -> Self {
        Self::Told(Box::new(fields))
    }
}

type Negotiated =
    (Stream, Option<Arc<[u8]>>, Result<StartupParameters, ErrorFields>, Option<IpAddr>);

/// PROXY header, encryption, cancellation: all that may come before the startup message.
async fn negotiate<A: Authority, W: Guards>(
    shared: &Arc<Shared<A, W>>,
    mut stream: Stream,
    mut peer: Option<IpAddr>,
) -> Result<Negotiated, Refusal> {
    let settings = shared.settings();
    if peer.is_some_and(|ip| settings.proxy_protocol_from.iter().any(|net| net.contains(ip))) {
        match proxy_protocol::read(&mut stream).await {
            Ok(client) => peer = client.or(peer),
            Err(_) => return Err(Refusal::Silent),
        }
    }
    let tls = shared.tls.as_ref().filter(|_| settings.tls_mode != TlsMode::Off);
    let mut binding = None;
    let (mut ssl_asked, mut gss_asked) = (false, false);
    if tls.is_some() && first_byte(&stream).await? == Some(HANDSHAKE_RECORD) {
        ssl_asked = true;
        (stream, binding) = encrypt(shared, stream, true).await?;
    }
    loop {
        let request = match startup::read(&mut stream).await {
            Ok(request) => request,
            Err(startup::StartupError::Gone) => return Err(Refusal::Silent),
            Err(error) => return Ok((stream, binding, Err(ErrorFields::of(&error)), peer)),
        };
        match request {
            StartupRequest::Cancel { pid, key } => {
                if let Some(target) = shared.registry.cancel_target(pid, &key) {
                    target.cancel().await;
                }
                return Err(Refusal::Silent);
            }
            StartupRequest::Ssl if !ssl_asked => {
                ssl_asked = true;
                let possible = tls.is_some() && matches!(stream, Stream::Tcp(_));
                if possible && has_unread(&stream) {
                    // Sent in the clear, ahead of the handshake, to be taken for encrypted.
                    return Err(Refusal::Silent);
                }
                let answer: &[u8] = if possible { b"S" } else { b"N" };
                stream.write_all(answer).await.map_err(|_| Refusal::Silent)?;
                if possible {
                    if first_byte(&stream).await? != Some(HANDSHAKE_RECORD) {
                        return Err(Refusal::Silent);
                    }
                    (stream, binding) = encrypt(shared, stream, false).await?;
                }
            }
            StartupRequest::GssEnc if !gss_asked => {
                gss_asked = true;
                stream.write_all(b"N").await.map_err(|_| Refusal::Silent)?;
                stream.flush().await.map_err(|_| Refusal::Silent)?;
            }
            StartupRequest::Ssl | StartupRequest::GssEnc => {
                let fields = ErrorFields::new(
                    SqlState::PROTOCOL_VIOLATION,
                    "encryption was asked for a second time",
                );
                return Ok((stream, binding, Err(fields), peer));
            }
            StartupRequest::Startup(startup) => {
                if settings.tls_mode == TlsMode::Require && matches!(stream, Stream::Tcp(_)) {
                    let fields = ErrorFields::new(
                        SqlState::INVALID_AUTHORIZATION,
                        "connections over TCP must be encrypted",
                    )
                    .hint("Connect with sslmode=require or stronger.");
                    return Ok((stream, binding, Err(fields), peer));
                }
                return Ok((stream, binding, Ok(startup), peer));
            }
        }
    }
}

/// The next byte from a TCP client, which stays unread.
async fn first_byte(stream: &Stream) -> Result<Option<u8>, Refusal> {
    let Stream::Tcp(tcp) = stream else { return Ok(None) };
    let mut first = [0; 1];
    match tcp.peek(&mut first).await {
        Ok(1) => Ok(Some(first[0])),
        _ => Err(Refusal::Silent),
    }
}

/// Has a TCP client sent something that nobody read yet?
fn has_unread(stream: &Stream) -> bool {
    use rustix::net::{RecvFlags, recv};
    let Stream::Tcp(tcp) = stream else { return false };
    let mut byte = [0; 1];
    recv(tcp, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT).is_ok_and(|(n, _)| n > 0)
}

/// The handshake reads the socket itself, which has been read up to here and not further: nothing
/// that a client sent in the clear can be taken for what it sent encrypted (CVE-2021-23214).
async fn encrypt<A: Authority, W: Guards>(
    shared: &Shared<A, W>,
    stream: Stream,
    direct: bool,
) -> Result<(Stream, Option<Arc<[u8]>>), Refusal> {
    let (Stream::Tcp(tcp), Some(tls)) = (stream, &shared.tls) else {
        return Err(Refusal::Silent);
    };
    match tls.accept(tcp, direct).await {
        Ok((stream, binding)) => Ok((Stream::Tls(stream), Some(binding))),
        Err(error) => {
            tracing::debug!(%error, "a TLS handshake failed");
            Err(Refusal::Silent)
        }
    }
}

/// Everything from the startup message on. What is to be sent to the client is left in `out`.
async fn serve_startup<A: Authority, W: Guards>(
    shared: &Arc<Shared<A, W>>,
    client: &mut Stream,
    binding: Option<&[u8]>,
    startup: &StartupParameters,
    peer: Option<IpAddr>,
    out: &mut Vec<u8>,
) -> Result<(Connected, W::Guard, Arc<Grant>, Seat, Visit<A>), Failure> {
    let version = startup.version.negotiated();
    if version != startup.version || !startup.protocol_options.is_empty() {
        message::negotiate(out, version.0, &startup.protocol_options);
    }
    let Some(user) = startup.get("user").filter(|user| !user.is_empty()) else {
        return Err(ErrorFields::new(
            SqlState::INVALID_AUTHORIZATION,
            "no PostgreSQL user name specified in startup packet",
        )
        .into());
    };
    if startup.get("replication").is_some_and(asks_for_replication) {
        return Err(ErrorFields::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "replication connections are not supported",
        )
        .hint("A branch is a copy to work on; nothing can be replicated from it.")
        .into());
    }
    // No lease has a name that is not UTF-8.
    let user_name = String::from_utf8_lossy(user);
    let grant = authenticate(shared, client, binding, &user_name, out).await?;

    let settings = shared.settings();
    let wanted = startup.get("database").filter(|name| !name.is_empty() && *name != user);
    if let Some(wanted) = wanted.filter(|name| *name != grant.database.as_bytes()) {
        let wanted = String::from_utf8_lossy(wanted);
        return Err(ErrorFields::new(
            SqlState("3D000"),
            format!("database \"{wanted}\" does not exist"),
        )
        .hint(format!("This lease is for the database \"{}\" and no other.", grant.database))
        .into());
    }
    let Some(mut seat) = shared.registry.seat(settings.max_connections) else {
        return Err(ErrorFields::new(
            SqlState::TOO_MANY_CONNECTIONS,
            "sorry, too many clients already",
        )
        .hint("Close connections, or raise limits.connections.")
        .into());
    };
    match grant.life.admit(&seat.control, grant.max_connections) {
        Ok(()) => seat.belongs_to(Arc::clone(&grant)),
        Err(NotAdmitted::Over(end)) => {
            return Err(ErrorFields::new(
                SqlState::INVALID_AUTHORIZATION,
                format!("lease {} is {}", grant.lease, end.as_str()),
            )
            .hint("Ask for a new lease.")
            .into());
        }
        Err(NotAdmitted::TooMany) => {
            return Err(ErrorFields::new(
                SqlState::TOO_MANY_CONNECTIONS,
                format!("too many connections for lease {}", grant.lease),
            )
            .hint(format!(
                "A lease may have {} connections at once; close some.",
                grant.max_connections
            ))
            .into());
        }
    }
    let opening = Opening { session: seat.id(), grant: &grant, startup, client: peer };
    let mut guard = shared.guards.open(&opening).map_err(Failure::Told)?;
    let target = shared.authority.reach(&grant).await.map_err(|error| ErrorFields::of(&error))?;
    let visit = Visit { authority: Arc::clone(&shared.authority), grant: Arc::clone(&grant) };
    let server = backend::connect(&target, startup).await.map_err(|error| match error {
        BackendError::Refused(message) => Failure::Server(message),
        other => Failure::from(other.fields()),
    })?;
    let key = new_key(if version >= ProtocolVersion::V3_2 { KEY_3_2 } else { KEY_3_0 })?;
    guard.ready(server.pid);
    out.extend(&server.greeting);
    message::key_data(out, server.pid, &key);
    message::put(out, READY, |out| out.push(b'I'));
    let place = peer.map_or_else(|| "unix socket".to_owned(), |ip| ip.to_string());
    seat.ready(place, server.pid, key, Arc::clone(&server.cancel));
    Ok((server, guard, grant, seat, visit))
}

/// The password exchange. A user that is not there goes the same way to the same answer as a
/// wrong password; only who knows the token learns that its lease is over.
async fn authenticate<A: Authority, W: Guards>(
    shared: &Arc<Shared<A, W>>,
    client: &mut Stream,
    binding: Option<&[u8]>,
    user: &str,
    out: &mut Vec<u8>,
) -> Result<Arc<Grant>, Failure> {
    let grant = shared.authority.find(user);
    let mock = Verifier::mock(user, &shared.mock);
    let verifier = grant.as_ref().map_or(mock, |grant| grant.verifier.clone());

    let mut mechanisms = Vec::new();
    if binding.is_some() {
        message::put_str(&mut mechanisms, scram::SCRAM_SHA_256_PLUS);
    }
    message::put_str(&mut mechanisms, scram::SCRAM_SHA_256);
    mechanisms.push(0);
    message::authentication(out, message::AUTH_SASL, &mechanisms);
    send(client, out).await?;

    let initial = password_message(client).await?;
    let (mechanism, first) = sasl_initial(&initial).ok_or_else(malformed)?;
    let (exchange, challenge) = Exchange::begin(verifier, mechanism, first, binding)
        .map_err(|error| ErrorFields::new(SqlState::PROTOCOL_VIOLATION, error.to_string()))?;
    message::authentication(out, message::AUTH_SASL_CONTINUE, &challenge);
    send(client, out).await?;

    let last = password_message(client).await?;
    let answer = exchange
        .finish(&last)
        .map_err(|error| ErrorFields::new(SqlState::PROTOCOL_VIOLATION, error.to_string()))?;
    if let (Some(answer), Some(grant)) = (answer, grant) {
        message::authentication(out, message::AUTH_SASL_FINAL, &answer);
        message::authentication(out, message::AUTH_OK, &[]);
        Ok(grant)
    } else {
        tracing::info!(user, "password authentication failed");
        Err(ErrorFields::new(
            SqlState::INVALID_PASSWORD,
            format!("password authentication failed for user \"{user}\""),
        )
        .into())
    }
}

async fn send(client: &mut Stream, out: &mut Vec<u8>) -> Result<(), Failure> {
    client.write_all(out).await.map_err(|_| Failure::Gone)?;
    client.flush().await.map_err(|_| Failure::Gone)?;
    out.clear();
    Ok(())
}

/// Reads one message of the exchange, and not a byte more.
async fn password_message(client: &mut Stream) -> Result<Vec<u8>, Failure> {
    let mut head = [0; 5];
    client.read_exact(&mut head).await.map_err(|_| Failure::Gone)?;
    let header = Header::parse(&head).ok().flatten().filter(|h| h.body as usize <= MAX_SASL);
    let Some(header) = header else { return Err(malformed().into()) };
    if header.kind != frontend::PASSWORD {
        return Err(ErrorFields::new(
            SqlState::PROTOCOL_VIOLATION,
            format!("expected SASL response, got message type {}", header.kind),
        )
        .into());
    }
    let mut body = vec![0; header.body as usize];
    client.read_exact(&mut body).await.map_err(|_| Failure::Gone)?;
    Ok(body)
}

/// Mechanism and data of a `SASLInitialResponse` ("55.7. Message Formats").
fn sasl_initial(mut body: &[u8]) -> Option<(&str, &[u8])> {
    let mechanism = std::str::from_utf8(message::take_str(&mut body)?).ok()?;
    let (length, data) = body.split_first_chunk::<4>()?;
    (usize::try_from(i32::from_be_bytes(*length)).ok()? == data.len()).then_some((mechanism, data))
}

fn malformed() -> ErrorFields {
    ErrorFields::new(SqlState::PROTOCOL_VIOLATION, "malformed SASL message")
}

/// As the server reads `replication`: a boolean, or `database` (postmaster.c). What is neither is
/// taken for a wish to replicate, which is refused either way.
fn asks_for_replication(value: &[u8]) -> bool {
    let value = value.to_ascii_lowercase();
    let starts = |word: &[u8], least: usize| value.len() >= least && word.starts_with(&value);
    !(value == b"0" || starts(b"false", 1) || starts(b"no", 1) || starts(b"off", 2))
}

fn new_key(length: usize) -> Result<Vec<u8>, Failure> {
    let mut key = vec![0; length];
    SystemRandom::new().fill(&mut key).map_err(|_| {
        ErrorFields::new(SqlState::SYSTEM_ERROR, "the operating system gave no random bytes")
    })?;
    Ok(key)
}
