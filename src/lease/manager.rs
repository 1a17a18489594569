//! The life of leases: made, renewed, expired, revoked; and who may log in with what.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use dashmap::DashMap;
use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use ring::rand::{SecureRandom, SystemRandom};
use rusqlite::Connection;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::contract::{CreatedLease, Lease, NewLease, OnEnd};
use super::url::Advertised;
use super::{LeaseError, SecretFiles};
use crate::branch::{BranchError, BranchSpec, Branches};
use crate::error::UserFacingError;
use crate::gate::{Capabilities, Capability};
use crate::session::{Authority, Backend, BackendAddress, Grant, LeaseEnd, Life, ReachError};
use crate::state::branch::{self, BranchState};
use crate::state::lease::{self as rows, LeaseRow, LeaseState};
use crate::state::{State, StateError, outbox, snapshot};
use crate::wire::scram::Verifier;

/// The word of the outbox for what the end of a lease brings.
const END: &str = "lease.end";
/// The longest text of a run or a revision.
const MAX_NAME: usize = 256;
/// How long an ended lease still answers "expired" or "revoked" to whoever knows its token.
const REMEMBER_ENDED: Duration = Duration::from_hours(24);
/// The expiry task looks at least this often, so that a changed system clock is noticed.
const LONGEST_NAP: Duration = Duration::from_secs(30);

/// What the configuration says about leases.
#[derive(Debug, Clone)]
pub struct LeaseSettings {
    /// Lifetime of a lease that names none.
    pub default_ttl: Duration,
    /// The longest lifetime a lease may ask for.
    pub max_ttl: Duration,
    /// Connections per lease.
    pub max_connections: u32,
    /// What stands in URLs.
    pub advertised: Advertised,
}

/// All leases of a data directory.
pub struct Leases {
    state: State,
    branches: Branches,
    secrets: SecretFiles,
    settings: RwLock<LeaseSettings>,
    live: DashMap<String, Arc<Entry>>,
    /// Woken when the earliest expiry may have changed.
    changed: Notify,
}

/// A lease in memory, with the signals its sessions listen to.
struct Entry {
    grant: Arc<Grant>,
    expires_at: Mutex<SystemTime>,
    /// Serializes renewal and ending of this one lease.
    lease: AsyncMutex<Lease>,
}

impl Leases {
    /// Reads the leases from the state, finishes endings that were cut off, and forgets secrets
    /// that belong to no active lease (a creation that was cut off leaves nothing else).
    pub async fn open(
        state: State,
        branches: Branches,
        secrets: SecretFiles,
        settings: LeaseSettings,
    ) -> Result<Self, LeaseError> {
        let leases = Self {
            state,
            branches,
            secrets,
            settings: RwLock::new(settings),
            live: DashMap::new(),
            changed: Notify::new(),
        };
        let rows = leases
            .state
            .call(|db| {
                rows::list(db, None)?
                    .into_iter()
                    .map(|row| named(db, row))
                    .collect::<Result<Vec<_>, _>>()
            })
            .await?;
        let now = Timestamp::now();
        for (row, snapshot) in rows {
            let (verifier, connections) = (row.verifier.clone(), row.max_connections);
            let lease = Lease::from_row(row, snapshot)?;
            let recent = |at| now.duration_since(at).unsigned_abs() < REMEMBER_ENDED;
            if lease.ended_at.is_none_or(recent) {
                leases.remember(lease, verifier.parse()?, connections);
            }
        }
        leases.secrets.retain(|name| {
            leases.live.get(name).is_some_and(|entry| entry.grant.life.ended().is_none())
        })?;
        for intent in leases.state.call(|db| outbox::pending(db, Some(END))).await? {
            let row = {
                let id = intent.subject.clone();
                leases.state.call(move |db| rows::get(db, &id)).await?
            };
            leases.settle(intent.id, &row.id, &row.branch_id).await?;
        }
        Ok(leases)
    }

