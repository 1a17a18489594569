//! An import from its beginning to the seal.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio_util::sync::CancellationToken;

use super::super::config::{Config, ROLES, SUPERUSER};
use super::super::instance::MAX_CONNECTIONS;
use super::super::server::{Server, ServerSpec, Stop};
use super::restore::{self, MAINTENANCE, Plan, RESTORER, Target};
use super::{
    ID_PREFIX, ImportRequest, Progress, Snapshot, SnapshotError, Snapshots, program,
    program::command, verify, wall,
};
use crate::state::now_ms;
use crate::state::snapshot::{self as rows, SnapshotRow, SnapshotState};

/// Settings that make a restore faster; the branches do not get them.
const RESTORING: [(&str, &str); 6] = [
    // What is restored into a table made in the same transaction needs no WAL.
    ("wal_level", "minimal"),
    // Giving away all that was restored takes a lock on each of it.
    ("max_locks_per_transaction", "2048"),
    ("maintenance_work_mem", "256MB"),
    ("max_wal_size", "4GB"),
    ("shared_buffers", "128MB"),
    ("synchronous_commit", "off"),
];
/// The longest name of a snapshot.
const MAX_NAME: usize = 63;

/// See [`Snapshots::import`].
pub(super) async fn run(
    snapshots: &Snapshots,
    request: ImportRequest,
    progress: &(impl Fn(Progress) + Send + Sync),
    cancel: CancellationToken,
) -> Result<Snapshot, SnapshotError> {
    check(&request)?;
    let plan = tokio::select! {
        plan = restore::plan(&request.source, &snapshots.installs) => plan?,
        () = cancel.cancelled() => return Err(SnapshotError::Cancelled),
    };
    let wanted = request
        .database
        .clone()
        .or_else(|| plan.database().map(str::to_owned))
        .unwrap_or_else(|| request.name.clone());
    let row = SnapshotRow {
        id: format!("{ID_PREFIX}{}", uuid::Uuid::now_v7().simple()),
        name: request.name.clone(),
        state: SnapshotState::Importing,
        database: wanted,
        pg_version: plan.install.version.clone(),
        pg_major: plan.install.major,
        provider: snapshots.provider.name().to_owned(),
        bytes: 0,
        files: 0,
        source: plan.told.clone(),
        sanitized_by: request
            .sanitize
            .iter()
            .map(|path| path.file_name().unwrap_or_default().to_string_lossy().into_owned())
            .collect(),
        settings: plan.settings.clone(),
        fingerprint: None,
        created_at: now_ms(),
        sealed_at: None,
    };
    let intended = row.clone();
    snapshots.state.call(move |db| rows::insert(db, &intended)).await?;
    let (id, provider) = (row.id.clone(), row.provider.clone());
    let work = Import { snapshots, request: &request, plan: &plan, row };
    let result = tokio::select! {
        result = work.run(progress) => result,
        () = cancel.cancelled() => Err(SnapshotError::Cancelled),
    };
    if result.is_err() {
        // The row stays when something could not be removed: the next start tries again.
        if let Err(e) = snapshots.clear(&id, &provider).await {
            tracing::error!(snapshot = id, error = %e, "a failed import could not be removed");
        } else {
            snapshots.state.call(move |db| rows::delete(db, &id)).await?;
        }
    }
    result
}

struct Import<'a> {
    snapshots: &'a Snapshots,
    request: &'a ImportRequest,
    plan: &'a Plan,
    row: SnapshotRow,
}

