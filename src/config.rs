//! Configuration: a TOML file, overridden by environment variables, overridden by flags.
//!
//! The file is validated whole: unknown keys are refused, and every error names line and column.
//! The environment variable of a key is its path in capitals: `listen.tcp` is
//! `POSTERN_LISTEN_TCP`.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{ErrorKind, SqlState, UserFacingError};

/// The default address of the proxy.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:7432";

/// All settings, after file, environment and flags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where state, snapshots, branches and secrets are kept.
    pub data_dir: PathBuf,
    /// The PostgreSQL installation that branches run on.
    pub postgres: PostgresConfig,
    /// Where the proxy listens.
    pub listen: ListenConfig,
    /// TLS towards clients.
    pub tls: TlsConfig,
    /// The admin API.
    pub admin: AdminConfig,
    /// Limits on connections and messages.
    pub limits: LimitsConfig,
    /// Lifetimes of leases.
    pub leases: LeasesConfig,
    /// How branches are made.
    pub branches: BranchesConfig,
    /// What is logged to standard error.
    pub log: LogConfig,
}

/// `[postgres]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PostgresConfig {
    /// The directory with `postgres`, `initdb`, `psql`; found by itself when absent.
    pub bin: Option<PathBuf>,
    /// The operating-system user that servers run as when postern is root.
    pub user: Option<String>,
}

/// `[listen]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListenConfig {
    /// TCP addresses; an empty list means none.
    pub tcp: Vec<SocketAddr>,
    /// The directory of the unix socket `.s.PGSQL.<port>`; `<data_dir>/run` when absent.
    pub socket_dir: Option<PathBuf>,
    /// The host that `DATABASE_URLs` name, when it is not the first TCP address.
    pub advertise_host: Option<String>,
    /// The port that `DATABASE_URLs` name, when it is not the listener's.
    pub advertise_port: Option<u16>,
    /// Peers that must speak PROXY protocol v2, as addresses or networks (`10.0.0.0/8`).
    pub proxy_protocol_from: Vec<Network>,
}

/// `[tls]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// `off`, `allow` (TLS when the client asks) or `require`; `allow` when a certificate is set.
    pub mode: Option<TlsMode>,
    /// PEM file with the certificate chain.
    pub certificate: Option<PathBuf>,
    /// PEM file with the private key.
    pub private_key: Option<PathBuf>,
}

/// How TLS is offered to clients over TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TlsMode {
    /// SSLRequest is answered `N`.
    Off,
    /// SSLRequest is answered `S`; plaintext works too.
    Allow,
    /// Plaintext over TCP is refused.
    Require,
}

/// `[admin]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdminConfig {
    /// The unix socket, mode 0600; `<data_dir>/admin.sock` when absent.
    pub socket: Option<PathBuf>,
    /// A TCP address, only together with `token_file`.
    pub tcp: Option<SocketAddr>,
    /// A file, readable by its owner only, that holds the bearer token for `tcp`.
    pub token_file: Option<PathBuf>,
}

/// `[limits]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// Client connections in all.
    pub connections: usize,
    /// Client connections per lease.
    pub connections_per_lease: u32,
    /// From accept to the first ReadyForQuery.
    pub startup_timeout: Span,
    /// How long a graceful shutdown waits for transactions to end.
    pub shutdown_timeout: Span,
    /// Idle time before TCP keepalive probes.
    pub keepalive: Span,
    /// How long sent data may stay unacknowledged (`TCP_USER_TIMEOUT`).
    pub user_timeout: Span,
}

/// `[leases]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LeasesConfig {
    /// Lifetime of a lease that names none.
    pub default_ttl: Span,
    /// The longest lifetime a lease may ask for.
    pub max_ttl: Span,
}

/// `[branches]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BranchesConfig {
    /// `btrfs`, `reflink` or `copy`; probed when absent.
    pub provider: Option<String>,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// A `tracing` filter: `info`, `postern=debug`, …
    pub filter: String,
    /// `text` or `json`.
    pub format: LogFormat,
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: default_data_dir("postern"),
            postgres: PostgresConfig::default(),
            listen: ListenConfig::default(),
            tls: TlsConfig::default(),
            admin: AdminConfig::default(),
            limits: LimitsConfig::default(),
            leases: LeasesConfig::default(),
            branches: BranchesConfig::default(),
            log: LogConfig::default(),
        }
    }
}

