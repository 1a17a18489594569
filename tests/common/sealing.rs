//! A data directory into which databases are imported, and the branches made of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use postern::branch::clone;
use postern::branch::instance::Instance;
use postern::branch::snapshot::{ImportRequest, ImportSource, Snapshot, SnapshotError, Snapshots};
use postern::branch::{BranchSpec, Branches};
use postern::state::{DataDir, State};
use tokio_util::sync::CancellationToken;

use super::cluster::{Sweep, account, installs, temp_dir};
use super::world::World;

/// An open data directory with its snapshots. Ends its servers and goes away at the end.
pub struct Sealing {
    pub snapshots: Snapshots,
    pub world: World,
    _sweep: Sweep,
    root: PathBuf,
    _dir: Option<tempfile::TempDir>,
}

impl Sealing {
    /// A new one.
    pub async fn new() -> Self {
        let dir = temp_dir(None);
        let mut sealing = Self::open(&dir.path().join("d")).await;
        sealing._dir = Some(dir);
        sealing
    }

    /// Opens what is in `root` as postern does at its start.
    pub async fn open(root: &Path) -> Self {
        let data = DataDir::open(root).unwrap();
        let state = State::open(&data).unwrap();
        let (provider, _) = clone::choose(data.root(), Some("copy")).unwrap();
        let (account, installs) = (account(), installs());
        let snapshots = Snapshots::open(
            data.clone(),
            state.clone(),
            account.clone(),
            installs.clone(),
            provider.clone(),
        );
        let snapshots = snapshots.await.unwrap();
        let engine = Instance::new(data.clone(), account, installs, provider).unwrap();
        let branches = Branches::open(data.clone(), state.clone(), Arc::new(engine)).await.unwrap();
        let root = root.canonicalize().unwrap();
        Self {
            snapshots,
            world: World { branches, state, data },
            _sweep: Sweep(root.clone()),
            root,
            _dir: None,
        }
    }

    /// The data directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Writes a file that an import can name.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.join("log").join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Imports a script.
    pub async fn sql(&self, name: &str, text: &str) -> Result<Snapshot, SnapshotError> {
        let path = self.file(&format!("{name}.sql"), text);
        let imported =
            self.import(ImportRequest::new(name, ImportSource::Sql { path: path.clone() }));
        let imported = imported.await;
        std::fs::remove_file(path).unwrap();
        imported
    }

    /// Imports.
    pub async fn import(&self, request: ImportRequest) -> Result<Snapshot, SnapshotError> {
        self.snapshots.import(request, |_| {}, CancellationToken::new()).await
    }

    /// A new branch of a snapshot.
    pub async fn branch(&self, snapshot: &str, read_only: bool) -> String {
        let spec = BranchSpec { read_only, ..BranchSpec::default() };
        self.world.branches.create(snapshot, spec, |_, _| Ok(())).await.unwrap().id
    }

    /// What lies outside the state for snapshots and branches, save the sealed snapshots.
    pub async fn leftovers(&self) -> Vec<String> {
        let mut left = super::world::leftovers(&self.root);
        let known: Vec<_> =
            self.snapshots.list().await.unwrap().into_iter().map(|s| s.id).collect();
        for entry in std::fs::read_dir(self.root.join("snapshots")).unwrap() {
            let name = entry.unwrap().file_name().to_string_lossy().into_owned();
            if !known.contains(&name) {
                left.push(format!("snapshots/{name}"));
            }
        }
        left
    }
}
