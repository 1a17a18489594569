//! A data directory with a sealed snapshot `shop` and the branches made of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use postern::branch::clone::{self, CloneProvider};
use postern::branch::instance::Instance;
use postern::branch::server::{Server, Stop};
use postern::branch::{BranchError, BranchSpec, Branches};
use postern::state::snapshot::{SnapshotRow, SnapshotState};
use postern::state::{DataDir, State, now_ms, snapshot};

use super::cluster::{Sweep, account, install, installs, spec};

/// Where the sealed snapshot lies.
pub const SNAPSHOT: &str = "sn_shop";

/// An open data directory.
pub struct World {
    pub branches: Branches,
    pub state: State,
    pub data: DataDir,
}

/// Opens what is in `root` as postern does at its start.
pub async fn open(root: &Path, provider: &str) -> Result<World, BranchError> {
    let data = DataDir::open(root)?;
    let state = State::open(&data)?;
    let (provider, _) = clone::choose(data.root(), Some(provider)).unwrap();
    let engine = Instance::new(data.clone(), account(), installs(), provider).unwrap();
    let branches = Branches::open(data.clone(), state.clone(), Arc::new(engine)).await?;
    Ok(World { branches, state, data })
}

/// Seals a small snapshot in `root` and opens it. The sweep must outlive the world.
pub async fn make(root: &Path, provider: &str) -> (World, Sweep) {
    let sweep = Sweep(root.canonicalize().unwrap());
    let world = open(root, provider).await.unwrap();
    let dir = world.data.snapshot(SNAPSHOT);
    std::fs::create_dir(&dir).unwrap();
    std::os::unix::fs::chown(&dir, None, None).unwrap();
    let provider = clone::by_name(provider).unwrap();
    seal(&dir, provider.as_ref()).await;
    let row = SnapshotRow {
        id: SNAPSHOT.to_owned(),
        name: "shop".to_owned(),
        state: SnapshotState::Sealed,
        database: "shop".to_owned(),
        pg_version: install().version,
        pg_major: install().major,
        provider: provider.name().to_owned(),
        bytes: 0,
        files: 0,
        source: "test".to_owned(),
        sanitized_by: Vec::new(),
        settings: BTreeMap::from([("work_mem".to_owned(), "7MB".to_owned())]),
        fingerprint: None,
        created_at: now_ms(),
        sealed_at: Some(now_ms()),
    };
    world.state.call(move |tx| snapshot::insert(tx, &row)).await.unwrap();
    (world, sweep)
}

async fn seal(dir: &Path, provider: &dyn CloneProvider) {
    let account = account();
    let owner = account.switches_user().then_some((account.uid, account.gid));
    std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
    let data = dir.join("data");
    provider.prepare(&data, owner).unwrap();
    super::cluster::initdb_in(&data).await;
    super::cluster::fill(dir).await;
    let server = Server::start(spec(dir, false)).await.unwrap();
    server.stop(Stop::Fast).await;
    provider.seal(&data).unwrap();
}

impl World {
    /// Makes a branch that nobody but the test knows.
    pub async fn branch(&self, read_only: bool) -> String {
        let spec = BranchSpec { read_only, ..BranchSpec::default() };
        self.branches.create("shop", spec, |_, _| Ok(())).await.unwrap().id
    }

    /// Starts a branch and connects to it.
    pub async fn connect(&self, id: &str, role: &str, write: bool) -> tokio_postgres::Client {
        let endpoint = self.branches.ensure_started(id, write).await.unwrap();
        let (client, connection) = tokio_postgres::Config::new()
            .host_path(&endpoint.socket_dir)
            .port(endpoint.port)
            .dbname(&endpoint.database)
            .user(role)
            .connect(tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        client
    }

    /// How many items a branch has.
    pub async fn items(&self, id: &str) -> i64 {
        let client = self.connect(id, "postern_read", false).await;
        client.query_one("SELECT count(*) FROM item", &[]).await.unwrap().get(0)
    }
}

/// Memory that nobody else has, summed over a server's processes, in MiB.
pub fn private_memory(data_dir: &Path) -> f64 {
    let pids = postern::branch::process::working_in(&data_dir.canonicalize().unwrap());
    let kilobytes: f64 = pids
        .iter()
        .filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok())
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| line.starts_with("Private_"))
        .filter_map(|line| line.split_ascii_whitespace().nth(1)?.parse::<f64>().ok())
        .sum();
    kilobytes / 1024.0
}

/// Everything outside the state that branches could have left, with the System V segments.
pub fn leftovers(root: &Path) -> Vec<String> {
    let mut left = Vec::new();
    for dir in ["branches", "s", "trash"] {
        for entry in std::fs::read_dir(root.join(dir)).unwrap() {
            left.push(format!("{dir}/{}", entry.unwrap().file_name().to_string_lossy()));
        }
    }
    for entry in std::fs::read_dir(root.join("log")).unwrap() {
        left.push(format!("log/{}", entry.unwrap().file_name().to_string_lossy()));
    }
    let root = root.canonicalize().unwrap();
    for server in postern::branch::process::postmasters_below(&root).unwrap() {
        left.push(format!("process {} in {}", server.pid, server.data_dir.display()));
    }
    left
}

/// System V segments of the servers' user that nobody is attached to.
pub fn orphan_segments() -> usize {
    let uid = account().uid.to_string();
    let table = std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
    table
        .lines()
        .skip(1)
        .filter(|line| {
            let fields: Vec<_> = line.split_ascii_whitespace().collect();
            fields[6] == "0" && fields[7] == uid
        })
        .count()
}