impl Default for ListenConfig {
    fn default() -> Self {
        Self {
            tcp: DEFAULT_LISTEN.parse().into_iter().collect(),
            socket_dir: None,
            advertise_host: None,
            advertise_port: None,
            proxy_protocol_from: Vec::new(),
        }
    }
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            connections: 2_000,
            connections_per_lease: 100,
            startup_timeout: Span::seconds(30),
            shutdown_timeout: Span::seconds(30),
            keepalive: Span::seconds(60),
            user_timeout: Span::seconds(60),
        }
    }
}

impl Default for LeasesConfig {
    fn default() -> Self {
        Self { default_ttl: Span::seconds(30 * 60), max_ttl: Span::seconds(24 * 3600) }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { filter: "info".to_owned(), format: LogFormat::Text }
    }
}

/// Every key that an environment variable may set.
const KEYS: &[&str] = &[
    "data_dir",
    "postgres.bin",
    "postgres.user",
    "listen.tcp",
    "listen.socket_dir",
    "listen.advertise_host",
    "listen.advertise_port",
    "listen.proxy_protocol_from",
    "tls.mode",
    "tls.certificate",
    "tls.private_key",
    "admin.socket",
    "admin.tcp",
    "admin.token_file",
    "limits.connections",
    "limits.connections_per_lease",
    "limits.startup_timeout",
    "limits.shutdown_timeout",
    "limits.keepalive",
    "limits.user_timeout",
    "leases.default_ttl",
    "leases.max_ttl",
    "branches.provider",
    "log.filter",
    "log.format",
];

