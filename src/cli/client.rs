//! How a command reaches postern: the admin API of a running one, or the data directory itself.
//!
//! Both ways end in the same router, so a command behaves the same either way.

use std::path::PathBuf;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, header};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tower::ServiceExt;

use super::CliError;
use crate::admin::ErrorBody;

/// A way to the admin API.
pub enum Client {
    /// A running `postern serve` behind its unix socket.
    Socket(PathBuf),
    /// A running `postern serve` behind TCP.
    Tcp(String, SecretString),
    /// The same API in this process, on a data directory that nobody else serves.
    Local(Router),
}

impl Client {
    /// Sends a request and reads the whole answer.
    pub async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + Sync)>,
    ) -> Result<T, CliError> {
        let answer = self.send(method, path, body).await?;
        let bytes = answer.into_body().collect().await.map_err(CliError::broken)?.to_bytes();
        serde_json::from_slice(&bytes).map_err(CliError::broken)
    }

    /// Sends a request whose answer is one JSON object per line, and hands over each as it comes.
    /// The last line is the result.
    pub async fn stream<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + Sync)>,
        mut each: impl FnMut(T),
    ) -> Result<(), CliError> {
        let mut body = self.send(method, path, body).await?.into_body();
        let mut pending = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(CliError::broken)?;
            pending.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = pending.drain(..=end).collect();
                each(serde_json::from_slice(&line).map_err(CliError::broken)?);
            }
        }
        Ok(())
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + Sync)>,
    ) -> Result<axum::http::Response<Body>, CliError> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "postern")
            .header(header::CONTENT_TYPE, "application/json");
        if let Self::Tcp(_, token) = self {
            let value = format!("Bearer {}", token.expose_secret());
            request = request.header(header::AUTHORIZATION, value);
        }
        let body = match body {
            Some(body) => Body::from(serde_json::to_vec(body).map_err(CliError::broken)?),
            None => Body::empty(),
        };
        let request = request.body(body).map_err(CliError::broken)?;
        let answer = match self {
            Self::Local(router) => match router.clone().oneshot(request).await {
                Ok(answer) => answer,
                Err(never) => match never {},
            },
            Self::Socket(path) => {
                let stream = UnixStream::connect(path).await.map_err(CliError::broken)?;
                exchange(stream, request).await?
            }
            Self::Tcp(address, _) => {
                let stream = TcpStream::connect(address).await.map_err(CliError::broken)?;
                exchange(stream, request).await?
            }
        };
        if answer.status().is_success() {
            return Ok(answer);
        }
        let bytes = answer.into_body().collect().await.map_err(CliError::broken)?.to_bytes();
        let error: ErrorBody = serde_json::from_slice(&bytes).map_err(CliError::broken)?;
        Err(CliError::Refused(error))
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Body>,
) -> Result<axum::http::Response<Body>, CliError> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(CliError::broken)?;
    tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(CliError::broken)?;
    Ok(answer.map(Body::new))
}

/// One segment of a path, percent-encoded (RFC 3986, section 3.3).
pub fn segment(text: &str) -> String {
    crate::lease::percent_encode(text)
}
