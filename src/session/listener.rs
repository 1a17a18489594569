//! Where clients come in: accepting, and everything around a session.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::authority::Authority;
use super::control::Order;
use super::guard::{Guards, Open};
use super::login::{self, LoggedIn, Refusal};
use super::registry::{Registry, SessionInfo};
use super::relay::Relay;
use crate::config::{Network, TlsMode};
use crate::error::{ErrorKind, SqlState, UserFacingError};
use crate::wire::Stream;
use crate::wire::scram::{MockSecret, ScramError};
use crate::wire::tls::{Tls, TlsError};

/// How many connections may be between accept and the end of their login.
const MAX_LOGINS: usize = 16_384;
/// How long a client may take to read why it is refused.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long to wait after the system refused another connection (out of files or memory).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long sessions have to go after they were told to.
const END_NOW: Duration = Duration::from_secs(3);

/// What can change while running.
#[derive(Debug, Clone)]
pub struct ProxySettings {
    /// TLS over TCP.
    pub tls_mode: TlsMode,
    /// Peers that speak PROXY protocol v2.
    pub proxy_protocol_from: Vec<Network>,
    /// Sessions in all.
    pub max_connections: usize,
    /// From accept to the first `ReadyForQuery`.
    pub startup_timeout: Duration,
    /// Idle time before TCP keepalive probes.
    pub keepalive: Duration,
    /// How long sent data may stay unacknowledged.
    pub user_timeout: Duration,
}

/// What all connections share.
pub(super) struct Shared<A, W> {
    pub authority: Arc<A>,
    pub guards: W,
    pub tls: Option<Tls>,
    pub mock: MockSecret,
    pub registry: Arc<Registry>,
    settings: RwLock<Arc<ProxySettings>>,
    logins: AtomicUsize,
    closing: CancellationToken,
}

impl<A, W> Shared<A, W> {
    pub fn settings(&self) -> Arc<ProxySettings> {
        Arc::clone(&self.settings.read())
    }
}

/// The proxy: its listeners and its sessions.
pub struct Proxy<A, W = Open> {
    shared: Arc<Shared<A, W>>,
    places: Vec<String>,
    socket: Option<PathBuf>,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl<A: Authority> Proxy<A> {
    /// Serves without a guard: the server alone is the wall. See [`Proxy::start_guarded`].
    pub async fn start(
        authority: Arc<A>,
        tcp: &[SocketAddr],
        unix: Option<(&Path, u16)>,
        tls: Option<Tls>,
        settings: ProxySettings,
    ) -> Result<Self, ProxyError> {
        Self::start_guarded(authority, Open, tcp, unix, tls, settings).await
    }
}

impl<A: Authority, W: Guards> Proxy<A, W> {
    /// Listens on `tcp` and on the unix socket `.s.PGSQL.<port>` in a directory, and serves; each
    /// session gets a guard from `guards`.
    pub async fn start_guarded(
        authority: Arc<A>,
        guards: W,
        tcp: &[SocketAddr],
        unix: Option<(&Path, u16)>,
        tls: Option<Tls>,
        settings: ProxySettings,
    ) -> Result<Self, ProxyError> {
        let mut listeners = Vec::new();
        let mut places = Vec::new();
        for address in tcp {
            let failed = |source| ProxyError::Listen { place: address.to_string(), source };
            let listener = TcpListener::bind(address).await.map_err(failed)?;
            places.push(listener.local_addr().map_err(failed)?.to_string());
            listeners.push(Listener::Tcp(listener));
        }
        let mut socket = None;
        if let Some((dir, port)) = unix {
            let path = dir.join(format!(".s.PGSQL.{port}"));
            let listener = bind_unix(dir, &path).await.map_err(|source| ProxyError::Listen {
                place: path.display().to_string(),
                source,
            })?;
            places.push(path.display().to_string());
            listeners.push(Listener::Unix(listener));
            socket = Some(path);
        }
        let shared = Arc::new(Shared {
            authority,
            guards,
            tls,
            mock: MockSecret::generate()?,
            registry: Arc::default(),
            settings: RwLock::new(Arc::new(settings)),
            logins: AtomicUsize::new(0),
            closing: CancellationToken::new(),
        });
        for listener in listeners {
            tokio::spawn(accept(Arc::clone(&shared), listener));
        }
        Ok(Self { shared, places, socket })
    }

    /// Where it listens.
    pub fn places(&self) -> &[String] {
        &self.places
    }

    /// The sessions there are.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        self.shared.registry.list()
    }

    /// Takes over settings for connections from now on.
    pub fn set_settings(&self, settings: ProxySettings) {
        *self.shared.settings.write() = Arc::new(settings);
    }

    /// Takes another certificate for connections from now on.
    pub fn reload_certificate(&self, certificate: &Path, key: &Path) -> Result<(), TlsError> {
        self.shared.tls.as_ref().map_or(Ok(()), |tls| tls.reload(certificate, key))
    }

