//! Data directories with a database in them, and the means to see that nothing is left.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use postern::branch::account::Account;
use postern::branch::clone::{CloneProvider as _, CopyFiles};
use postern::branch::config::{Config, ROLES};
use postern::branch::pg::{Install, Installs};
use postern::branch::server::{Server, ServerSpec, Stop};

/// The installation the tests use: the one `POSTERN_TEST_PG_BIN` names, else the newest.
pub fn install() -> Install {
    match std::env::var_os("POSTERN_TEST_PG_BIN") {
        Some(bin) => Install::at(Path::new(&bin)).unwrap(),
        None => installs().newest().unwrap().clone(),
    }
}

/// All installations, that one included.
pub fn installs() -> Installs {
    Installs::find(std::env::var_os("POSTERN_TEST_PG_BIN").as_deref().map(Path::new)).unwrap()
}

/// As whom the tests' servers run.
pub fn account() -> Account {
    Account::detect(None).unwrap()
}

/// A directory that servers can reach, below `base` or the system's temporary directory.
pub fn temp_dir(base: Option<&Path>) -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let mut builder = tempfile::Builder::new();
    builder.prefix("pb.").permissions(std::fs::Permissions::from_mode(0o711));
    match base {
        Some(base) => builder.tempdir_in(base).unwrap(),
        None => builder.tempdir().unwrap(),
    }
}

/// A specification of a server in `root/data`, everything else beside it.
pub fn spec(root: &Path, standby: bool) -> ServerSpec {
    let install = install();
    ServerSpec {
        account: account(),
        data_dir: root.join("data"),
        config: Config {
            dir: root.join("conf"),
            socket_dir: root.join("s"),
            name: "test".to_owned(),
            major: install.major,
            max_connections: 100,
            roles: ROLES.map(str::to_owned).to_vec(),
            guests: Vec::new(),
            settings: BTreeMap::new(),
        },
        log_file: root.join("log"),
        standby,
        install,
    }
}

/// Makes an empty cluster in `root/data`.
pub async fn initdb(root: &Path) -> PathBuf {
    let data = root.join("data");
    let account = account();
    std::fs::create_dir(&data).unwrap();
    if account.switches_user() {
        std::os::unix::fs::chown(&data, Some(account.uid), Some(account.gid)).unwrap();
    }
    initdb_in(&data).await;
    data
}

/// Makes an empty cluster in an empty directory.
pub async fn initdb_in(data: &Path) {
    let output = account()
        .plain(&install().program("initdb"))
        .args(["-U", "postern", "--no-sync", "-A", "reject", "-E", "UTF8", "--locale=C", "-D"])
        .arg(data)
        .current_dir("/")
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A small sealed data directory: roles, database `shop` with one table of 1000 rows.
pub async fn sealed(root: &Path) -> PathBuf {
    let data = initdb(root).await;
    fill(root).await;
    data
}

/// Makes the roles and the database `shop` in `root/data`, and stops cleanly.
pub async fn fill(root: &Path) {
    let server = Server::start(spec(root, false)).await.unwrap();
    let client = server.connect("postern", "postgres").await.unwrap();
    let roles = "CREATE ROLE postern_read LOGIN; CREATE ROLE postern_write LOGIN;
                 CREATE ROLE postern_migrate LOGIN;";
    client.batch_execute(roles).await.unwrap();
    client.batch_execute("CREATE DATABASE shop").await.unwrap();
    let client = server.connect("postern", "shop").await.unwrap();
    client
        .batch_execute(
            "SET search_path = public;
             CREATE TABLE item (id int PRIMARY KEY, name text);
             INSERT INTO item SELECT i, 'item ' || i FROM generate_series(1, 1000) i;
             GRANT SELECT ON item TO postern_read, postern_write;
             GRANT INSERT, UPDATE, DELETE ON item TO postern_write;",
        )
        .await
        .unwrap();
    if filler_megabytes() > 0 {
        // 8 rows of about 1 kB to a page.
        let rows = filler_megabytes() << 10;
        let sql = format!(
            "CREATE TABLE filler AS SELECT i, repeat('x', 980) FROM generate_series(1, {rows}) i"
        );
        client.batch_execute(&sql).await.unwrap();
    }
    client.batch_execute("VACUUM (FREEZE, ANALYZE)").await.unwrap();
    drop(client);
    server.stop(Stop::Fast).await;
}

/// How much more than the small table the snapshot holds: `POSTERN_TEST_MB`, for measuring.
pub fn filler_megabytes() -> u64 {
    std::env::var("POSTERN_TEST_MB").ok().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Ends, when the test is over for whatever reason, every server below a directory.
pub struct Sweep(pub PathBuf);

impl Drop for Sweep {
    fn drop(&mut self) {
        let left = postern::branch::process::postmasters_below(&self.0).unwrap_or_default();
        for postmaster in left {
            if let Some(pid) =
                i32::try_from(postmaster.pid).ok().and_then(rustix::process::Pid::from_raw)
            {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
            }
        }
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !postern::branch::process::working_in(&self.0).is_empty()
            && std::time::Instant::now() < until
        {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        // Without root, what is sealed cannot be deleted like any directory.
        let _ = CopyFiles.destroy(&self.0.join("snapshots"));
    }
}