impl Config {
    /// Reads `file` (if any), then `POSTERN_…` variables from `env`, then `flags` (pairs of key
    /// path and value), and checks the whole.
    pub fn load(
        file: Option<&Path>,
        env: impl IntoIterator<Item = (String, String)>,
        flags: &[(&'static str, String)],
    ) -> Result<Self, ConfigError> {
        let mut table = toml::Table::new();
        if let Some(path) = file {
            let text = std::fs::read_to_string(path)
                .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
            let invalid = |error: toml::de::Error| ConfigError::Invalid {
                place: path.display().to_string(),
                reason: error.to_string().trim_end().to_owned(),
            };
            toml::from_str::<Self>(&text).map_err(invalid)?;
            table = toml::from_str(&text).map_err(invalid)?;
        }
        for (name, value) in env {
            let Some(rest) = name.strip_prefix("POSTERN_") else { continue };
            let Some(key) = KEYS.iter().find(|key| key.to_uppercase().replace('.', "_") == rest)
            else {
                continue; // POSTERN_CONFIG, POSTERN_ADMIN_TOKEN and the like are read elsewhere
            };
            overlay(&mut table, key, &value, &format!("environment variable {name}"))?;
        }
        for (key, value) in flags {
            overlay(&mut table, key, value, &format!("flag for {key}"))?;
        }
        let config = deserialize(table, "configuration")?;
        config.check()?;
        Ok(config)
    }

    /// What no single key can show to be wrong.
    fn check(&self) -> Result<(), ConfigError> {
        let refuse = |reason: &str| {
            Err(ConfigError::Invalid { place: "configuration".into(), reason: reason.to_owned() })
        };
        if self.tls.certificate.is_some() != self.tls.private_key.is_some() {
            return refuse("tls.certificate and tls.private_key go together: one is missing");
        }
        if self.tls_mode() != TlsMode::Off && self.tls.certificate.is_none() {
            return refuse("tls.mode needs tls.certificate and tls.private_key");
        }
        if self.admin.tcp.is_some() && self.admin.token_file.is_none() {
            return refuse(
                "admin.tcp needs admin.token_file: the admin API over TCP is served only to holders of a bearer token",
            );
        }
        if self.leases.default_ttl > self.leases.max_ttl {
            return refuse("leases.default_ttl is longer than leases.max_ttl");
        }
        if self.limits.connections == 0 || self.limits.connections_per_lease == 0 {
            return refuse(
                "limits.connections and limits.connections_per_lease must be at least 1",
            );
        }
        Ok(())
    }

    /// The TLS mode in force.
    pub fn tls_mode(&self) -> TlsMode {
        self.tls.mode.unwrap_or(if self.tls.certificate.is_some() {
            TlsMode::Allow
        } else {
            TlsMode::Off
        })
    }

    /// The directory of the proxy's unix socket.
    pub fn socket_dir(&self) -> PathBuf {
        self.listen.socket_dir.clone().unwrap_or_else(|| self.data_dir.join("run"))
    }

    /// The admin API's unix socket.
    pub fn admin_socket(&self) -> PathBuf {
        self.admin.socket.clone().unwrap_or_else(|| self.data_dir.join("admin.sock"))
    }

    /// The port that names the unix socket and, unless advertised otherwise, stands in URLs.
    pub fn port(&self) -> u16 {
        self.listen.tcp.first().map_or(7432, SocketAddr::port)
    }
}

fn overlay(
    table: &mut toml::Table,
    key: &str,
    value: &str,
    place: &str,
) -> Result<(), ConfigError> {
    // A list may be given as TOML (`["a", "b"]`) or as words with commas between them.
    let is_list = matches!(key, "listen.tcp" | "listen.proxy_protocol_from");
    let parsed = if is_list && !value.trim_start().starts_with('[') {
        let words = value.split(',').map(str::trim).filter(|word| !word.is_empty());
        toml::Value::Array(words.map(|word| toml::Value::String(word.to_owned())).collect())
    } else {
        let typed = format!("v = {value}").parse::<toml::Table>().ok();
        let typed = typed.and_then(|mut t| t.remove("v"));
        typed
            .filter(|v| v.is_integer() || v.is_bool() || v.is_array())
            .unwrap_or_else(|| toml::Value::String(value.to_owned()))
    };
    let (section, name) = key.split_once('.').map_or((None, key), |(s, n)| (Some(s), n));
    let target = match section {
        None => &mut *table,
        Some(section) => table
            .entry(section)
            .or_insert_with(|| toml::Value::Table(toml::Table::new()))
            .as_table_mut()
            .ok_or_else(|| ConfigError::Invalid {
                place: place.to_owned(),
                reason: format!("`{section}` is not a section"),
            })?,
    };
    target.insert(name.to_owned(), parsed);
    deserialize(table.clone(), place).map(|_| ())
}

fn deserialize(table: toml::Table, place: &str) -> Result<Config, ConfigError> {
    Config::deserialize(table).map_err(|error| ConfigError::Invalid {
        place: place.to_owned(),
        reason: error.to_string().trim_end().to_owned(),
    })
}

/// Where data is kept when nothing says otherwise: `/var/lib/NAME` for root, the XDG state
/// directory for others.
pub fn default_data_dir(name: &str) -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return Path::new("/var/lib").join(name);
    }
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).or_else(|| {
        std::env::var_os("HOME").map(|home| Path::new(&home).join(".local").join("state"))
    });
    state.unwrap_or_else(std::env::temp_dir).join(name)
}

/// The configuration file to use when none was named: the first that exists.
pub fn find_file() -> Option<PathBuf> {
    [PathBuf::from("postern.toml"), PathBuf::from("/etc/postern/postern.toml")]
        .into_iter()
        .find(|path| path.is_file())
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A key or value is wrong.
    #[error("{place}: {reason}")]
    Invalid {
        /// File, variable or flag.
        place: String,
        /// What is wrong, with line and column where it is a file.
        reason: String,
    },
}

impl UserFacingError for ConfigError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::ControlPlane
    }
    fn sqlstate(&self) -> SqlState {
        SqlState::CONFIG_FILE_ERROR
    }
    fn hint(&self) -> Option<String> {
        Some("postern.example.toml lists every key with its default.".to_owned())
    }
}

/// A length of time, written like `30s`, `5m`, `1h 30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    /// So many seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        humantime::parse_duration(text)
            .map(Self)
            .map_err(|e| format!("`{text}` is not a length of time like `30s` or `5m`: {e}"))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(self.0))
    }
}

