//! The engine `instance`: a PostgreSQL server of its own on a copy-on-write clone.
//!
//! A branch `br_x` has `branches/br_x/{data,conf}`, the socket directory `s/br_x` and the log
//! `log/br_x.log`. Clones and servers of other branches share nothing with it but disk blocks.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt as _};

use super::account::{Account, AccountError};
use super::clone::{self, CloneProvider, Owner, Usage};
use super::config::{Config, ROLES};
use super::engine::{Engine, EngineError, Outside, OutsideServer, Source};
use super::pg::Installs;
use super::server::{Server, ServerSpec, end_postmaster};
use super::{ID_PREFIX, failpoint, files, pidfile, process};
use crate::state::DataDir;
use crate::state::branch::BranchRow;

/// How many sessions a branch's server takes at once. A standby must allow at least as many as
/// the server that sealed its snapshot did, so it is the same everywhere.
pub const MAX_CONNECTIONS: u32 = 100;

/// See the module.
#[derive(Debug, Clone)]
pub struct Instance {
    data: DataDir,
    account: Account,
    installs: Installs,
    provider: Arc<dyn CloneProvider>,
}

impl Instance {
    /// An engine that works in `data`, which the servers' user must be able to reach. Blocks.
    pub fn new(
        data: DataDir,
        account: Account,
        installs: Installs,
        provider: Arc<dyn CloneProvider>,
    ) -> Result<Self, AccountError> {
        account.check_reach(data.root())?;
        Ok(Self { data, account, installs, provider })
    }

    /// Whom the files of data directories belong to.
    pub fn owner(&self) -> Owner {
        self.account.switches_user().then_some((self.account.uid, self.account.gid))
    }

    /// The data directory of a branch.
    pub fn data_dir(&self, id: &str) -> PathBuf {
        self.data.branch(id).join("data")
    }

    fn log_file(&self, id: &str) -> PathBuf {
        self.data.logs().join(format!("{id}.log"))
    }

    fn spec(&self, row: &BranchRow) -> Result<ServerSpec, EngineError> {
        Ok(ServerSpec {
            install: self.installs.major(row.pg_major)?.clone(),
            account: self.account.clone(),
            data_dir: self.data_dir(&row.id),
            config: Config {
                dir: self.data.branch(&row.id).join("conf"),
                socket_dir: self.data.socket_dir(&row.id),
                name: row.id.clone(),
                major: row.pg_major,
                max_connections: MAX_CONNECTIONS,
                roles: ROLES.map(str::to_owned).to_vec(),
                guests: Vec::new(),
                settings: row.settings.clone(),
            },
            log_file: self.log_file(&row.id),
            standby: row.standby,
        })
    }

    /// Renames what there is of a branch into the trash, and removes its small files.
    fn throw_away(&self, id: &str) -> Result<Option<PathBuf>, EngineError> {
        let trash = self.data.trash().join(format!("{id}-{}", uuid::Uuid::now_v7().simple()));
        let renamed = match std::fs::rename(self.data.branch(id), &trash) {
            Ok(()) => Some(trash),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(EngineError::io(format!("throwing away {id}"))(e)),
        };
        for gone in [
            std::fs::remove_dir_all(self.data.socket_dir(id)),
            std::fs::remove_file(self.log_file(id)),
        ] {
            match gone {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(EngineError::io(format!("throwing away {id}"))(e));
                }
                _ => {}
            }
        }
        Ok(renamed)
    }

    /// Ids of branches of which there are files, whether known or not.
    fn ids_on_disk(&self) -> Result<Vec<String>, EngineError> {
        let mut ids = Vec::new();
        for dir in [self.data.branches(), self.data.socket_dirs(), self.data.logs()] {
            let entries =
                std::fs::read_dir(&dir).map_err(EngineError::io(dir.display().to_string()))?;
            for entry in entries.flatten() {
                let name = entry.file_name();
                let Some(name) = name.to_str() else { continue };
                let id = name.strip_suffix(".log").unwrap_or(name);
                if id.starts_with(ID_PREFIX) {
                    ids.push(id.to_owned());
                }
            }
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }
}

impl Engine for Instance {
    fn provider(&self) -> &Arc<dyn CloneProvider> {
        &self.provider
    }