    /// Makes a lease and, unless it names one, a branch for it: both or neither.
    ///
    /// Not cancel-safe: run it in a task of its own.
    pub async fn create(&self, wanted: NewLease) -> Result<CreatedLease, LeaseError> {
        let ttl = self.ttl(wanted.ttl_seconds)?;
        checked("run", &wanted.run_id)?;
        checked("revision", &wanted.revision)?;
        if wanted.capabilities.is_empty() {
            return Err(LeaseError::invalid("capabilities", "must name at least one"));
        }
        let (branch, name) = match (&wanted.branch, &wanted.snapshot) {
            (Some(id), _) => {
                let branch = self.branches.show(id).await?;
                (Some(branch.id), branch.snapshot_id)
            }
            (None, Some(name)) => (None, name.clone()),
            (None, None) => return Err(LeaseError::invalid("snapshot", "or branch is needed")),
        };
        let snapshot = self.state.call(move |db| snapshot::get(db, &name)).await?;
        let lease_id = new_id("lease");
        let token = new_token()?;
        let now = Timestamp::now();
        let default_end = if branch.is_some() { OnEnd::Keep } else { OnEnd::Destroy };
        let lease = Lease {
            database_url_secret_ref: self.secrets.reference(&lease_id).to_string(),
            lease_id: lease_id.clone(),
            run_id: wanted.run_id,
            revision: wanted.revision,
            snapshot_id: snapshot.id,
            snapshot: snapshot.name,
            branch_id: branch.clone().unwrap_or_default(),
            database: snapshot.database,
            capabilities: wanted.capabilities,
            policy: wanted.policy,
            state: LeaseState::Active,
            on_end: wanted.on_end.unwrap_or(default_end),
            created_at: now,
            expires_at: after(now, ttl)?,
            ended_at: None,
        };
        let (advertised, max_connections) = {
            let settings = self.settings.read();
            (settings.advertised.clone(), settings.max_connections)
        };
        let verifier = Verifier::of(&token)?;
        let url = advertised.url(&lease_id, &token, &lease.database);
        // First the secret: without a lease it is forgotten at the next start, but a lease without
        // its secret would be of no use to anybody.
        self.secrets.put(&lease_id, &url)?;
        let row = lease.to_row(verifier.to_string(), max_connections);
        match self.write_down(branch.is_none(), lease, row).await {
            Ok(lease) => {
                self.remember(lease.clone(), verifier, max_connections);
                self.changed.notify_one();
                Ok(CreatedLease { lease, database_url: url.expose_secret().to_owned() })
            }
            Err(error) => {
                self.secrets.remove(&lease_id)?;
                Err(error)
            }
        }
    }

    /// Makes the branch where one is needed, and the lease in the same transaction.
    async fn write_down(
        &self,
        new_branch: bool,
        mut lease: Lease,
        mut row: LeaseRow,
    ) -> Result<Lease, LeaseError> {
        if new_branch {
            let read_only = lease.capabilities.is_read_only();
            let spec = BranchSpec { read_only, ..BranchSpec::default() };
            let made = self
                .branches
                .create(&lease.snapshot_id, spec, move |db, branch| {
                    row.branch_id.clone_from(&branch.id);
                    rows::insert(db, &row)
                })
                .await?;
            lease.branch_id = made.id;
        } else {
            self.state
                .call(move |db| {
                    let branch = branch::get(db, &row.branch_id)?;
                    if matches!(branch.state, BranchState::Destroying | BranchState::Failed) {
                        let state = branch.state.as_str();
                        return Err(StateError::Conflict(format!(
                            "branch {} is {state}",
                            branch.id
                        )));
                    }
                    rows::insert(db, &row)
                })
                .await?;
        }
        Ok(lease)
    }

    fn remember(&self, lease: Lease, verifier: Verifier, max_connections: u32) {
        let grant = Arc::new(Grant {
            lease: lease.lease_id.clone(),
            run: lease.run_id.clone(),
            revision: lease.revision.clone(),
            branch: lease.branch_id.clone(),
            verifier,
            capabilities: lease.capabilities,
            policy: lease.policy.clone(),
            database: lease.database.clone(),
            max_connections,
            life: Life::new(lease_end(lease.state)),
        });
        let id = lease.lease_id.clone();
        let expires_at = Mutex::new(SystemTime::from(lease.expires_at));
        let entry = Arc::new(Entry { grant, expires_at, lease: AsyncMutex::new(lease) });
        self.live.insert(id, entry);
    }

    /// The leases, newest first; ended ones only when `all`.
    pub async fn list(&self, all: bool) -> Result<Vec<Lease>, LeaseError> {
        let state = (!all).then_some(LeaseState::Active);
        let rows = self
            .state
            .call(move |db| {
                rows::list(db, state)?
                    .into_iter()
                    .map(|row| named(db, row))
                    .collect::<Result<Vec<_>, _>>()
            })
            .await?;
        rows.into_iter().rev().map(|(row, snapshot)| Lease::from_row(row, snapshot)).collect()
    }

    /// One lease.
    pub async fn show(&self, id: &str) -> Result<Lease, LeaseError> {
        let wanted = id.to_owned();
        let found = self
            .state
            .call(move |db| rows::find(db, &wanted)?.map(|row| named(db, row)).transpose())
            .await?;
        let (row, snapshot) = found.ok_or_else(|| LeaseError::Unknown(id.to_owned()))?;
        Lease::from_row(row, snapshot)
    }

