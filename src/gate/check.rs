//! What `postern policy` shows: verdicts explained, and cases held against the gate.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use super::capability::{Capabilities, Capability};
use super::class::{Class, Classes};
use super::facts::Piece;
use super::gate::{Gate, Subject};
use super::policy::{PolicySet, RuleRef};
use crate::error::UserFacingError as _;

/// What `postern policy check` found in a valid folder.
#[derive(Debug, Clone, Serialize)]
pub struct Checked {
    /// Its policies.
    pub policies: Vec<CheckedPolicy>,
}

/// One policy of a valid folder.
#[derive(Debug, Clone, Serialize)]
pub struct CheckedPolicy {
    /// Its name.
    pub name: String,
    /// Its file.
    pub file: String,
    /// The capabilities it serves.
    pub serves: Capabilities,
    /// Is it in force without being named?
    pub default: bool,
    /// How many rules it has.
    pub rules: usize,
}

impl Checked {
    /// The contents of a folder.
    pub fn of(set: &PolicySet) -> Self {
        let policies = set
            .iter()
            .map(|policy| CheckedPolicy {
                name: policy.name.clone(),
                file: policy.file.clone(),
                serves: policy.serves,
                default: policy.is_default,
                rules: policy.rules.len(),
            })
            .collect();
        Self { policies }
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for policy in &self.policies {
            let default = if policy.default { "" } else { ", by name only" };
            let rules = if policy.rules == 1 { "rule" } else { "rules" };
            writeln!(
                f,
                "{}: {} {rules} for {}{default} ({})",
                policy.name, policy.rules, policy.serves, policy.file
            )?;
        }
        Ok(())
    }
}

/// What `postern policy explain` shows.
#[derive(Debug, Clone, Serialize)]
pub struct Explanation {
    /// Would it be forwarded?
    pub allow: bool,
    /// The classes it needs.
    pub classes: Classes,
    /// How many statements it is.
    pub statements: usize,
    /// The rule that decided.
    pub rule: RuleRef,
    /// Its statements.
    pub pieces: Vec<Piece>,
    /// What the client would be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ToldError>,
}

/// An error as a client sees it.
#[derive(Debug, Clone, Serialize)]
pub struct ToldError {
    /// SQLSTATE
    pub code: String,
    /// MESSAGE
    pub message: String,
    /// DETAIL
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// HINT
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// POSITION, in characters from 1
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
}

/// Explains what the gate would say to a lease with these capabilities.
pub fn explain(gate: &Gate, subject: &Subject<'_>, sql: &[u8]) -> Explanation {
    let verdict = gate.examine(subject, sql);
    let error = verdict.denial("…").map(|denial| ToldError {
        code: denial.sqlstate.to_string(),
        message: denial.message(),
        detail: denial.detail(),
        hint: denial.hint(),
        position: denial.position,
    });
    Explanation {
        allow: verdict.allow,
        classes: verdict.classes,
        statements: verdict.facts.statements,
        rule: verdict.rule,
        pieces: verdict.facts.pieces,
        error,
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, piece) in self.pieces.iter().enumerate() {
            writeln!(f, "statement {}: {}, needs {}", i + 1, piece.kind, piece.classes)?;
            if !piece.inner.is_empty() {
                writeln!(f, "  inside: {}", joined(&piece.inner))?;
            }
            if let Some(because) = &piece.because {
                writeln!(f, "  because of: {because}")?;
            }
            for (what, names) in [
                ("tables", &piece.tables),
                ("columns", &piece.columns),
                ("functions", &piece.functions),
            ] {
                if !names.is_empty() {
                    writeln!(f, "  {what}: {}", joined(names))?;
                }
            }
            if !piece.settings.is_empty() {
                writeln!(f, "  settings: {}", piece.settings.join(", "))?;
            }
            if piece.names_read == Some(false) {
                writeln!(f, "  names: not read to the end")?;
            }
        }
        let verdict = if self.allow { "allowed" } else { "denied" };
        writeln!(f, "{verdict} by rule {} ({})", self.rule.id, self.rule.file)?;
        if let Some(error) = &self.error {
            writeln!(f, "ERROR:  {}: {}", error.code, error.message)?;
            for (what, text) in [("DETAIL", &error.detail), ("HINT", &error.hint)] {
                if let Some(text) = text {
                    writeln!(f, "{what}:  {text}")?;
                }
            }
        }
        Ok(())
    }
}

