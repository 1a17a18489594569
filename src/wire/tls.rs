//! TLS towards clients: rustls with ring, and certificates that can change while running.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use ring::digest;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring as provider;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::error::{ErrorKind, SqlState, UserFacingError};

/// The protocol name that direct TLS must agree on (manual, "55.2.11. SSL Session Encryption").
const ALPN: &[u8] = b"postgresql";
/// The first byte of a TLS handshake record (RFC 8446, section 5.1).
pub const HANDSHAKE_RECORD: u8 = 0x16;

/// Encrypts connections.
pub struct Tls {
    acceptor: TlsAcceptor,
    certificate: Arc<Current>,
}

/// The certificate in force.
struct Current(RwLock<Loaded>);

#[derive(Clone)]
struct Loaded {
    key: Arc<CertifiedKey>,
    /// `tls-server-end-point` of the certificate.
    binding: Arc<[u8]>,
}

impl std::fmt::Debug for Current {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Current")
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().key))
    }
}

impl Tls {
    /// Loads a certificate chain and its key, both PEM.
    pub fn load(certificate: &Path, private_key: &Path) -> Result<Self, TlsError> {
        let current = Arc::new(Current(RwLock::new(load(certificate, private_key)?)));
        let config = ServerConfig::builder_with_provider(Arc::new(provider::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Unusable)?
            .with_no_client_auth();
        let resolver: Arc<dyn ResolvesServerCert> = Arc::clone(&current) as _;
        let mut config = config.with_cert_resolver(resolver);
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificate: current })
    }

    /// Takes another certificate for connections from now on. A bad one changes nothing.
    pub fn reload(&self, certificate: &Path, private_key: &Path) -> Result<(), TlsError> {
        let loaded = load(certificate, private_key)?;
        *self.certificate.0.write() = loaded;
        Ok(())
    }

    /// Does the handshake. Gives the stream and what SCRAM binds to. A client that did not ask
    /// first (`direct`) must have named the protocol, so that no other protocol's client is
    /// mistaken for ours.
    pub async fn accept(
        &self,
        stream: TcpStream,
        direct: bool,
    ) -> io::Result<(Box<TlsStream<TcpStream>>, Arc<[u8]>)> {
        // Read before the handshake: a reload in between would only make this one login fail.
        let binding = Arc::clone(&self.certificate.0.read().binding);
        let stream = self.acceptor.accept(stream).await?;
        if direct && stream.get_ref().1.alpn_protocol() != Some(ALPN) {
            return Err(io::Error::other("direct TLS without ALPN"));
        }
        Ok((Box::new(stream), binding))
    }
}

fn load(certificate: &Path, private_key: &Path) -> Result<Loaded, TlsError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |why: String| TlsError::Unreadable { path, why }
    };
    let open = |path: &Path| File::open(path).map_err(|e| unreadable(path)(e.to_string()));
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_reader_iter(io::BufReader::new(open(certificate)?))
            .collect::<Result<_, _>>()
            .map_err(|e| unreadable(certificate)(e.to_string()))?;
    let Some(leaf) = chain.first() else {
        return Err(unreadable(certificate)("there is no certificate in it".to_owned()));
    };
    let binding = end_point(leaf)
        .ok_or_else(|| unreadable(certificate)("it is no X.509 certificate".to_owned()))?;
    // Errors of the key's parser do not quote the key.
    let key = PrivateKeyDer::from_pem_reader(io::BufReader::new(open(private_key)?))
        .map_err(|_| unreadable(private_key)("there is no PEM private key in it".to_owned()))?;
    let key = CertifiedKey::from_der(chain, key, &provider::default_provider())
        .map_err(TlsError::Unusable)?;
    Ok(Loaded { key: Arc::new(key), binding: binding.into() })
}

/// `tls-server-end-point` (RFC 5929, section 4.1): the certificate hashed with the hash of its
/// signature, SHA-256 in place of MD5 and SHA-1.
fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let algorithm = match parsed.signature_algorithm.algorithm.to_id_string().as_str() {
        // sha384WithRSAEncryption, ecdsa-with-SHA384
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => &digest::SHA384,
        // sha512WithRSAEncryption, ecdsa-with-SHA512
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" => &digest::SHA512,
        _ => &digest::SHA256,
    };
    Some(digest::digest(algorithm, certificate).as_ref().to_vec())
}

/// Why TLS cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Certificate and key do not fit, or are of a kind that is not supported.
    #[error("the certificate and key cannot be used: {0}")]
    Unusable(rustls::Error),
}

impl UserFacingError for TlsError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::ControlPlane
    }
    fn sqlstate(&self) -> SqlState {
        SqlState::CONFIG_FILE_ERROR
    }
    fn hint(&self) -> Option<String> {
        Some("tls.certificate and tls.private_key name PEM files that belong together.".to_owned())
    }
}