    /// Gives an active lease `ttl` from now on.
    pub async fn renew(&self, id: &str, ttl_seconds: Option<u64>) -> Result<Lease, LeaseError> {
        let ttl = self.ttl(ttl_seconds)?;
        let entry = self.active(id).await?;
        let mut lease = entry.lease.lock().await;
        let expires_at = after(Timestamp::now(), ttl)?;
        let wanted = id.to_owned();
        let at = expires_at.as_millisecond();
        if !self.state.call(move |db| rows::renew(db, &wanted, at)).await? {
            return Err(over(&lease));
        }
        lease.expires_at = expires_at;
        *entry.expires_at.lock() = SystemTime::from(expires_at);
        self.changed.notify_one();
        Ok(lease.clone())
    }

    /// Ends a lease: no login any more, its sessions are closed, its branch goes the way `on_end`
    /// says when no other lease is on it. Ending an ended lease changes nothing.
    ///
    /// Not cancel-safe: run it in a task of its own.
    pub async fn revoke(&self, id: &str) -> Result<Lease, LeaseError> {
        match self.entry(id) {
            Some(entry) => self.end(&entry, LeaseState::Revoked).await,
            None => self.show(id).await,
        }
    }

    async fn end(&self, entry: &Entry, state: LeaseState) -> Result<Lease, LeaseError> {
        let mut lease = entry.lease.lock().await;
        if lease.state != LeaseState::Active {
            return Ok(lease.clone());
        }
        let id = lease.lease_id.clone();
        let intent = self
            .state
            .call(move |db| {
                rows::end(db, &id, state, state.as_str())?;
                outbox::intend(db, END, &id, &())
            })
            .await?;
        lease.state = state;
        lease.ended_at = Some(Timestamp::now());
        if let Some(end) = lease_end(state) {
            entry.grant.life.end(end);
        }
        tracing::info!(lease = %lease.lease_id, state = state.as_str(), "lease ended");
        self.settle(intent, &lease.lease_id, &lease.branch_id).await?;
        Ok(lease.clone())
    }

    /// Does what the end of a lease brings: its secret goes, and its branch when it was the last
    /// one there. The strongest wish of all leases that ever were on the branch counts.
    async fn settle(&self, intent: i64, lease_id: &str, branch_id: &str) -> Result<(), LeaseError> {
        self.secrets.remove(lease_id)?;
        let branch = branch_id.to_owned();
        let on_branch = self.state.call(move |db| rows::on_branch(db, &branch)).await?;
        if on_branch.iter().all(|row| row.state != LeaseState::Active) {
            let wished = |wish: OnEnd| on_branch.iter().any(|row| row.on_end == wish.as_str());
            if wished(OnEnd::Destroy) {
                gone_is_fine(self.branches.destroy(branch_id).await)?;
            } else if wished(OnEnd::Stop) {
                gone_is_fine(self.branches.stop(branch_id).await)?;
            }
        }
        Ok(self.state.call(move |db| outbox::done(db, intent)).await?)
    }

    /// The `DATABASE_URL` of an active lease.
    pub async fn url(&self, id: &str) -> Result<SecretString, LeaseError> {
        self.active(id).await?;
        Ok(self.secrets.reference(id).resolve()?)
    }

    /// Takes over new settings; leases that are there keep their lifetimes.
    pub fn set_settings(&self, settings: LeaseSettings) {
        *self.settings.write() = settings;
    }

    /// Ends leases when their time is over, until `stop`. Cancel-safe: an ending that was cut off
    /// is finished at the next start.
    pub async fn expire(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let now = SystemTime::now();
            let mut next = now + LONGEST_NAP;
            let mut due = Vec::new();
            for entry in &self.live {
                if entry.grant.life.ended().is_some() {
                    continue;
                }
                let at = *entry.expires_at.lock();
                if at <= now {
                    due.push(Arc::clone(&entry));
                } else {
                    next = next.min(at);
                }
            }
            for entry in due {
                let this = Arc::clone(&self);
                tokio::spawn(async move {
                    if let Err(error) = this.end(&entry, LeaseState::Expired).await {
                        tracing::error!(%error, "an expired lease could not be ended cleanly");
                    }
                });
            }
            let nap = next.duration_since(now).unwrap_or_default().max(Duration::from_millis(5));
            tokio::select! {
                () = tokio::time::sleep(nap) => {}
                () = self.changed.notified() => {}
                () = stop.cancelled() => return,
            }
        }
    }

    fn entry(&self, id: &str) -> Option<Arc<Entry>> {
        self.live.get(id).map(|entry| Arc::clone(&entry))
    }

    async fn active(&self, id: &str) -> Result<Arc<Entry>, LeaseError> {
        let Some(entry) = self.entry(id) else {
            return Err(over(&self.show(id).await?));
        };
        let lease = entry.lease.lock().await;
        if lease.state != LeaseState::Active {
            return Err(over(&lease));
        }
        drop(lease);
        Ok(entry)
    }

    fn ttl(&self, seconds: Option<u64>) -> Result<Duration, LeaseError> {
        let settings = self.settings.read();
        let ttl = seconds.map_or(settings.default_ttl, Duration::from_secs);
        if ttl.is_zero() {
            return Err(LeaseError::invalid("ttl", "must be longer than nothing"));
        }
        if ttl > settings.max_ttl {
            let most = humantime::format_duration(settings.max_ttl);
            return Err(LeaseError::invalid(
                "ttl",
                format!("is longer than leases.max_ttl, which is {most}"),
            ));
        }
        Ok(ttl)
    }
}

