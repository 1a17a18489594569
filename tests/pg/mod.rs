//! A PostgreSQL server of its own for a test, gone when the test is over for whatever reason.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper that fails fails its test"
)]
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};

pub struct Cluster {
    dir: tempfile::TempDir,
    server: Option<Child>,
}

/// The programs that the tests use: those `POSTERN_TEST_PG_BIN` names, else the newest installed.
pub fn bin(program: &str) -> PathBuf {
    if let Some(dir) = std::env::var_os("POSTERN_TEST_PG_BIN") {
        return Path::new(&dir).join(program);
    }
    let mut versions: Vec<u32> = std::fs::read_dir("/usr/lib/postgresql")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .collect();
    versions.sort_unstable();
    let newest = versions.last().expect("no PostgreSQL below /usr/lib/postgresql");
    PathBuf::from(format!("/usr/lib/postgresql/{newest}/bin/{program}"))
}

/// PostgreSQL refuses to run as root.
fn command(program: &str) -> Command {
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]);
        command.arg(bin(program));
        command
    } else {
        Command::new(bin(program))
    };
    command.current_dir("/").stdin(Stdio::null());
    command
}

impl Cluster {
    pub async fn start() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("ps.")
            .permissions(std::fs::Permissions::from_mode(0o777))
            .tempdir()
            .unwrap();
        let mut cluster = Self { dir, server: None };
        let made = command("initdb")
            .args(["-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C", "-D"])
            .arg(cluster.data())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        cluster.launch().await;
        cluster
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    async fn launch(&mut self) {
        let log = std::fs::File::create(self.dir.path().join("log")).unwrap();
        let settings = [
            "listen_addresses=",
            "fsync=off",
            "autovacuum=off",
            "wal_level=logical",
            "dynamic_shared_memory_type=mmap",
        ];
        let server = command("postgres")
            .arg("-D")
            .arg(self.data())
            .arg("-k")
            .arg(self.dir.path())
            .args(settings.iter().flat_map(|setting| ["-c", setting]))
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.server = Some(server);
        let until = Instant::now() + Duration::from_secs(30);
        while self.try_connect("postgres", "postgres").await.is_err() {
            let log = || std::fs::read_to_string(self.dir.path().join("log")).unwrap();
            assert!(Instant::now() < until, "{}", log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Restarts it in recovery, with no upstream.
    pub async fn restart_as_standby(&mut self) {
        self.stop();
        let signal = self.data().join("standby.signal");
        std::fs::write(signal, "").unwrap();
        self.launch().await;
    }

    fn stop(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        let pid = rustix::process::Pid::from_child(&server);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        let _ = server.wait();
    }

    async fn try_connect(&self, user: &str, db: &str) -> Result<Client, tokio_postgres::Error> {
        let config = format!("host={} user={user} dbname={db}", self.dir.path().display());
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    pub async fn connect(&self, db: &str) -> Client {
        self.connect_as("postgres", db).await
    }

    pub async fn connect_as(&self, user: &str, db: &str) -> Client {
        self.try_connect(user, db).await.unwrap()
    }

    /// A new empty database.
    pub async fn create(&self, db: &str) -> Client {
        let client = self.connect("postgres").await;
        client.batch_execute(&format!("CREATE DATABASE {db} TEMPLATE template0")).await.unwrap();
        self.connect(db).await
    }

    /// The whole cluster as SQL.
    pub fn dump(&self) -> String {
        let output = command("pg_dumpall")
            .args(["-U", "postgres", "-h"])
            .arg(self.dir.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a dump.
    pub fn restore(&self, sql: &str) {
        let file = self.dir.path().join("dump.sql");
        std::fs::write(&file, sql).unwrap();
        let output = command("psql")
            .args(["-X", "-q", "-U", "postgres", "-d", "postgres", "-h"])
            .arg(self.dir.path())
            .arg("-f")
            .arg(file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let errors: Vec<_> = said
            .lines()
            .filter(|line| line.contains("ERROR") && !line.contains("role \"postgres\" already"))
            .collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Cluster {
    /// A connection as a new role with no rights.
    pub async fn connect_as_new(&self, user: &str, db: &str) -> Client {
        let client = self.connect(db).await;
        client.batch_execute(&format!("CREATE ROLE {user} LOGIN")).await.unwrap();
        self.connect_as(user, db).await
    }
}