impl Import<'_> {
    async fn run(
        mut self,
        progress: &(impl Fn(Progress) + Send + Sync),
    ) -> Result<Snapshot, SnapshotError> {
        let step = AtomicU32::new(0);
        let say = |phase: &str| {
            let step = step.fetch_add(1, Ordering::Relaxed) + 1;
            progress(Progress { phase: phase.to_owned(), step, steps: 5, done: None, total: None });
        };
        let hear = |phase: &'static str| {
            let step = &step;
            move |done, total| {
                let step = step.load(Ordering::Relaxed);
                let done = Some(done);
                progress(Progress { phase: phase.to_owned(), step, steps: 5, done, total });
            }
        };
        say("prepare");
        self.initdb().await?;
        let server = Server::start(self.spec(true)).await?;
        let admin = server.connect(SUPERUSER, MAINTENANCE).await?;
        admin.batch_execute(wall::ROLES).await?;

        say("restore");
        let scratch = self.snapshots.data.snapshot(&self.row.id);
        let cores =
            std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
        let wanted = self.row.database.clone();
        let target = Target {
            account: &self.snapshots.account,
            install: &self.plan.install,
            socket_dir: &server.spec().config.socket_dir,
            admin: &admin,
            wanted: &wanted,
            asked: self.request.database.as_deref(),
            jobs: self.request.jobs.unwrap_or(cores).clamp(1, 64),
            scratch: &scratch,
        };
        let database =
            restore::restore(&self.request.source, self.plan, &target, &hear("restore")).await?;

        say("sanitize");
        for path in &self.request.sanitize {
            let psql = restore::psql(&target, &database);
            restore::run_script(psql, "sanitize", path, true, &hear("sanitize")).await?;
        }
        wall::check_cluster(&admin).await?;
        drop(admin);
        self.row.database.clone_from(&database);

        say("wall");
        let admin = server.connect(SUPERUSER, &database).await?;
        wall::quiet(&admin).await?;
        wall::build(&admin).await?;
        wall::vacuum(&admin).await?;
        drop(admin);
        server.stop(Stop::Fast).await;

        // Once more as a branch's server is: a standby starts only with the settings of the
        // server that wrote the last WAL.
        let server = Server::start(self.spec(false)).await?;
        let admin = server.connect(SUPERUSER, &database).await?;
        wall::quiet(&admin).await?;
        verify::verify(&server, &admin, &database).await?;
        admin.batch_execute("CHECKPOINT").await?;
        drop(admin);

        say("seal");
        server.stop(Stop::Fast).await;
        self.seal().await
    }

    async fn initdb(&self) -> Result<(), SnapshotError> {
        let snapshots = self.snapshots;
        let dir = snapshots.data.snapshot(&self.row.id);
        let data = dir.join("data");
        let (account, provider) = (snapshots.account.clone(), Arc::clone(&snapshots.provider));
        let owner = account.switches_user().then_some((account.uid, account.gid));
        let made = data.clone();
        tokio::task::spawn_blocking(move || {
            std::fs::DirBuilder::new().mode(0o711).create(&dir).map_err(SnapshotError::io(&dir))?;
            Ok::<_, SnapshotError>(provider.prepare(&made, owner)?)
        })
        .await
        .map_err(|_| SnapshotError::Cancelled)??;
        let mut initdb = account.plain(&self.plan.install.program("initdb"));
        initdb
            .args(["--username", SUPERUSER, "--auth", "reject", "--no-sync", "--no-instructions"])
            .args(["--encoding", "UTF8", "--locale", "C.UTF-8", "--pgdata"])
            .arg(&data)
            .current_dir("/")
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .kill_on_drop(true);
        program::run(&mut initdb, |_| {})
            .await
            .map_err(|message| SnapshotError::Program { program: "initdb".to_owned(), message })
    }

    fn spec(&self, restoring: bool) -> ServerSpec {
        let (data, id) = (&self.snapshots.data, &self.row.id);
        let account = &self.snapshots.account;
        let mut settings = self.row.settings.clone();
        let (mut roles, mut guests) = (ROLES.map(str::to_owned).to_vec(), Vec::new());
        if restoring {
            settings.extend(RESTORING.map(|(name, value)| (name.to_owned(), value.to_owned())));
            roles.push(RESTORER.to_owned());
            if account.switches_user() {
                guests.push((account.user.clone(), RESTORER.to_owned()));
            }
        }
        ServerSpec {
            install: self.plan.install.clone(),
            account: self.snapshots.account.clone(),
            data_dir: data.snapshot(id).join("data"),
            config: Config {
                dir: data.snapshot(id).join("conf"),
                socket_dir: data.socket_dir(id),
                name: id.clone(),
                major: self.plan.install.major,
                max_connections: MAX_CONNECTIONS,
                roles,
                guests,
                settings,
            },
            log_file: data.logs().join(format!("{id}.log")),
            standby: false,
        }
    }

    /// The WAL segment with the last checkpoint.
    async fn needed_wal(&self) -> Result<String, SnapshotError> {
        let data = self.snapshots.data.snapshot(&self.row.id).join("data");
        let mut pg_controldata = command(&self.plan.install, "pg_controldata");
        let told = program::output(pg_controldata.arg(&data), "pg_controldata").await?;
        let field = |name: &str| told.lines().find_map(|line| line.strip_prefix(name));
        let state = field("Database cluster state:").map(str::trim);
        match field("Latest checkpoint's REDO WAL file:").map(str::trim) {
            Some(file) if state == Some("shut down") => Ok(file.to_owned()),
            _ => Err(SnapshotError::Program {
                program: "pg_controldata".to_owned(),
                message: format!("the server left its files {}", state.unwrap_or("unreadable")),
            }),
        }
    }

    /// Makes the files unchangeable and the snapshot known.
    async fn seal(mut self) -> Result<Snapshot, SnapshotError> {
        let needed = self.needed_wal().await?;
        let data = &self.snapshots.data;
        let dir = data.snapshot(&self.row.id);
        let (socket_dir, log) =
            (data.socket_dir(&self.row.id), data.logs().join(format!("{}.log", self.row.id)));
        let provider = Arc::clone(&self.snapshots.provider);
        let usage = tokio::task::spawn_blocking(move || {
            for gone in [
                std::fs::remove_dir_all(dir.join("conf")),
                std::fs::remove_dir_all(&socket_dir),
                std::fs::remove_file(&log),
            ] {
                gone.map_err(SnapshotError::io(&dir))?;
            }
            let files = dir.join("data");
            super::super::files::strip(&files).map_err(SnapshotError::io(&files))?;
            trim_wal(&files, &needed).map_err(SnapshotError::io(&files))?;
            provider.seal(&files)?;
            Ok::<_, SnapshotError>(provider.usage(&files)?)
        })
        .await
        .map_err(|_| SnapshotError::Cancelled)??;
        self.row.bytes = usage.bytes;
        self.row.files = usage.files;
        self.row.state = SnapshotState::Sealed;
        self.row.sealed_at = Some(now_ms());
        let sealed = self.row.clone();
        self.snapshots.state.call(move |db| rows::update(db, &sealed)).await?;
        Ok(self.row.into())
    }
}

