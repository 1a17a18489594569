//! One session's side of the log: the hot path.
//!
//! Statements are collected with [`SessionLog::intend`] and handed over in one go with
//! [`SessionLog::poll_commit`] before their bytes are sent; [`SessionLog::complete`] tells
//! afterwards what came of each. Memory is used again and again; the only shared lock is held for
//! the time of one copy.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Instant, SystemTime};

use super::event::EventCode;
use super::log::{Evidence, Shared};
use super::queue::{Batch, Slot};
use super::redact::Hidden;
use super::statement::{Completion, Outcome, Parameter, Protocol, StatementText};
use super::tags::SessionTag;
use super::{EvidenceError, encode};

/// Whose session it is. Goes into every record of its statements.
#[derive(Debug, Clone, Copy)]
pub struct SessionContext<'a> {
    /// The session's number, unique while this postern runs.
    pub number: u64,
    /// The lease.
    pub lease: &'a str,
    /// The run.
    pub run: &'a str,
    /// The repository revision.
    pub revision: &'a str,
    /// The branch.
    pub branch: &'a str,
    /// The snapshot the branch was made from.
    pub snapshot: &'a str,
    /// The database's name.
    pub database: &'a str,
}

/// How the client came in.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionStart<'a> {
    /// Where the client is; `None` on the unix socket.
    pub client: Option<IpAddr>,
    /// Is the connection encrypted?
    pub tls: bool,
    /// `application_name`, as the client gave it.
    pub application: &'a [u8],
}

/// One session's side of the log.
pub struct SessionLog {
    shared: Arc<Shared>,
    slot: Arc<Slot>,
    batch: Batch,
    /// A commit was begun and has not been answered.
    waiting: bool,
    id: String,
    /// The keys that stand first in a record, then the others, as JSON.
    whose: Vec<u8>,
    more: Vec<u8>,
    tags: [Option<String>; 2],
    statements: u64,
    ended: bool,
}

/// A statement that was recorded and has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatementId {
    number: u64,
    started: Instant,
    hide: bool,
}

impl StatementId {
    /// Its number in the session, from 1.
    pub fn number(self) -> u64 {
        self.number
    }
}

impl fmt::Debug for SessionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionLog").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Evidence {
    /// Begins a session's part of the log. Fails when the log cannot be written at the moment, so
    /// that nobody is let in who could do nothing.
    pub fn session(
        &self,
        context: &SessionContext<'_>,
        start: &SessionStart<'_>,
    ) -> Result<SessionLog, EvidenceError> {
        let shared = Arc::clone(self.shared());
        if shared.unwell.load(Ordering::Relaxed) {
            // Perhaps it has recovered.
            self.record_blocking(&super::Event::new(EventCode::LogProbe))?;
        }
        let id = format!("{}.{}", shared.opened_at, context.number);
        let mut whose = Vec::new();
        encode::text(&mut whose, "postern.session", &id);
        encode::text(&mut whose, "postern.lease", context.lease);
        encode::text(&mut whose, "postern.branch", context.branch);
        encode::text(&mut whose, "postern.run", context.run);
        let mut more = Vec::new();
        encode::text(&mut more, "postern.revision", context.revision);
        encode::text(&mut more, "postern.snapshot", context.snapshot);
        encode::text(&mut more, "db.system.name", "postgresql");
        encode::text(&mut more, "db.namespace", context.database);
        shared.add_lazy(|out| {
            encode::begin(out, now(), EventCode::SessionStart.as_str());
            out.extend_from_slice(&whose);
            out.extend_from_slice(&more);
            match start.client {
                Some(address) => {
                    encode::text(out, "client.address", &address.to_string());
                    encode::text(out, "network.transport", "tcp");
                }
                None => encode::text(out, "network.transport", "unix"),
            }
            encode::key(out, "postern.tls");
            out.extend_from_slice(if start.tls { b"true" } else { b"false" });
            if !start.application.is_empty() {
                encode::key(out, "postern.application_name");
                let name = &start.application[..start.application.len().min(256)];
                encode::string(out, &shared.redactor.message(&Hidden::default(), name));
            }
        });
        Ok(SessionLog {
            shared,
            slot: Arc::default(),
            batch: Batch::default(),
            waiting: false,
            id,
            whose,
            more,
            tags: [None, None],
            statements: 0,
            ended: false,
        })
    }
}