    /// Accepts no more, lets sessions end between transactions until `patience` is over or
    /// `hurry` comes, then ends them.
    ///
    /// Cancel-safe: dropping it leaves the sessions to their orders.
    pub async fn stop(&self, patience: Duration, hurry: CancellationToken) {
        self.shared.closing.cancel();
        if let Some(path) = &self.socket {
            drop(std::fs::remove_file(path));
        }
        let registry = &self.shared.registry;
        registry.order_all(Order::EndWhenIdle);
        tokio::select! {
            () = wait_for_none(registry) => return,
            () = tokio::time::sleep(patience) => {}
            () = hurry.cancelled() => {}
        }
        registry.order_all(Order::EndNow);
        if timeout(END_NOW, wait_for_none(registry)).await.is_err() {
            tracing::warn!(sessions = registry.len(), "sessions were left behind at shutdown");
        }
    }
}

async fn wait_for_none(registry: &Registry) {
    // Sessions end by themselves now and nobody waits for the last microsecond: looking again and
    // again costs less than a signal that every session would have to send.
    while !registry.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn bind_unix(dir: &Path, path: &Path) -> io::Result<UnixListener> {
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(dir)?;
    if path.exists() {
        if tokio::net::UnixStream::connect(path).await.is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    // As PostgreSQL's default: who may log in is the password's matter, not the file's.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777))?;
    Ok(listener)
}

async fn accept<A: Authority, W: Guards>(shared: Arc<Shared<A, W>>, listener: Listener) {
    loop {
        let accepted = tokio::select! {
            accepted = accept_one(&shared, &listener) => accepted,
            () = shared.closing.cancelled() => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                if shared.logins.fetch_add(1, Ordering::AcqRel) < MAX_LOGINS {
                    tokio::spawn(serve(Arc::clone(&shared), stream, peer));
                } else {
                    shared.logins.fetch_sub(1, Ordering::AcqRel);
                }
            }
            // The client went away while it waited.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted; trying again");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn accept_one<A, W>(
    shared: &Shared<A, W>,
    listener: &Listener,
) -> io::Result<(Stream, Option<IpAddr>)> {
    match listener {
        Listener::Unix(listener) => Ok((Stream::Unix(listener.accept().await?.0), None)),
        Listener::Tcp(listener) => {
            let (stream, peer) = listener.accept().await?;
            tune(&stream, &shared.settings());
            Ok((Stream::Tcp(stream), Some(peer.ip().to_canonical())))
        }
    }
}

/// Options that help but that nothing depends on.
fn tune(stream: &TcpStream, settings: &ProxySettings) {
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(settings.keepalive);
    let tuned = stream
        .set_nodelay(true)
        .and_then(|()| socket.set_tcp_keepalive(&keepalive))
        .and_then(|()| socket.set_tcp_user_timeout(Some(settings.user_timeout)));
    if let Err(error) = tuned {
        tracing::debug!(%error, "a socket option could not be set");
    }
}

async fn serve<A: Authority, W: Guards>(
    shared: Arc<Shared<A, W>>,
    stream: Stream,
    peer: Option<IpAddr>,
) {
    // In a box of its own, freed before the session begins: a login is larger than a session.
    let outcome = Box::pin(login::login(&shared, stream, peer)).await;
    shared.logins.fetch_sub(1, Ordering::AcqRel);
    match outcome {
        Ok(logged_in) => session(&shared, logged_in).await,
        Err(Refusal::Told(stream, last_words)) => say(*stream, &last_words).await,
        Err(Refusal::Silent) => {}
    }
}

async fn session<A: Authority, W: Guards>(
    shared: &Arc<Shared<A, W>>,
    logged_in: LoggedIn<A, W::Guard>,
) {
    let LoggedIn { client, server, guard, grant, seat, visit } = logged_in;
    if shared.closing.is_cancelled() {
        seat.control.order(Order::EndWhenIdle);
    }
    let relay = Relay::new(
        (client, server.stream),
        (&server.greeting, &server.early),
        guard,
        Arc::clone(&seat.control),
        grant.lease.clone(),
        server.cancel,
    );
    drop((server.greeting, server.early));
    let last = relay.run().await;
    drop((seat, visit));
    if let Some(stream) = last {
        say(stream, &[]).await;
    }
}

/// Sends what is left to say and closes so that the client can read it: closing a socket with
/// unread bytes in it would reset the connection and take the words with it.
async fn say(mut stream: Stream, last_words: &[u8]) {
    let work = async {
        stream.write_all(last_words).await?;
        stream.shutdown().await?;
        let mut rest = [0; 512];
        while stream.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    // A client that does not take it in time, or is gone, misses it.
    drop(timeout(LAST_WORDS, work).await);
}

/// Why the proxy cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// An address or socket cannot be had.
    #[error("cannot listen on {place}: {source}")]
    Listen {
        /// Address or path.
        place: String,
        /// Why.
        source: io::Error,
    },
    /// The operating system gave no random bytes.
    #[error(transparent)]
    Random(#[from] ScramError),
}

impl UserFacingError for ProxyError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Service
    }
    fn sqlstate(&self) -> SqlState {
        SqlState::SYSTEM_ERROR
    }
    fn hint(&self) -> Option<String> {
        match self {
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => Some(
                "Something listens there already; choose another address with --listen.".to_owned(),
            ),
            _ => None,
        }
    }
}
