//! What is done to one branch by whoever holds its lock.
//!
//! Each step is written down as intended, done, and written down as done, in this order; between
//! any two of them the process may be killed, and `reconcile` knows what to do then.

use std::sync::Arc;

use rusqlite::Transaction;

use super::engine::{BranchError, EngineError};
use super::manager::{Branches, Core};
use super::server::{Server, Stop};
use super::{failpoint, process};
use crate::state::StateError;
use crate::state::branch::{self, BranchState, ServerProcess};

impl Branches {
    /// Starts the server if none runs, promotes it if that is needed.
    pub(super) async fn start_locked(
        &self,
        core: &mut Core,
        needs_write: bool,
    ) -> Result<(), BranchError> {
        self.check_open()?;
        core.check_usable()?;
        let inner = &self.inner;
        let id = core.row.id.clone();
        if core.server.as_ref().is_some_and(|server| server.process().has_ended()) {
            self.forget_dead(core).await?;
        }
        if let Some(server) = core.server.as_ref() {
            if needs_write && core.row.standby {
                server.promote().await.map_err(EngineError::from)?;
                failpoint::hit("promote.done");
                self.write(move |tx| branch::set_standby(tx, &id, false)).await?;
                core.row.standby = false;
            }
            return Ok(());
        }

        let standby = core.row.standby && !needs_write;
        let intended = id.clone();
        inner
            .state
            .call(move |tx| {
                branch::set_standby(tx, &intended, standby)?;
                branch::set_state(tx, &intended, BranchState::Starting, None)
            })
            .await?;
        core.row.standby = standby;
        core.row.state = BranchState::Starting;
        failpoint::hit("start.intended");
        let server = match inner.engine.start(&core.row).await {
            Ok(server) => server,
            Err(e) => {
                tracing::error!(branch = id, error = %e, "a branch's server did not start");
                self.set_state(core, BranchState::Stopped, None).await?;
                return Err(e.into());
            }
        };
        failpoint::hit("start.ready");
        self.take(core, server).await?;
        failpoint::hit("start.done");
        Ok(())
    }

    /// The branch has this server now: writes it down and watches it.
    pub(super) async fn take(&self, core: &mut Core, server: Server) -> Result<(), BranchError> {
        let known = ServerProcess {
            pid: server.process().pid(),
            start: server.process().start(),
            boot_id: process::boot_id(),
        };
        if let Err(e) = self.set_state(core, BranchState::Running, Some(known)).await {
            // The state does not know it, so it must not be there.
            server.stop(Stop::Immediate).await;
            return Err(e);
        }
        core.server = Some(server.clone());
        let (inner, id) = (Arc::downgrade(&self.inner), core.row.id.clone());
        tokio::spawn(async move {
            server.ended().await;
            let Some(this) = inner.upgrade().map(|inner| Self { inner }) else { return };
            let Ok(live) = this.live(&id) else { return };
            let mut core = live.core.clone().lock_owned().await;
            let is_it = |s: &Server| s.process().start() == server.process().start();
            if core.server.as_ref().is_some_and(is_it) {
                tracing::warn!(
                    branch = id,
                    pid = server.process().pid(),
                    "a branch's server ended by itself"
                );
                if let Err(e) = this.forget_dead(&mut core).await {
                    tracing::error!(branch = id, error = %e, "its end could not be written down");
                }
            }
        });
        Ok(())
    }

    /// The server has ended without being told to; the next who comes starts another.
    async fn forget_dead(&self, core: &mut Core) -> Result<(), BranchError> {
        if let Some(server) = core.server.take() {
            // Returns at once, and removes what a killed server leaves.
            server.stop(Stop::Immediate).await;
        }
        self.set_state(core, BranchState::Stopped, None).await
    }

    pub(super) async fn stop_locked(&self, core: &mut Core, how: Stop) -> Result<(), BranchError> {
        let Some(server) = core.server.clone() else { return Ok(()) };
        let known = core.row.server.clone();
        self.set_state(core, BranchState::Stopping, known).await?;
        failpoint::hit("stop.intended");
        core.server = None;
        server.stop(how).await;
        failpoint::hit("stop.stopped");
        self.set_state(core, BranchState::Stopped, None).await
    }

    pub(super) async fn destroy_locked(&self, core: &mut Core) -> Result<(), BranchError> {
        if core.gone {
            return Err(BranchError::Gone { id: core.row.id.clone() });
        }
        let inner = &self.inner;
        let known = core.row.server.clone();
        match self.set_state(core, BranchState::Destroying, known.clone()).await {
            // What makes space must not need any.
            Err(BranchError::State(StateError::DiskFull)) if inner.data.use_reserve() => {
                self.set_state(core, BranchState::Destroying, known).await?;
            }
            other => other?,
        }
        failpoint::hit("destroy.intended");
        if let Some(server) = core.server.take() {
            server.stop(Stop::Immediate).await;
        }
        failpoint::hit("destroy.stopped");
        inner.engine.destroy(&core.row.id).await?;
        let id = core.row.id.clone();
        inner.state.call(move |tx| branch::delete(tx, &id)).await?;
        failpoint::hit("destroy.deleted");
        core.gone = true;
        inner.live.remove(&core.row.id);
        Ok(())
    }

    /// Writes a branch's state down, and remembers it once it is written.
    pub(super) async fn set_state(
        &self,
        core: &mut Core,
        state: BranchState,
        server: Option<ServerProcess>,
    ) -> Result<(), BranchError> {
        let (id, written) = (core.row.id.clone(), server.clone());
        self.write(move |tx| branch::set_state(tx, &id, state, written.as_ref())).await?;
        core.row.state = state;
        core.row.server = server;
        Ok(())
    }

    async fn write<F>(&self, work: F) -> Result<(), BranchError>
    where
        F: FnOnce(&Transaction<'_>) -> Result<(), StateError> + Send + 'static,
    {
        Ok(self.inner.state.call(work).await?)
    }

    /// Removes what a failed creation made, and gives the reason back.
    pub(super) async fn undo(&self, core: &mut Core, why: BranchError) -> BranchError {
        if let Err(e) = self.destroy_locked(core).await {
            tracing::warn!(branch = core.row.id, error = %e, "undoing a creation is left for later");
        }
        why
    }
}

impl Core {
    fn check_usable(&self) -> Result<(), BranchError> {
        let id = self.row.id.clone();
        match self.row.state {
            _ if self.gone => Err(BranchError::Gone { id }),
            BranchState::Creating | BranchState::Destroying => Err(BranchError::Gone { id }),
            BranchState::Failed => {
                let why = self.row.failure.clone().unwrap_or_default();
                Err(BranchError::Failed { id, why })
            }
            _ => Ok(()),
        }
    }
}