/// Removes WAL before and after the one segment that a start reads.
fn trim_wal(data: &Path, needed: &str) -> std::io::Result<()> {
    let dir = data.join("pg_wal");
    if !dir.join(needed).is_file() {
        return Err(std::io::Error::other(format!("pg_wal has no segment {needed}")));
    }
    for entry in std::fs::read_dir(&dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_file() && name != needed {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn check(request: &ImportRequest) -> Result<(), SnapshotError> {
    let name = &request.name;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty()
        || name.len() > MAX_NAME
        || !name.chars().all(plain)
        || !name.starts_with(|c: char| c.is_ascii_alphanumeric())
        || name.starts_with(ID_PREFIX)
    {
        return Err(SnapshotError::Invalid(format!(
            "`{name}` cannot name a snapshot: letters, digits, `_`, `-` and `.`, {MAX_NAME} at most, a letter or digit first"
        )));
    }
    if let Some(database) = &request.database
        && (database.is_empty()
            || database.len() > MAX_NAME
            || matches!(database.as_str(), "template0" | "template1"))
    {
        return Err(SnapshotError::Invalid(format!(
            "`{database}` cannot name a snapshot's database"
        )));
    }
    for path in &request.sanitize {
        restore::check_path(path)?;
        std::fs::metadata(path).map_err(SnapshotError::io(path))?;
    }
    match &request.source {
        super::ImportSource::Sql { path } | super::ImportSource::Dump { path } => {
            restore::check_path(path)
        }
        super::ImportSource::Url { .. } => Ok(()),
    }
}
