//! A PostgreSQL that can be reached directly, and a proxy in front of the same one.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use postern::config::TlsMode;
use postern::gate::Capabilities;
use postern::session::{
    Authority, Backend, BackendAddress, Grant, Guards, Life, Open, Proxy, ProxySettings, ReachError,
};
use postern::wire::scram::Verifier;
use postern::wire::tls::Tls;
use secrecy::SecretString;

use super::cluster::{account, install};
use super::served::{free_port, signal, wait_for};

/// User and password on both sides.
pub const USER: &str = "app";
pub const PASSWORD: &str = "secret";
pub const DATABASE: &str = "shop";

/// A server that listens on loopback (SCRAM, TLS) and on a unix socket (trust).
pub struct Direct {
    child: Child,
    pub dir: tempfile::TempDir,
    pub port: u16,
}

impl Direct {
    /// Starts one, with a self-signed certificate in `cert.pem` and `key.pem`.
    pub fn start() -> Self {
        let dir = super::cluster::temp_dir(None);
        let (data, account) = (dir.path().join("data"), account());
        let own = |path: &Path| {
            if account.switches_user() {
                std::os::unix::fs::chown(path, Some(account.uid), Some(account.gid)).unwrap();
            }
        };
        std::fs::create_dir(&data).unwrap();
        own(&data);
        own(dir.path());
        let run = |program: &str, args: &[&str]| {
            let mut command = account.plain(&install().program(program)).as_std_mut().clone_args();
            let output = command.args(args).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        let data_text = data.to_str().unwrap();
        run(
            "initdb",
            &[
                "-U",
                "postgres",
                "--no-sync",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
                "-D",
                data_text,
            ],
        );
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        for (name, text) in
            [("cert.pem", certified.cert.pem()), ("key.pem", certified.signing_key.serialize_pem())]
        {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            own(&path);
        }
        let hba = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
        std::fs::write(data.join("pg_hba.conf"), hba).unwrap();
        let port = free_port();
        let root = dir.path().display();
        let conf = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{root}'\n\
             fsync = off\nmax_connections = 200\nmax_prepared_transactions = 5\nssl = on\n\
             ssl_cert_file = '{root}/cert.pem'\nssl_key_file = '{root}/key.pem'\n\
             password_encryption = 'scram-sha-256'\n"
        );
        std::fs::write(data.join("postgresql.auto.conf"), conf).unwrap();
        let log = std::fs::File::create(dir.path().join("server.log")).unwrap();
        let child = account
            .plain(&install().program("postgres"))
            .as_std_mut()
            .clone_args()
            .args(["-D", data_text])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let direct = Self { child, dir, port };
        wait_for("the server to answer", || direct.try_sql("postgres", "SELECT 1").is_ok());
        direct.sql("postgres", &format!("CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'"));
        direct.sql("postgres", &format!("CREATE DATABASE {DATABASE} OWNER {USER}"));
        direct
    }

    /// The unix socket's file.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join(format!(".s.PGSQL.{}", self.port))
    }

    /// The certificate.
    pub fn cert(&self) -> PathBuf {
        self.dir.path().join("cert.pem")
    }

    /// Runs SQL as the superuser and gives what psql prints.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        self.try_sql(database, sql).unwrap()
    }

    fn try_sql(&self, database: &str, sql: &str) -> Result<String, String> {
        let output = Command::new(install().program("psql"))
            .args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"])
            .arg(self.dir.path())
            .args(["-p", &self.port.to_string(), "-d", database, "-c", sql])
            .output()
            .unwrap();
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap().trim().to_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// A driver's URL straight to the server.
    pub fn url(&self) -> String {
        format!("postgresql://{USER}:{PASSWORD}@127.0.0.1:{}/{DATABASE}?sslmode=disable", self.port)
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        signal(self.child.id(), rustix::process::Signal::QUIT);
        let _ = self.child.wait();
    }
}

/// Gives everybody who logs in as `app` the server behind a unix socket.
pub struct OneLease {
    grant: Arc<Grant>,
    backend: Backend,
}

