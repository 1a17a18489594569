//! Events: what a record can be about. The codes are stable; programs may rely on them.

use std::time::SystemTime;

use super::encode;

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal,)*) => {
        /// What a record is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum EventCode {
            $($(#[doc = $doc])* $name,)*
        }

        impl EventCode {
            /// All codes.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The word in the log.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)*
                }
            }
        }
    };
}

codes! {
    /// A client is authenticated and admitted.
    SessionStart = "session.start",
    /// Its connection is over.
    SessionEnd = "session.end",
    /// A client could not prove who it is, or may not come in.
    AuthFailure = "auth.failure",
    /// A CancelRequest came.
    Cancel = "cancel",
    /// A statement is about to be sent to the server.
    Statement = "statement",
    /// A COPY is about to be sent.
    Copy = "copy",
    /// A FunctionCall is about to be sent.
    FunctionCall = "function_call",
    /// What came of one of these three.
    StatementEnd = "statement.end",
    /// A statement was refused and not sent.
    Denial = "denial",
    /// A plan that the server reported.
    Plan = "plan",
    /// A lease was made.
    LeaseCreated = "lease.created",
    /// A lease lives longer than it was to.
    LeaseRenewed = "lease.renewed",
    /// A restarted worker got its lease again, with a new credential.
    LeaseResumed = "lease.resumed",
    /// A lease was ended.
    LeaseRevoked = "lease.revoked",
    /// A lease's lifetime is over.
    LeaseExpired = "lease.expired",
    /// A snapshot was sealed.
    SnapshotSealed = "snapshot.sealed",
    /// A snapshot was removed.
    SnapshotRemoved = "snapshot.removed",
    /// A branch was made.
    BranchCreated = "branch.created",
    /// A branch's server runs.
    BranchStarted = "branch.started",
    /// A branch's server was stopped.
    BranchStopped = "branch.stopped",
    /// A branch's server ended by itself.
    BranchFailed = "branch.failed",
    /// A branch was reset.
    BranchReset = "branch.reset",
    /// A branch's state got a name.
    BranchCheckpoint = "branch.checkpoint",
    /// A branch went back to a checkpoint.
    BranchRestored = "branch.restored",
    /// A branch is gone.
    BranchDestroyed = "branch.destroyed",
    /// A migration file was applied.
    MigrationApplied = "migration.applied",
    /// A migration file failed.
    MigrationFailed = "migration.failed",
    /// A budget was used up.
    BudgetExceeded = "budget.exceeded",
    /// Policies were loaded again.
    PolicyReloaded = "policy.reloaded",
    /// A segment begins; the record is signed.
    LogSegment = "log.segment",
    /// The log was opened after it had been closed in order.
    LogOpened = "log.opened",
    /// The log was opened after it had not.
    LogRecovered = "log.recovered",
    /// A try whether the log can be written again.
    LogProbe = "log.probe",
    /// The log can be written again.
    LogResumed = "log.resumed",
    /// Old segments are about to be removed.
    LogRetention = "log.retention",
    /// The log was closed in order.
    LogClosed = "log.closed",
}

impl EventCode {
    /// Is this the first of two records?
    pub const fn is_intent(self) -> bool {
        matches!(self, Self::Statement | Self::Copy | Self::FunctionCall)
    }
}

/// An event outside of a session's statements: leases, branches, logins, cancels.
#[derive(Debug, Clone)]
pub struct Event(Vec<u8>);

impl Event {
    /// An event that happens now.
    pub fn new(code: EventCode) -> Self {
        let mut body = Vec::with_capacity(256);
        encode::begin(&mut body, encode::micros(SystemTime::now()), code.as_str());
        Self(body)
    }

    /// The lease it is about.
    #[must_use]
    pub fn lease(self, lease: &str) -> Self {
        self.text("postern.lease", lease)
    }

    /// The branch it is about.
    #[must_use]
    pub fn branch(self, branch: &str) -> Self {
        self.text("postern.branch", branch)
    }

    /// The run it is about.
    #[must_use]
    pub fn run(self, run: &str) -> Self {
        self.text("postern.run", run)
    }

    /// One more fact. Ids come first (`lease`, `branch`, `run`), each key once, no secret.
    #[must_use]
    pub fn text(mut self, key: &'static str, value: &str) -> Self {
        encode::text(&mut self.0, key, value);
        self
    }

    /// One more fact that is a number.
    #[must_use]
    pub fn number(mut self, key: &'static str, value: u64) -> Self {
        encode::number(&mut self.0, key, value);
        self
    }

    /// One more fact that is a list.
    #[must_use]
    pub fn list<S: AsRef<str>>(mut self, key: &'static str, values: &[S]) -> Self {
        encode::list(&mut self.0, key, values);
        self
    }

    /// One more fact of any form.
    #[must_use]
    pub fn json(mut self, key: &'static str, value: &serde_json::Value) -> Self {
        encode::key(&mut self.0, key);
        self.0.extend_from_slice(value.to_string().as_bytes());
        self
    }

    /// A login that failed. `user` is what the client said it is; `reason` is a fixed word.
    pub fn auth_failure(user: &[u8], client: Option<std::net::IpAddr>, reason: &str) -> Self {
        let user = &user[..user.len().min(64)];
        let mut event = Self::new(EventCode::AuthFailure).text("postern.reason", reason);
        encode::key(&mut event.0, "postern.user");
        encode::string(&mut event.0, user);
        event.client(client)
    }

    /// A CancelRequest. `session` is whose statement it cancels, if its key is right.
    pub fn cancel(session: Option<&str>, client: Option<std::net::IpAddr>) -> Self {
        let event = Self::new(EventCode::Cancel);
        match session {
            Some(session) => event.text("postern.session", session),
            None => event.text("postern.reason", "no such key"),
        }
        .client(client)
    }

    /// Where the client is; `None` on the unix socket.
    #[must_use]
    pub fn client(self, client: Option<std::net::IpAddr>) -> Self {
        match client {
            Some(address) => self.text("client.address", &address.to_string()),
            None => self.text("network.transport", "unix"),
        }
    }

    /// The record's body.
    pub(super) fn body(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn codes_are_distinct() {
        let words: HashSet<_> = EventCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(words.len(), EventCode::ALL.len());
    }

    #[test]
    fn an_event_is_json_in_the_order_of_its_facts() {
        let event = Event::new(EventCode::LeaseCreated)
            .lease("l1")
            .run("a \"run\"")
            .number("postern.ttl_s", 60)
            .list("postern.capabilities", &["read", "write"])
            .json("postern.more", &serde_json::json!({ "a": 1 }));
        let json = format!("{{{}}}", String::from_utf8(event.body().to_vec()).unwrap());
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["event"], "lease.created");
        assert_eq!(value["postern.run"], "a \"run\"");
        assert_eq!(value["postern.more"]["a"], 1);
        assert_eq!(super::super::scan::scan(event.body()).lease, "l1");
    }

    #[test]
    fn a_long_user_name_is_cut() {
        let event = Event::auth_failure(&[b'u'; 10_000], None, "unknown user");
        assert!(event.body().len() < 300);
    }
}
