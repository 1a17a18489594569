//! A running postern: the service, the proxy and the admin API together.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::admin::{self, AdminListeners, ListenError};
use crate::config::Config;
use crate::error::{ErrorKind, SqlState, UserFacingError};
use crate::lease::{Leases, SecretError, SecretRef};
use crate::service::{Service, ServiceError};
use crate::session::{Proxy, ProxyError, ProxySettings};
use crate::wire::tls::{Tls, TlsError};

/// A postern that serves.
pub struct Running {
    service: Arc<Service>,
    proxy: Proxy<Leases>,
    config: Mutex<Config>,
    admin: JoinHandle<()>,
    stop_admin: CancellationToken,
}

impl Running {
    /// Opens the data directory, then listens. When it returns, clients can connect.
    pub async fn start(config: Config) -> Result<Self, ServeError> {
        // Before anything is started: what is wrong with the configuration must not cost a start.
        let tls = match (&config.tls.certificate, &config.tls.private_key) {
            (Some(certificate), Some(key)) => Some(Tls::load(certificate, key)?),
            _ => None,
        };
        let admin_tcp = match (config.admin.tcp, &config.admin.token_file) {
            (Some(address), Some(file)) => {
                let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
                Some((address, SecretRef::File(file).resolve()?))
            }
            _ => None,
        };
        let service = Arc::new(Service::open(config.clone()).await?);
        let started = Self::listen(&config, &service, tls, admin_tcp).await;
        match started {
            Ok((proxy, admin, stop_admin)) => {
                Ok(Self { service, proxy, config: Mutex::new(config), admin, stop_admin })
            }
            Err(error) => {
                service.close().await;
                Err(error)
            }
        }
    }

    async fn listen(
        config: &Config,
        service: &Arc<Service>,
        tls: Option<Tls>,
        admin_tcp: Option<(std::net::SocketAddr, secrecy::SecretString)>,
    ) -> Result<(Proxy<Leases>, JoinHandle<()>, CancellationToken), ServeError> {
        let admin = AdminListeners::bind(&config.admin_socket(), admin_tcp).await?;
        let socket_dir = config.socket_dir();
        let proxy = Proxy::start(
            Arc::clone(&service.leases),
            &config.listen.tcp,
            Some((&socket_dir, config.port())),
            tls,
            proxy_settings(config),
        )
        .await?;
        let stop_admin = CancellationToken::new();
        let router = admin::router(Arc::clone(service));
        let admin = tokio::spawn(admin.serve(router, stop_admin.clone()));
        Ok((proxy, admin, stop_admin))
    }

    /// Everything behind the admin API.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Where clients can connect.
    pub fn places(&self) -> &[String] {
        self.proxy.places()
    }

    /// Takes over what can change while running; names the sections whose changes need a restart.
    pub fn reload(&self, config: Config) -> Result<Vec<&'static str>, ServeError> {
        if let (Some(certificate), Some(key)) = (&config.tls.certificate, &config.tls.private_key) {
            self.proxy.reload_certificate(certificate, key)?;
        }
        self.proxy.set_settings(proxy_settings(&config));
        self.service.reload(&config);
        let mut old = self.config.lock();
        let fixed = [
            ("data_dir", old.data_dir != config.data_dir),
            ("postgres", old.postgres != config.postgres),
            ("listen.tcp", old.listen.tcp != config.listen.tcp),
            ("listen.socket_dir", old.listen.socket_dir != config.listen.socket_dir),
            ("tls", old.tls.certificate.is_some() != config.tls.certificate.is_some()),
            ("admin", old.admin != config.admin),
            ("branches", old.branches != config.branches),
            ("log", old.log != config.log),
        ];
        *old = config;
        Ok(fixed.into_iter().filter_map(|(name, changed)| changed.then_some(name)).collect())
    }

    /// Ends: no new connections, sessions between transactions, then all; then the servers.
    /// `hurry` cuts the waiting short.
    pub async fn stop(self, hurry: CancellationToken) {
        let patience = self.config.lock().limits.shutdown_timeout.0;
        self.proxy.stop(patience, hurry).await;
        self.stop_admin.cancel();
        if let Err(error) = self.admin.await {
            tracing::error!(%error, "the admin API did not end cleanly");
        }
        self.service.close().await;
    }
}

fn proxy_settings(config: &Config) -> ProxySettings {
    ProxySettings {
        tls_mode: config.tls_mode(),
        proxy_protocol_from: config.listen.proxy_protocol_from.clone(),
        max_connections: config.limits.connections,
        startup_timeout: config.limits.startup_timeout.0,
        keepalive: config.limits.keepalive.0,
        user_timeout: config.limits.user_timeout.0,
    }
}

/// Why postern cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The data directory cannot be opened.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The proxy cannot listen.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// The admin API cannot listen.
    #[error(transparent)]
    Admin(#[from] ListenError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The admin API's token cannot be read.
    #[error(transparent)]
    Token(#[from] SecretError),
}

impl ServeError {
    fn inner(&self) -> &dyn UserFacingError {
        match self {
            Self::Service(e) => e,
            Self::Proxy(e) => e,
            Self::Admin(e) => e,
            Self::Tls(e) => e,
            Self::Token(e) => e,
        }
    }
}

impl UserFacingError for ServeError {
    fn kind(&self) -> ErrorKind {
        self.inner().kind()
    }
    fn sqlstate(&self) -> SqlState {
        self.inner().sqlstate()
    }
    fn message(&self) -> String {
        self.inner().message()
    }
    fn detail(&self) -> Option<String> {
        self.inner().detail()
    }
    fn hint(&self) -> Option<String> {
        self.inner().hint()
    }
}
