//! Who is connected, and whose cancel key is whose.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::SystemTime;

use dashmap::DashMap;
use subtle::ConstantTimeEq;

use super::Grant;
use super::backend::CancelTarget;
use super::control::{Activity, Control, Order};

/// The sessions of a proxy.
#[derive(Default)]
pub struct Registry {
    sessions: DashMap<u64, Entry>,
    /// By the process id that the client was given. Servers on different machines may share one.
    cancel: DashMap<u32, Vec<Cancel>>,
    next: AtomicU64,
    count: AtomicUsize,
}

struct Entry {
    info: SessionInfo,
    control: Arc<Control>,
}

struct Cancel {
    session: u64,
    key: Vec<u8>,
    target: Arc<CancelTarget>,
}

/// A session as it is shown.
#[derive(Debug, Clone)]
pub struct SessionInfo {
    /// Its number.
    pub id: u64,
    /// Its lease.
    pub lease: String,
    /// Its branch.
    pub branch: String,
    /// The server process.
    pub pid: u32,
    /// Where the client is.
    pub client: String,
    /// Since when.
    pub since: SystemTime,
    /// What it is doing.
    pub activity: Activity,
}

impl Registry {
    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All sessions.
    pub fn list(&self) -> Vec<SessionInfo> {
        self.sessions
            .iter()
            .map(|entry| SessionInfo { activity: entry.control.activity(), ..entry.info.clone() })
            .collect()
    }

    /// Gives all sessions an order.
    pub fn order_all(&self, order: Order) {
        for entry in &self.sessions {
            entry.control.order(order);
        }
    }

    /// Takes a place for a session, unless all `most` are taken. The place goes with the value.
    pub fn seat(self: &Arc<Self>, most: usize) -> Option<Seat> {
        let taken = self.count.fetch_add(1, Ordering::AcqRel);
        let seat = Seat {
            registry: Arc::clone(self),
            id: self.next.fetch_add(1, Ordering::Relaxed),
            control: Arc::default(),
            grant: None,
            pid: None,
        };
        (taken < most).then_some(seat)
    }

    /// What a `CancelRequest` with this key is for. Keys are compared in constant time.
    pub fn cancel_target(&self, pid: u32, key: &[u8]) -> Option<Arc<CancelTarget>> {
        let entries = self.cancel.get(&pid)?;
        let mut found = None;
        for entry in entries.iter() {
            if bool::from(entry.key.ct_eq(key)) {
                found = Some(Arc::clone(&entry.target));
            }
        }
        found
    }
}

/// A session's place in the registry and in its lease.
pub struct Seat {
    registry: Arc<Registry>,
    id: u64,
    /// How the session is told to end.
    pub control: Arc<Control>,
    grant: Option<Arc<Grant>>,
    pid: Option<u32>,
}

impl Seat {
    /// The session's number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The session now counts for this lease, which has admitted it.
    pub fn belongs_to(&mut self, grant: Arc<Grant>) {
        self.grant = Some(grant);
    }

    /// The session is ready: it is listed, and its key cancels.
    pub fn ready(&mut self, client: String, pid: u32, key: Vec<u8>, target: Arc<CancelTarget>) {
        self.pid = Some(pid);
        self.registry.cancel.entry(pid).or_default().push(Cancel { session: self.id, key, target });
        let grant = self.grant.as_ref();
        let info = SessionInfo {
            id: self.id,
            lease: grant.map(|g| g.lease.clone()).unwrap_or_default(),
            branch: grant.map(|g| g.branch.clone()).unwrap_or_default(),
            pid,
            client,
            since: SystemTime::now(),
            activity: Activity::Starting,
        };
        let entry = Entry { info, control: Arc::clone(&self.control) };
        self.registry.sessions.insert(self.id, entry);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.registry.sessions.remove(&self.id);
        if let Some(pid) = self.pid {
            if let Some(mut entries) = self.registry.cancel.get_mut(&pid) {
                entries.retain(|entry| entry.session != self.id);
            }
            self.registry.cancel.remove_if(&pid, |_, entries| entries.is_empty());
        }
        if let Some(grant) = &self.grant {
            grant.life.leave(&self.control);
        }
        self.registry.count.fetch_sub(1, Ordering::AcqRel);
    }
}