impl SessionLog {
    /// The session's id in the log.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A statement is going to be sent. It is recorded by the next [`SessionLog::poll_commit`] and
    /// must not be sent before that succeeds.
    pub fn intend(
        &mut self,
        text: &StatementText,
        protocol: Protocol,
        parameters: &[Parameter<'_>],
    ) -> StatementId {
        let code = text.kind.code();
        let number = self.record(code, "allowed", text, protocol, parameters, |_| {});
        StatementId { number, started: Instant::now(), hide: text.hidden.all }
    }

    /// A statement was refused. Nothing more comes of it.
    pub fn deny(
        &mut self,
        text: &StatementText,
        protocol: Protocol,
        parameters: &[Parameter<'_>],
        sqlstate: &str,
        message: &str,
    ) {
        self.record(EventCode::Denial, "denied", text, protocol, parameters, |out| {
            encode::text(out, "db.response.status_code", sqlstate);
            encode::text(out, "postern.message", message);
        });
    }

    fn record(
        &mut self,
        code: EventCode,
        verdict: &str,
        text: &StatementText,
        protocol: Protocol,
        parameters: &[Parameter<'_>],
        more: impl FnOnce(&mut Vec<u8>),
    ) -> u64 {
        self.statements += 1;
        let number = self.statements;
        let Self { shared, batch, whose, more: context, tags, .. } = self;
        batch.push(false, |out| {
            encode::begin(out, now(), code.as_str());
            out.extend_from_slice(whose);
            encode::number(out, "postern.statement", number);
            encode::text(out, "postern.verdict", verdict);
            out.extend_from_slice(context);
            encode::text(out, "postern.protocol", protocol.as_str());
            for (tag, value) in [SessionTag::Step, SessionTag::Intent].into_iter().zip(tags) {
                if let Some(value) = value {
                    encode::text(out, tag.name(), value);
                }
            }
            out.extend_from_slice(&text.fields);
            write_parameters(out, shared, &text.hidden, parameters);
            more(out);
        });
        number
    }

    /// Makes sure that everything intended so far is recorded. Ready at once when nobody else is
    /// writing; else the waker is called. After an error nothing of it is recorded and nothing of
    /// it may be sent. Cancel-safe: a commit that was begun goes on, and the next call hears of it.
    pub fn poll_commit(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), EvidenceError>> {
        let poll = if self.waiting {
            self.slot.poll(cx.waker())
        } else if self.batch.is_empty() {
            Poll::Ready(Ok(()))
        } else {
            self.shared.submit(&mut self.batch, &self.slot, cx.waker())
        };
        self.waiting = poll.is_pending();
        poll
    }

    /// What came of a statement. Costs no system call: it is written with the next group or
    /// shortly after.
    pub fn complete(&self, statement: StatementId, completion: &Completion<'_>) {
        let hidden = Hidden { all: statement.hide, ..Hidden::default() };
        let message = self.shared.redactor.message(&hidden, completion.message);
        let at = now();
        self.shared.add_lazy(|out| {
            encode::begin(out, at, EventCode::StatementEnd.as_str());
            encode::text(out, "postern.session", &self.id);
            encode::number(out, "postern.statement", statement.number);
            completion.write(out, statement.started, &message);
        });
    }

    /// What the agent says it is doing, for all statements from now on.
    pub fn set_tag(&mut self, tag: SessionTag, value: Option<&str>) {
        let shown = value.map(|value| {
            let value = self.shared.redactor.message(&Hidden::default(), value.as_bytes());
            String::from_utf8_lossy(&value).chars().take(1024).collect()
        });
        self.tags[tag as usize] = shown;
    }

    /// A plan that the server reported for one of the session's statements. Its id is
    /// `<session>.<statement>`, with `.n` behind it from the second plan on.
    pub fn plan(&self, statement: StatementId, plan_id: &str, mut plan: serde_json::Value) {
        let hidden = Hidden { all: statement.hide, ..Hidden::default() };
        self.shared.redactor.plan(&hidden, &mut plan);
        self.shared.add_lazy(|out| {
            encode::begin(out, now(), EventCode::Plan.as_str());
            encode::text(out, "postern.session", &self.id);
            encode::number(out, "postern.statement", statement.number);
            encode::text(out, "postern.plan", plan_id);
            encode::key(out, "postern.plan_json");
            out.extend_from_slice(plan.to_string().as_bytes());
        });
    }

    /// The session is over. `reason` is a fixed word; `open` are statements without an answer.
    pub fn end(&mut self, reason: &str, open: &[StatementId]) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        for statement in open {
            self.complete(*statement, &Completion::new(Outcome::Lost));
        }
        self.shared.add_lazy(|out| {
            encode::begin(out, now(), EventCode::SessionEnd.as_str());
            out.extend_from_slice(&self.whose);
            encode::text(out, "postern.reason", reason);
            encode::number(out, "postern.statements", self.statements);
        });
    }
}

impl Drop for SessionLog {
    fn drop(&mut self) {
        self.end("dropped", &[]);
    }
}

fn now() -> u64 {
    encode::micros(SystemTime::now())
}

fn write_parameters(
    out: &mut Vec<u8>,
    shared: &Shared,
    hidden: &Hidden,
    parameters: &[Parameter<'_>],
) {
    for (i, parameter) in parameters.iter().enumerate() {
        out.extend_from_slice(b",\"db.query.parameter.");
        encode::digits(out, i as u64);
        out.extend_from_slice(b"\":");
        let Some(value) = parameter.value else {
            out.extend_from_slice(b"null");
            continue;
        };
        let shown = shared.redactor.parameter(hidden, i + 1, value);
        let changed = matches!(shown, std::borrow::Cow::Owned(_));
        let cut = parameter.length > value.len();
        let text = changed || (!parameter.binary && std::str::from_utf8(&shown).is_ok());
        if text && !cut {
            encode::string(out, &shown);
            continue;
        }
        out.extend_from_slice(if text { b"{\"text\":" } else { b"{\"base64\":" });
        if text {
            encode::string(out, &shown);
        } else {
            encode::bytes(out, &shown);
        }
        if cut {
            encode::number(out, "bytes", parameter.length as u64);
        }
        out.push(b'}');
    }
    if parameters.iter().any(|parameter| parameter.type_oid != 0) {
        encode::key(out, "postern.parameter_types");
        out.push(b'[');
        for (i, parameter) in parameters.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            encode::digits(out, u64::from(parameter.type_oid));
        }
        out.push(b']');
    }
}