impl OneLease {
    /// A lease on the server of `direct`.
    pub fn on(direct: &Direct) -> Self {
        Self::with(direct, 1000)
    }

    /// The same with a limit on connections.
    pub fn with(direct: &Direct, max_connections: u32) -> Self {
        let grant = Grant {
            lease: USER.to_owned(),
            run: "test".to_owned(),
            revision: "r1".to_owned(),
            branch: "br_test".to_owned(),
            verifier: Verifier::of(&SecretString::from(PASSWORD)).unwrap(),
            capabilities: Capabilities::ALL,
            policy: None,
            database: DATABASE.to_owned(),
            max_connections,
            life: Life::default(),
        };
        let backend = Backend {
            address: BackendAddress::Unix(direct.socket()),
            role: USER.to_owned(),
            database: DATABASE.to_owned(),
            password: None,
        };
        Self { grant: Arc::new(grant), backend }
    }

    /// The same over TCP, with this password for the server.
    pub fn over_tcp(direct: &Direct, password: &str) -> Self {
        let mut lease = Self::on(direct);
        lease.backend.address = BackendAddress::Tcp("127.0.0.1".to_owned(), direct.port);
        lease.backend.password = Some(SecretString::from(password));
        lease
    }

    /// The same on the unix socket, with a password that nobody asks for.
    pub fn with_unasked_password(direct: &Direct) -> Self {
        let mut lease = Self::on(direct);
        lease.backend.password = Some(SecretString::from(PASSWORD));
        lease
    }

    /// The lease.
    pub fn grant(&self) -> &Arc<Grant> {
        &self.grant
    }
}

impl Authority for OneLease {
    fn find(&self, user: &str) -> Option<Arc<Grant>> {
        (user == USER).then(|| Arc::clone(&self.grant))
    }

    async fn reach(&self, _grant: &Arc<Grant>) -> Result<Backend, ReachError> {
        Ok(self.backend.clone())
    }

    fn left(&self, _grant: &Arc<Grant>) {}
}

/// A proxy in front of `direct`, on a free port of loopback and on a unix socket in its directory.
pub async fn proxy(direct: &Direct, authority: Arc<OneLease>, tls: bool) -> (Proxy<OneLease>, u16) {
    proxy_with(direct, authority, Open, settings(tls)).await
}

/// The same with guards, without TLS.
pub async fn proxy_guarded<W: Guards>(
    direct: &Direct,
    authority: Arc<OneLease>,
    guards: W,
) -> (Proxy<OneLease, W>, u16) {
    proxy_with(direct, authority, guards, settings(false)).await
}

/// Generous settings.
pub fn settings(tls: bool) -> ProxySettings {
    ProxySettings {
        tls_mode: if tls { TlsMode::Allow } else { TlsMode::Off },
        proxy_protocol_from: Vec::new(),
        max_connections: 1000,
        startup_timeout: Duration::from_secs(30),
        keepalive: Duration::from_mins(1),
        user_timeout: Duration::from_mins(1),
    }
}

/// The same with everything.
pub async fn proxy_with<A: Authority, W: Guards>(
    direct: &Direct,
    authority: Arc<A>,
    guards: W,
    settings: ProxySettings,
) -> (Proxy<A, W>, u16) {
    let port = free_port();
    let tls = (settings.tls_mode != TlsMode::Off)
        .then(|| Tls::load(&direct.cert(), &direct.dir.path().join("key.pem")).unwrap());
    let address = format!("127.0.0.1:{port}").parse().unwrap();
    let unix = direct.dir.path().join("proxy");
    let unix = Some((&*unix, port));
    let proxy =
        Proxy::start_guarded(authority, guards, &[address], unix, tls, settings).await.unwrap();
    (proxy, port)
}

/// Commands of the standard library from tokio's.
trait CloneArgs {
    fn clone_args(&self) -> Command;
}

impl CloneArgs for Command {
    fn clone_args(&self) -> Command {
        let mut command = Command::new(self.get_program());
        command.args(self.get_args()).current_dir("/").env("LC_ALL", "C.UTF-8");
        command
    }
}
