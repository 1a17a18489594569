//! The `DATABASE_URL` of a lease.

use std::fmt::Write as _;
use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};

use crate::config::{Config, TlsMode};

/// Where clients reach the proxy, as it stands in a URL.
#[derive(Debug, Clone)]
pub struct Advertised {
    place: Place,
    port: u16,
    sslmode: &'static str,
}

#[derive(Debug, Clone)]
enum Place {
    Host(String),
    SocketDir(PathBuf),
}

impl Advertised {
    /// What the configuration says. Without a TCP listener the unix socket is named.
    pub fn from_config(config: &Config) -> Self {
        let listen = &config.listen;
        let host = listen.advertise_host.clone().or_else(|| {
            let address = listen.tcp.first()?.ip();
            Some(match address {
                ip if ip.is_unspecified() && ip.is_ipv4() => "127.0.0.1".to_owned(),
                ip if ip.is_unspecified() => "[::1]".to_owned(),
                std::net::IpAddr::V6(ip) => format!("[{ip}]"),
                std::net::IpAddr::V4(ip) => ip.to_string(),
            })
        });
        let sslmode = match config.tls_mode() {
            TlsMode::Off => "disable",
            TlsMode::Allow | TlsMode::Require => "require",
        };
        Self {
            place: host.map_or_else(|| Place::SocketDir(config.socket_dir()), Place::Host),
            port: listen.advertise_port.unwrap_or_else(|| config.port()),
            sslmode,
        }
    }

    /// `postgresql://<lease id>:<token>@host:port/<database>?sslmode=…` (PostgreSQL manual, "34.1.1.2.
    /// Connection URIs").
    pub fn url(&self, lease: &str, token: &SecretString, database: &str) -> SecretString {
        let token = token.expose_secret();
        let database = percent_encode(database);
        SecretString::from(match &self.place {
            Place::Host(host) => format!(
                "postgresql://{lease}:{token}@{host}:{}/{database}?sslmode={}",
                self.port, self.sslmode
            ),
            Place::SocketDir(dir) => format!(
                "postgresql://{lease}:{token}@/{database}?host={}&port={}",
                percent_encode(&dir.to_string_lossy()),
                self.port
            ),
        })
    }
}

/// Percent-encodes all but the unreserved characters (RFC 3986, section 2.3).
pub fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_names_the_listener_and_encodes_the_database() {
        let advertised = Advertised::from_config(&Config::default());
        let url = advertised.url("lease_1", &SecretString::from("tok"), "my shop/ü");
        assert_eq!(
            url.expose_secret(),
            "postgresql://lease_1:tok@127.0.0.1:7432/my%20shop%2F%C3%BC?sslmode=disable"
        );
    }

    #[test]
    fn without_tcp_the_url_names_the_socket() {
        let mut config = Config { data_dir: "/srv/p".into(), ..Config::default() };
        config.listen.tcp.clear();
        let url = Advertised::from_config(&config).url("l", &SecretString::from("t"), "shop");
        assert_eq!(url.expose_secret(), "postgresql://l:t@/shop?host=%2Fsrv%2Fp%2Frun&port=7432");
    }
}
