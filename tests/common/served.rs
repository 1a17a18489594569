//! A real `postern serve` in a directory of its own, and the command line to talk to it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The program under test.
pub const POSTERN: &str = env!("CARGO_BIN_EXE_postern");

/// A small database with a bit of everything.
pub const SMALL: &str = "
CREATE TYPE mood AS ENUM ('calm', 'busy');
CREATE TABLE account (id serial PRIMARY KEY, email text UNIQUE NOT NULL, mood mood DEFAULT 'calm');
CREATE TABLE invoice (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id int NOT NULL REFERENCES account ON DELETE CASCADE, total numeric NOT NULL);
INSERT INTO account (email) SELECT 'user' || i || '@example.test' FROM generate_series(1, 1000) i;
INSERT INTO invoice (account_id, total) SELECT 1 + i % 1000, i / 3.0 FROM generate_series(1, 5000) i;
CREATE VIEW rich AS SELECT account_id, sum(total) AS total FROM invoice GROUP BY 1;
CREATE FUNCTION twice(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT n * 2';
COMMENT ON TABLE account IS 'who pays';
";

/// A running postern. Dropping it ends it and checks nothing; see [`Postern::leftovers`].
pub struct Postern {
    child: Option<Child>,
    pub data: PathBuf,
    pub port: u16,
    dir: tempfile::TempDir,
    extra: String,
}

/// What `lease create` printed.
#[derive(Debug, Clone)]
pub struct TestLease {
    pub id: String,
    pub url: String,
    pub branch: String,
    pub json: Value,
}

impl Postern {
    /// Starts one on a free port; `extra` is added to its configuration file.
    pub fn start(extra: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("postern-test.").tempdir().unwrap();
        Self::start_in(dir, extra)
    }

    /// The same, in a directory that is already there.
    pub fn start_in(dir: tempfile::TempDir, extra: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;
        // The servers' user must get through to its own part.
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
        let data = dir.path().join("data");
        let mut postern =
            Self { child: None, data, port: free_port(), dir, extra: extra.to_owned() };
        postern.write_config();
        postern.serve();
        postern
    }

    /// The configuration file.
    pub fn config(&self) -> PathBuf {
        self.dir.path().join("postern.toml")
    }

    /// Where the log of `serve` goes.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("serve.log")).unwrap_or_default()
    }

    /// A directory for the test's own files.
    pub fn scratch(&self) -> &Path {
        self.dir.path()
    }

    fn write_config(&self) {
        let (data, port) = (self.data.display(), self.port);
        let text =
            format!("data_dir = '{data}'\n[listen]\ntcp = ['127.0.0.1:{port}']\n{}", self.extra);
        std::fs::write(self.config(), text).unwrap();
    }

    /// Starts `postern serve` and waits until it is ready.
    pub fn serve(&mut self) {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.dir.path().join("serve.log"))
            .unwrap();
        let ready = self.log().matches("postern is ready").count();
        let child = Command::new(POSTERN)
            .args(["serve", "--config"])
            .arg(self.config())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
        wait_for("postern serve to be ready", || {
            if let Some(status) = self.child.as_mut().unwrap().try_wait().unwrap() {
                panic!("postern serve ended with {status}:\n{}", self.log());
            }
            self.log().matches("postern is ready").count() > ready
        });
    }

    /// The process id of `postern serve`.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// kill -9.
    pub fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// SIGTERM, and how it ended.
    pub fn terminate(&mut self) -> std::process::ExitStatus {
        let mut child = self.child.take().unwrap();
        signal(child.id(), rustix::process::Signal::TERM);
        let until = Instant::now() + Duration::from_mins(1);
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            if Instant::now() > until {
                child.kill().unwrap();
                panic!("postern serve did not end within a minute of SIGTERM:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Runs a command of postern's.
    pub fn run(&self, args: &[&str]) -> Output {
        Command::new(POSTERN)
            .arg("--config")
            .arg(self.config())
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Runs a command that must work, and reads its JSON.
    pub fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["--json"]].concat());
        assert!(
            output.status.success(),
            "postern {args:?}: {}\n{}",
            String::from_utf8_lossy(&output.stderr),
            self.log()
        );
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Seals `sql` as the snapshot `name`.
    pub fn import(&self, name: &str, sql: &str) -> Value {
        let path = self.dir.path().join(format!("{name}.sql"));
        std::fs::write(&path, sql).unwrap();
        self.json(&["snapshot", "import", name, "--from-sql", path.to_str().unwrap()])
    }

    /// A lease on a new branch of `snapshot`.
    pub fn lease(&self, snapshot: &str, capabilities: &str) -> TestLease {
        self.lease_with(&["--snapshot", snapshot, "--cap", capabilities])
    }

    /// A lease made with these arguments.
    pub fn lease_with(&self, args: &[&str]) -> TestLease {
        let base = ["lease", "create", "--run", "test", "--revision", "r1"];
        let json = self.json(&[&base[..], args].concat());
        let text = |key: &str| json[key].as_str().unwrap().to_owned();
        TestLease { id: text("leaseId"), url: text("databaseUrl"), branch: text("branchId"), json }
    }

    /// Connects like any driver.
    pub async fn connect(&self, lease: &TestLease) -> tokio_postgres::Client {
        connect(&lease.url).await.unwrap()
    }

    /// Everything under the data directory that belongs to a branch: processes, directories,
    /// sockets, segments. Empty when nothing was leaked.
    pub fn leftovers(&self) -> Vec<String> {
        let mut out = Vec::new();
        for part in ["branches", "s", "trash", "secrets"] {
            for entry in std::fs::read_dir(self.data.join(part)).into_iter().flatten().flatten() {
                out.push(entry.path().display().to_string());
            }
        }
        out.extend(servers_under(&self.data));
        out
    }

    /// Waits until nothing is left of any branch.
    pub fn wait_for_no_leftovers(&self) {
        wait_for("nothing to be left", || self.leftovers().is_empty());
    }
}

impl Drop for Postern {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            signal(child.id(), rustix::process::Signal::TERM);
            let until = Instant::now() + Duration::from_secs(20);
            while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(10));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        // After a kill -9 the servers outlive it; the test must not.
        for line in servers_under(&self.data) {
            if let Some(pid) = line.split_whitespace().next().and_then(|pid| pid.parse().ok()) {
                signal(pid, rustix::process::Signal::QUIT);
            }
        }
        if std::thread::panicking() {
            eprintln!("--- log of postern serve\n{}", self.log());
        }
    }
}

/// Connects with an ordinary driver.
pub async fn connect(url: &str) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// `pid command` of each process whose command line names something under `dir`, postern's own
/// commands aside.
pub fn servers_under(dir: &Path) -> Vec<String> {
    let dir = dir.display().to_string();
    let mut out = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(&dir) && !line.starts_with(POSTERN) && pid != std::process::id() {
            out.push(format!("{pid} {line}"));
        }
    }
    out
}

/// Sends a signal; a process that is gone is none of our business.
pub fn signal(pid: u32, signal: rustix::process::Signal) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid.cast_signed()) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// A TCP port that nobody listens on.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits up to half a minute for a condition.
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Resident memory of a process in bytes (`VmRSS`, proc(5)).
pub fn rss(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}