fn joined<T: fmt::Display>(list: &[T]) -> String {
    let mut out = String::new();
    for (i, item) in list.iter().enumerate() {
        let _ = write!(out, "{}{item}", if i > 0 { ", " } else { "" });
    }
    out
}

/// One line of a file of cases; `tests/cases/README.md` explains the keys.
#[derive(Debug, Clone, Deserialize)]
struct Case {
    id: String,
    sql: String,
    needs: Vec<Class>,
    statements: usize,
    #[serde(default)]
    stop: Stop,
    #[serde(default)]
    invalid: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Stop {
    #[default]
    Gate,
    Server,
}

/// What `postern policy test` found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Tested {
    /// How many cases are right.
    pub passed: usize,
    /// How many are not.
    pub failed: usize,
    /// What is wrong, case by case.
    pub differences: Vec<Difference>,
}

/// What is wrong about one case.
#[derive(Debug, Clone, Serialize)]
pub struct Difference {
    /// The case, or the line where it has no name.
    pub id: String,
    /// What differs, one sentence each.
    pub what: Vec<String>,
}

/// Holds the cases of a JSON-lines text against the gate: classes, number of statements, and the
/// verdicts for a lease that has just what the case needs and for leases that have less.
pub fn test(gate: &Gate, cases: &str) -> Tested {
    let mut tested = Tested::default();
    for (number, line) in cases.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let (id, what) = match serde_json::from_str::<Case>(line) {
            Ok(case) => (case.id.clone(), differences(gate, &case)),
            Err(error) => (format!("line {}", number + 1), vec![error.to_string()]),
        };
        if what.is_empty() {
            tested.passed += 1;
        } else {
            tested.failed += 1;
            tested.differences.push(Difference { id, what });
        }
    }
    tested
}

impl fmt::Display for Tested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for difference in &self.differences {
            for what in &difference.what {
                writeln!(f, "{}: {what}", difference.id)?;
            }
        }
        writeln!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

fn differences(gate: &Gate, case: &Case) -> Vec<String> {
    let mut out = Vec::new();
    let needs: Classes = case.needs.iter().copied().collect();
    let verdict = gate.decide(&Subject::new(Capabilities::ALL, None), case.sql.as_bytes());
    // What the server refuses as a syntax error may be refused here or there.
    if case.invalid {
        return out;
    }
    let found = verdict.classes;
    let admin = needs.has(Class::Admin);
    let right = match (admin, case.stop) {
        (true, _) => found.has(Class::Admin),
        (_, Stop::Server) => needs.within(found),
        (_, Stop::Gate) => found == needs || (needs.is_empty() && found.within(Classes::SESSION)),
    };
    if !right {
        out.push(format!("needs {{{needs}}}, the gate found {{{found}}}"));
    }
    if verdict.facts.statements != case.statements {
        out.push(format!(
            "has {} statements, the gate found {}",
            case.statements, verdict.facts.statements
        ));
    }
    let enough = enough(needs);
    for lease in all_leases() {
        let has_all = enough.iter().all(|c| lease.has(*c));
        let expected = !admin && has_all;
        let allowed = gate.decide(&Subject::new(lease, None), case.sql.as_bytes()).allow;
        // Where the server is the one that stops it, the gate may be stricter.
        if allowed != expected && !(case.stop == Stop::Server && !allowed) {
            let verdict = if allowed { "let through" } else { "refused" };
            out.push(format!("a lease with {lease} is {verdict}"));
        }
    }
    out
}

/// The capabilities that the policies coming with postern ask for these classes.
fn enough(needs: Classes) -> Vec<Capability> {
    needs
        .iter()
        .filter_map(|class| match class {
            Class::Read => Some(Capability::Read),
            Class::Write => Some(Capability::Write),
            Class::Migrate | Class::Truncate => Some(Capability::Migrate),
            Class::Session | Class::Admin => None,
        })
        .collect()
}

/// Every lease there can be.
fn all_leases() -> impl Iterator<Item = Capabilities> {
    (1_u8..8)
        .map(|bits| Capability::ALL.into_iter().filter(|c| bits & (1 << *c as u8) != 0).collect())
}
