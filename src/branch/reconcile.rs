//! Making the state and the outside agree again, at start and every few seconds.
//!
//! What is outside is looked at first and the state after: what is made in between was intended
//! before and is known by then.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use tokio::sync::OwnedMutexGuard;

use super::engine::{BranchError, OutsideServer};
use super::manager::{Branches, Core, Live};
use super::process;
use super::server::Stop;
use crate::state::branch::{self, BranchRow, BranchState};

/// How many branches are put right at once at start.
const AT_ONCE: usize = 8;

impl Branches {
    /// Reconciles every `period` until the future is dropped.
    pub async fn keep(&self, period: Duration) {
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // The first tick comes at once, and `open` has just done it.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            if let Err(e) = self.reconcile().await {
                tracing::error!(error = %e, "branches could not be reconciled; trying again");
            }
        }
    }

    /// Finishes or undoes what an earlier failure left, ends servers and removes files that the
    /// state does not know. Branches that somebody is at work on are left alone, and one that
    /// cannot be helped now does not keep the others waiting: it is logged and tried next time.
    pub async fn reconcile(&self) -> Result<(), BranchError> {
        let engine = &self.inner.engine;
        let outside = engine.outside().await?;
        for server in &outside.servers {
            if let Err(e) = self.judge(server).await {
                tracing::error!(?server, error = %e, "a server could not be ended");
            }
        }
        for id in outside.ids.iter().filter(|id| !self.inner.live.contains_key(*id)) {
            tracing::warn!(branch = id, "removing files that no branch has");
            if let Err(e) = engine.destroy(id).await {
                tracing::error!(branch = id, error = %e, "files could not be removed");
            }
        }
        for (id, live) in self.all_live() {
            let Ok(mut core) = live.core.clone().try_lock_owned() else { continue };
            if let Err(e) = self.mend(&mut core).await {
                tracing::error!(branch = id, error = %e, "a branch could not be put right");
            }
            engine.bound_log(&id);
        }
        if let Err(e) = engine.empty_trash().await {
            tracing::warn!(error = %e, "trash is left for later");
        }
        self.inner.data.keep_reserve();
        Ok(())
    }

    /// Reads the state into memory and puts every branch right.
    pub(super) async fn recover(&self) -> Result<(), BranchError> {
        let outside = self.inner.engine.outside().await?;
        let mut servers: HashMap<String, Vec<OutsideServer>> = HashMap::new();
        for server in outside.servers {
            if let Some(id) = &server.branch {
                servers.entry(id.clone()).or_default().push(server);
            }
        }
        let rows = self.inner.state.call(|tx| branch::list(tx)).await?;
        let work: Vec<_> = rows
            .into_iter()
            .map(|row| {
                let found = servers.remove(&row.id).unwrap_or_default();
                let live = Live::new(row.clone(), None);
                self.inner.live.insert(row.id.clone(), live.clone());
                (live, row, found)
            })
            .collect();
        stream::iter(work)
            .for_each_concurrent(AT_ONCE, |(live, row, found)| async move {
                let mut core = live.core.clone().lock_owned().await;
                if let Err(e) = self.recover_one(&mut core, &row, found).await {
                    // One branch that cannot be helped must not keep the others from service.
                    tracing::error!(branch = row.id, error = %e, "a branch could not be recovered");
                }
            })
            .await;
        self.reconcile().await
    }

    async fn recover_one(
        &self,
        core: &mut OwnedMutexGuard<Core>,
        row: &BranchRow,
        found: Vec<OutsideServer>,
    ) -> Result<(), BranchError> {
        let engine = &self.inner.engine;
        match row.state {
            BranchState::Running | BranchState::Starting => {
                if row.server.as_ref().is_some_and(|s| s.boot_id != process::boot_id()) {
                    return self
                        .fail(
                            core,
                            "the machine went down while its server ran, and servers of \
                                     branches do not wait for the disk: its data cannot be trusted",
                        )
                        .await;
                }
                let mut any = row.clone();
                any.server = None;
                // Something may hold the data directory that the state never heard the number of.
                let adopted = if found.is_empty() { None } else { engine.adopt(&any).await? };
                if let Some(server) = adopted {
                    return self.take(core, server).await;
                }
            }
            // Nobody should run there.
            _ => {}
        }
        for server in &found {
            engine.end_server(server).await?;
        }
        match row.state {
            BranchState::Creating | BranchState::Destroying => self.destroy_locked(core).await,
            BranchState::Failed => Ok(()),
            _ if !engine.has_files(&row.id) => self.fail(core, "its files are gone").await,
            BranchState::Stopped => Ok(()),
            _ => self.set_state(core, BranchState::Stopped, None).await,
        }
    }

    /// The branch is of no more use; it stays to be looked at and destroyed.
    async fn fail(&self, core: &mut Core, why: &'static str) -> Result<(), BranchError> {
        tracing::error!(branch = core.row.id, "{why}");
        let id = core.row.id.clone();
        self.inner
            .state
            .call(move |tx| {
                branch::set_state(tx, &id, BranchState::Failed, None)?;
                branch::set_failed(tx, &id, why)
            })
            .await?;
        core.row.state = BranchState::Failed;
        core.row.server = None;
        core.row.failure = Some(why.to_owned());
        Ok(())
    }

    /// Ends a server that its branch does not have.
    async fn judge(&self, server: &OutsideServer) -> Result<(), BranchError> {
        let pid = server.postmaster.pid;
        // The lock is held while it is ended, or a start could come in between.
        let mut held = None;
        if let Some(Ok(live)) = server.branch.as_ref().map(|id| self.live(id)) {
            let Ok(core) = live.core.clone().try_lock_owned() else { return Ok(()) };
            if core.server.as_ref().is_some_and(|s| s.process().pid() == pid) {
                return Ok(());
            }
            held = Some(core);
        }
        tracing::warn!(pid, branch = server.branch, "ending a server that no branch has");
        self.inner.engine.end_server(server).await?;
        drop(held);
        Ok(())
    }

    /// Puts one branch right that nobody is at work on.
    async fn mend(&self, core: &mut Core) -> Result<(), BranchError> {
        match core.row.state {
            _ if core.gone => Ok(()),
            // A creation or destruction that could not be finished.
            BranchState::Creating | BranchState::Destroying => self.destroy_locked(core).await,
            // The server is gone or never came; only the state does not know yet.
            BranchState::Starting => self.set_state(core, BranchState::Stopped, None).await,
            BranchState::Stopping => match core.server {
                Some(_) => self.stop_locked(core, Stop::Fast).await,
                None => self.set_state(core, BranchState::Stopped, None).await,
            },
            BranchState::Running if core.server.is_none() => {
                self.set_state(core, BranchState::Stopped, None).await
            }
            BranchState::Running | BranchState::Stopped | BranchState::Failed => Ok(()),
        }
    }
}