    fn clone_data<'a>(
        &'a self,
        source: &'a Source,
        row: &'a BranchRow,
    ) -> BoxFuture<'a, Result<(), EngineError>> {
        let (dir, to) = (self.data.branch(&row.id), self.data_dir(&row.id));
        let (from, owner) = (source.data_dir().clone(), self.owner());
        let provider = row.provider.clone();
        blocking("cloning", move || {
            make_dir(&dir)?;
            Ok(clone::by_name(&provider)?.clone_dir(&from, &to, owner)?)
        })
    }

    fn start<'a>(&'a self, row: &'a BranchRow) -> BoxFuture<'a, Result<Server, EngineError>> {
        async move { Ok(Server::start(self.spec(row)?).await?) }.boxed()
    }

    fn adopt<'a>(
        &'a self,
        row: &'a BranchRow,
    ) -> BoxFuture<'a, Result<Option<Server>, EngineError>> {
        async move {
            let spec = self.spec(row)?;
            let (pid, start) = match &row.server {
                Some(server) if server.boot_id == process::boot_id() => {
                    (Some(server.pid), Some(server.start))
                }
                Some(_) => (None, None),
                None => (pidfile::running(&spec.data_dir), None),
            };
            match pid {
                Some(pid) => Ok(Server::adopt(spec, pid, start).await?),
                None => Ok(None),
            }
        }
        .boxed()
    }

    fn reset<'a>(
        &'a self,
        source: &'a Source,
        row: &'a BranchRow,
    ) -> BoxFuture<'a, Result<(), EngineError>> {
        async move {
            self.destroy(&row.id).await?;
            self.clone_data(source, row).await
        }
        .boxed()
    }

    fn destroy<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), EngineError>> {
        let (this, id) = (self.clone(), id.to_owned());
        blocking("destroying", move || {
            let thrown = this.throw_away(&id)?;
            failpoint::hit("destroy.renamed");
            if let Some(dir) = thrown {
                // What is not deleted because this process ends is swept later.
                tokio::task::spawn_blocking(move || {
                    if let Err(e) = this.provider.destroy(&dir) {
                        tracing::warn!(dir = %dir.display(), error = %e, "trash is left for later");
                    }
                });
            }
            Ok(())
        })
    }

    fn usage<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Usage, EngineError>> {
        let (provider, dir) = (Arc::clone(&self.provider), self.data_dir(id));
        blocking("measuring", move || Ok(provider.usage(&dir)?))
    }

    fn has_files(&self, id: &str) -> bool {
        self.data_dir(id).join("PG_VERSION").is_file()
    }

    fn outside(&self) -> BoxFuture<'_, Result<Outside, EngineError>> {
        let this = self.clone();
        blocking("looking for leftovers", move || {
            let found = process::postmasters_below(this.data.root())
                .map_err(EngineError::io("looking for servers"))?;
            let (branches, trash) = (this.data.branches(), this.data.trash());
            let servers = found.into_iter().filter_map(|postmaster| {
                let branch = branch_of(&postmaster.data_dir, &branches).map(str::to_owned);
                // Others below the data directory seal snapshots.
                (branch.is_some() || postmaster.data_dir.starts_with(&trash))
                    .then_some(OutsideServer { branch, postmaster })
            });
            Ok(Outside { servers: servers.collect(), ids: this.ids_on_disk()? })
        })
    }

    fn end_server<'a>(
        &'a self,
        server: &'a OutsideServer,
    ) -> BoxFuture<'a, Result<(), EngineError>> {
        async {
            end_postmaster(&server.postmaster).await.map_err(EngineError::io("ending a server"))
        }
        .boxed()
    }

    fn empty_trash(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        let this = self.clone();
        blocking("emptying the trash", move || {
            let entries = std::fs::read_dir(this.data.trash())
                .map_err(EngineError::io("emptying the trash"))?;
            let mut result = Ok(());
            for dir in entries.flatten().map(|entry| entry.path()) {
                // What another provider made is deleted by the one that always can. A program that
                // a killed postern had started may still be at work on it: then next time.
                let deleted =
                    this.provider.destroy(&dir).or_else(|_| clone::CopyFiles.destroy(&dir));
                result = result.and(deleted);
            }
            Ok(result?)
        })
    }

    fn bound_log(&self, id: &str) {
        if let Err(e) = files::bound_log(&self.log_file(id)) {
            tracing::warn!(branch = id, error = %e, "cannot cut back a server's log");
        }
    }
}

/// The branch whose files a path is among.
fn branch_of<'a>(path: &'a Path, branches: &Path) -> Option<&'a str> {
    path.strip_prefix(branches).ok()?.components().next()?.as_os_str().to_str()
}

/// Servers must pass through to their own data directory; nobody lists.
fn make_dir(dir: &Path) -> Result<(), EngineError> {
    use std::os::unix::fs::PermissionsExt as _;
    let make = || {
        std::fs::DirBuilder::new().mode(0o711).create(dir)?;
        // The umask may have taken bits away.
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o711))
    };
    make().map_err(EngineError::io("making the branch's directory"))
}

/// Runs file work on a thread that may block.
fn blocking<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> BoxFuture<'static, Result<T, EngineError>> {
    async move {
        tokio::task::spawn_blocking(work)
            .await
            .map_err(|e| EngineError::io(what)(std::io::Error::other(e)))?
    }
    .boxed()
}