impl Authority for Leases {
    fn find(&self, user: &str) -> Option<Arc<Grant>> {
        self.live.get(user).map(|entry| Arc::clone(&entry.grant))
    }

    async fn reach(&self, grant: &Arc<Grant>) -> Result<Backend, ReachError> {
        let writes = !grant.capabilities.is_read_only();
        let endpoint = self.branches.enter(&grant.branch, writes).await.map_err(|error| {
            tracing::warn!(branch = %grant.branch, %error, "a branch could not be reached");
            ReachError {
                kind: error.kind(),
                sqlstate: error.sqlstate(),
                message: error.message(),
                hint: error.hint(),
            }
        })?;
        Ok(Backend {
            address: BackendAddress::Unix(endpoint.socket),
            role: role_of(grant.capabilities).to_owned(),
            database: endpoint.database,
            password: None,
        })
    }

    fn left(&self, grant: &Arc<Grant>) {
        self.branches.leave(&grant.branch);
    }
}

/// A branch that is not there any more needs no ending.
fn gone_is_fine(result: Result<(), BranchError>) -> Result<(), BranchError> {
    match result {
        Err(BranchError::State(StateError::NotFound { .. }) | BranchError::Gone { .. }) => Ok(()),
        other => other,
    }
}

/// The login role of a lease's class: that of the strongest thing it may do.
fn role_of(capabilities: Capabilities) -> &'static str {
    if capabilities.has(Capability::Migrate) {
        "postern_migrate"
    } else if capabilities.has(Capability::Write) {
        "postern_write"
    } else {
        "postern_read"
    }
}

fn lease_end(state: LeaseState) -> Option<LeaseEnd> {
    match state {
        LeaseState::Active => None,
        LeaseState::Expired => Some(LeaseEnd::Expired),
        LeaseState::Revoked => Some(LeaseEnd::Revoked),
    }
}

/// A row with the name of its snapshot, or its id when it is gone.
fn named(db: &Connection, row: LeaseRow) -> Result<(LeaseRow, String), StateError> {
    let name = snapshot::find(db, &row.snapshot_id)?.map(|snapshot| snapshot.name);
    let name = name.unwrap_or_else(|| row.snapshot_id.clone());
    Ok((row, name))
}

fn over(lease: &Lease) -> LeaseError {
    LeaseError::Over { id: lease.lease_id.clone(), state: lease.state.as_str() }
}

fn after(now: Timestamp, ttl: Duration) -> Result<Timestamp, LeaseError> {
    now.checked_add(ttl).map_err(|_| LeaseError::invalid("ttl", "ends after the end of time"))
}

fn checked(field: &'static str, text: &str) -> Result<(), LeaseError> {
    if text.trim().is_empty() {
        return Err(LeaseError::invalid(field, "must not be empty"));
    }
    if text.len() > MAX_NAME {
        return Err(LeaseError::invalid(field, format!("is longer than {MAX_NAME} bytes")));
    }
    if text.chars().any(char::is_control) {
        return Err(LeaseError::invalid(field, "must not hold control characters"));
    }
    Ok(())
}

/// `PREFIX_` and a version 7 UUID: unique, sortable by time, and usable unquoted as a role name
/// and in a URL.
pub fn new_id(prefix: &str) -> String {
    format!("{prefix}_{}", Uuid::now_v7().simple())
}

/// 256 random bits.
fn new_token() -> Result<SecretString, LeaseError> {
    let mut bytes = [0_u8; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| LeaseError::NoRandom)?;
    Ok(SecretString::from(URL_SAFE_NO_PAD.encode(bytes)))
}
