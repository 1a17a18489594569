//! What a run did, in figures.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::join::LogEvent;

/// What a run did, in figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSummary {
    /// The run.
    pub run_id: String,
    /// The revisions it worked on.
    pub revisions: BTreeSet<String>,
    /// Its leases.
    pub leases: BTreeSet<String>,
    /// Its branches.
    pub branches: BTreeSet<String>,
    /// Its sessions.
    pub sessions: BTreeSet<String>,
    /// When the first event was.
    pub first: String,
    /// When the last began.
    pub last: String,
    /// Statements that were sent.
    pub statements: u64,
    /// Statements that were refused.
    pub denied: u64,
    /// Statements that the server raised an error for.
    pub failed: u64,
    /// Statements without an answer in the log.
    pub unanswered: u64,
    /// Rows that were returned.
    pub rows: u64,
    /// Bytes of rows and COPY data, to the client and from it.
    pub bytes: u64,
    /// CPU time of statements, in microseconds, as far as it was metered.
    pub cpu_us: u64,
    /// Time that statements took, in microseconds.
    pub duration_us: u64,
    /// Plans that were filed.
    pub plans: u64,
    /// Migration files that were applied.
    pub migrations: u64,
    /// Checkpoints that were made.
    pub checkpoints: u64,
    /// Statements by the step the agent said it was at.
    pub steps: BTreeMap<String, u64>,
}

impl RunSummary {
    /// Nothing yet.
    pub fn new(run: &str) -> Self {
        Self { run_id: run.to_owned(), ..Self::default() }
    }

    /// Counts one event of the run.
    pub fn add(&mut self, event: &LogEvent) {
        for (set, key) in [
            (&mut self.revisions, "postern.revision"),
            (&mut self.leases, "postern.lease"),
            (&mut self.branches, "postern.branch"),
            (&mut self.sessions, "postern.session"),
        ] {
            let value = event.text(key);
            if !value.is_empty() && !set.contains(value) {
                set.insert(value.to_owned());
            }
        }
        let time = event.text("time");
        if self.first.is_empty() {
            time.clone_into(&mut self.first);
        }
        time.clone_into(&mut self.last);
        match event.code() {
            "denial" => self.denied += 1,
            "statement" | "copy" | "function_call" => {
                match event.text("postern.outcome") {
                    "skipped" => return,
                    "error" => self.failed += 1,
                    "unanswered" | "lost" => self.unanswered += 1,
                    _ => {}
                }
                self.statements += 1;
            }
            "plan" => self.plans += 1,
            "migration.applied" => self.migrations += 1,
            "branch.checkpoint" => self.checkpoints += 1,
            _ => {}
        }
        let number = |key| event.number(key).unwrap_or(0);
        self.rows += number("db.response.returned_rows");
        self.bytes += number("postern.bytes_to_client") + number("postern.bytes_from_client");
        self.cpu_us += number("postern.cpu_us");
        self.duration_us += number("postern.duration_us");
        if event.is_statement() {
            let step = event.text("postern.step");
            if !step.is_empty() {
                *self.steps.entry(step.to_owned()).or_default() += 1;
            }
        }
    }
}