/// An address or a network in CIDR form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// The network's address.
    pub address: IpAddr,
    /// How many leading bits count.
    pub prefix: u8,
}

impl Network {
    /// Does the network hold `address`? An IPv4 address mapped into IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(ip)) => same_prefix(
                u128::from(net.to_bits()) << 96,
                u128::from(ip.to_bits()) << 96,
                self.prefix,
            ),
            (IpAddr::V6(net), IpAddr::V6(ip)) => {
                same_prefix(net.to_bits(), ip.to_bits(), self.prefix)
            }
            _ => false,
        }
    }
}

fn same_prefix(a: u128, b: u128, prefix: u8) -> bool {
    prefix == 0 || (a ^ b) >> (128 - u32::from(prefix)) == 0
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || format!("`{text}` is not an address or a network like `10.0.0.0/8`");
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u8>().map_err(|_| bad())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let widest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(widest);
        if prefix > widest {
            return Err(bad());
        }
        Ok(Self { address, prefix })
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}/{}", self.address, self.prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, env: &[(&str, &str)]) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("postern.toml");
        std::fs::write(&path, text).unwrap();
        let env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        Config::load(Some(&path), env, &[]).map_err(|e| e.to_string())
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_place() {
        let error = load("data_dir = '/x'\n[listen]\nport = 1\n", &[]).unwrap_err();
        assert!(error.contains("line 3, column 1") && error.contains("`port`"), "{error}");
    }

    #[test]
    fn a_bad_value_is_refused_with_its_place() {
        let error = load("[limits]\nstartup_timeout = 'soon'\n", &[]).unwrap_err();
        assert!(error.contains("line 2, column 19") && error.contains("`soon`"), "{error}");
        let error = load("[listen]\ntcp = ['nowhere']\n", &[]).unwrap_err();
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn the_environment_beats_the_file_and_a_flag_beats_both() {
        let text = "[listen]\ntcp = ['127.0.0.1:1']\n";
        let config = load(text, &[("POSTERN_LISTEN_TCP", "127.0.0.1:2, [::1]:3")]).unwrap();
        assert_eq!(config.listen.tcp, ["127.0.0.1:2".parse().unwrap(), "[::1]:3".parse().unwrap()]);
        let flags = [("listen.tcp", "127.0.0.1:4".to_owned())];
        let env = [("POSTERN_LISTEN_TCP".to_owned(), "127.0.0.1:2".to_owned())];
        let config = Config::load(None, env, &flags).unwrap();
        assert_eq!(config.port(), 4);
    }

    #[test]
    fn a_bad_environment_variable_is_named() {
        let error = load("", &[("POSTERN_LIMITS_CONNECTIONS", "many")]).unwrap_err();
        assert!(error.contains("POSTERN_LIMITS_CONNECTIONS"), "{error}");
    }

    #[test]
    fn the_admin_api_over_tcp_needs_a_token() {
        assert!(load("[admin]\ntcp = '127.0.0.1:1'\n", &[]).unwrap_err().contains("token"));
    }

    #[test]
    fn networks_hold_what_they_should() {
        let net: Network = "10.1.0.0/16".parse().unwrap();
        assert!(net.contains("10.1.200.3".parse().unwrap()));
        assert!(net.contains("::ffff:10.1.0.9".parse().unwrap()));
        assert!(!net.contains("10.2.0.1".parse().unwrap()));
        assert!("10.0.0.0/33".parse::<Network>().is_err());
        assert!("0.0.0.0/0".parse::<Network>().unwrap().contains("8.8.8.8".parse().unwrap()));
    }

    #[test]
    fn the_example_holds_the_defaults() {
        let example = include_str!("../postern.example.toml");
        let read = load(example, &[]).unwrap();
        let data_dir = read.data_dir.clone();
        assert_eq!(read, Config { data_dir, ..Config::default() });
        // Each key is in it, live or commented out.
        for key in KEYS {
            let name = key.rsplit('.').next().unwrap();
            assert!(example.contains(&format!("{name} = ")), "{key} is missing");
        }
    }
}
