//! Where the admin API listens: a unix socket of mode 0600, and TCP for holders of a bearer token.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::header::AUTHORIZATION;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;

use super::ApiError;
use crate::error::{ErrorKind, SqlState, UserFacingError};

/// The listeners of the admin API, bound but not yet serving.
pub struct AdminListeners {
    unix: UnixListener,
    path: PathBuf,
    tcp: Option<(TcpListener, SecretString)>,
}

impl AdminListeners {
    /// Binds the unix socket `path` and, with its token, the TCP address.
    ///
    /// A socket file that nobody listens on any more is replaced; one that somebody does is not.
    pub async fn bind(
        path: &Path,
        tcp: Option<(SocketAddr, SecretString)>,
    ) -> Result<Self, ListenError> {
        let failed = |place: String| move |source: io::Error| ListenError { place, source };
        let place = || path.display().to_string();
        if path.exists() {
            if tokio::net::UnixStream::connect(path).await.is_ok() {
                let source = io::Error::from(io::ErrorKind::AddrInUse);
                return Err(ListenError { place: place(), source });
            }
            fs::remove_file(path).map_err(failed(place()))?;
        }
        // Bound under a private name, restricted, then moved: nobody can connect in between.
        let draft = path.with_extension(format!("new{}", std::process::id()));
        drop(fs::remove_file(&draft));
        let unix = UnixListener::bind(&draft).map_err(failed(place()))?;
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o600)).map_err(failed(place()))?;
        fs::rename(&draft, path).map_err(failed(place()))?;
        let tcp = match tcp {
            None => None,
            Some((address, token)) => {
                let bound = TcpListener::bind(address).await;
                Some((bound.map_err(failed(address.to_string()))?, token))
            }
        };
        Ok(Self { unix, path: path.to_owned(), tcp })
    }

    /// Serves `router` on all listeners until `stop`; then lets requests end and removes the socket.
    pub async fn serve(self, router: Router, stop: CancellationToken) {
        let unix = axum::serve(self.unix, router.clone())
            .with_graceful_shutdown(stop.clone().cancelled_owned());
        let tcp = async {
            if let Some((listener, token)) = self.tcp {
                let guarded =
                    router.layer(middleware::from_fn_with_state(Arc::new(token), require_token));
                let serving =
                    axum::serve(listener, guarded).with_graceful_shutdown(stop.cancelled_owned());
                if let Err(error) = serving.await {
                    tracing::error!(%error, "the admin API over TCP ended");
                }
            }
        };
        let (unix, ()) = tokio::join!(async { unix.await }, tcp);
        if let Err(error) = unix {
            tracing::error!(%error, "the admin API ended");
        }
        drop(fs::remove_file(&self.path));
    }
}

async fn require_token(
    axum::extract::State(token): axum::extract::State<Arc<SecretString>>,
    request: Request,
    next: Next,
) -> Response {
    let given = request
        .headers()
        .get(AUTHORIZATION)
        .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "))
        .unwrap_or_default();
    if bool::from(given.ct_eq(token.expose_secret().as_bytes())) {
        next.run(request).await
    } else {
        ApiError::unauthorized().into_response()
    }
}

/// A listener that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {place}: {source}")]
pub struct ListenError {
    /// Address or path.
    pub place: String,
    /// Why.
    pub source: io::Error,
}

impl UserFacingError for ListenError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::ControlPlane
    }
    fn sqlstate(&self) -> SqlState {
        SqlState::SYSTEM_ERROR
    }
    fn hint(&self) -> Option<String> {
        (self.source.kind() == io::ErrorKind::AddrInUse)
            .then(|| "Another postern may be running with the same configuration.".to_owned())
    }
}
