//! A refusal, in words an agent can act on.

use super::capability::Capabilities;
use super::class::{Class, Classes};
use super::facts::Facts;
use super::floor::{Encoding, Unreadable, position};
use super::lexer::LexError;
use super::policy::{Judgement, Refused, RuleRef};
use crate::error::{ErrorKind, SqlState, UserFacingError};

/// Why a message is refused: everything the client is told, without the server's help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Denial {
    /// Its SQLSTATE: 42501, 54001 over a cap, 42601 and 22021 where the server would say so too.
    pub sqlstate: SqlState,
    /// What was refused and why.
    pub message: String,
    /// The rule that decided and its file.
    pub detail: Option<String>,
    /// What to do instead.
    pub hint: Option<String>,
    /// The character position in the text, from 1.
    pub position: Option<usize>,
}

impl UserFacingError for Denial {
    fn kind(&self) -> ErrorKind {
        ErrorKind::User
    }
    fn sqlstate(&self) -> SqlState {
        self.sqlstate
    }
    fn message(&self) -> String {
        self.message.clone()
    }
    fn detail(&self) -> Option<String> {
        self.detail.clone()
    }
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

/// The text of an error is cut here; the server would quote a whole unterminated string.
const LONGEST_QUOTE: usize = 1000;

/// The refusal of a text that was read and judged. `None` if it was allowed.
pub(super) fn of_judgement(
    lease: &str,
    capabilities: Capabilities,
    policy: Option<&str>,
    facts: &Facts,
    judgement: &Judgement,
) -> Option<Denial> {
    let refused = judgement.refused.as_ref()?;
    let (index, message, hint) = match refused {
        Refused::Capability { piece, missing } => {
            let found = facts.pieces.get(*piece)?;
            let message = if missing.has(Class::Admin) {
                format!(
                    "lease {lease} has {capabilities}; no lease may do this ({})",
                    found.summary()
                )
            } else {
                format!(
                    "lease {lease} has {capabilities}; this statement needs {missing} ({})",
                    found.summary()
                )
            };
            (*piece, message, Some(instead(*missing, facts, *piece)))
        }
        Refused::Denied { piece, hint } => {
            let found = facts.pieces.get(*piece)?;
            let rule = &judgement.rule.id;
            let message = format!("lease {lease}: rule {rule} denies this ({})", found.summary());
            (*piece, message, hint.clone())
        }
        Refused::NotAllowed { piece, missing } => {
            let found = facts.pieces.get(*piece)?;
            let message = format!(
                "lease {lease} has {capabilities}; no rule of its policy allows {missing} here ({})",
                found.summary()
            );
            let hint = match (missing.has(Class::Truncate), policy) {
                (true, _) => {
                    "Use DELETE, or ask for a lease with the capability migrate, or for a \
                              policy that allows `truncate`."
                        .to_owned()
                }
                (_, Some(policy)) => {
                    format!(
                        "`postern policy explain --policy {policy}` shows what would be allowed."
                    )
                }
                _ => "`postern policy explain` shows what would be allowed.".to_owned(),
            };
            (*piece, message, Some(hint))
        }
        Refused::NamesUnread { piece } => {
            let rule = &judgement.rule.id;
            let message = format!(
                "lease {lease}: rule {rule} speaks of names, and this statement's names cannot be read"
            );
            let hint = "Write it as plain SELECT, INSERT, UPDATE or DELETE with every table named, \
                        and split what is very long or deeply nested.";
            (*piece, message, Some(hint.to_owned()))
        }
    };
    let several = facts.pieces.len() > 1;
    Some(Denial {
        sqlstate: SqlState::INSUFFICIENT_PRIVILEGE,
        message,
        detail: Some(rule_detail(&judgement.rule, several)),
        hint,
        position: facts.pieces.get(index).filter(|_| several).map(|piece| piece.position),
    })
}

fn rule_detail(rule: &RuleRef, several: bool) -> String {
    let whole = if several { " Nothing of the message was run." } else { "" };
    if rule.file == "built in" {
        format!("Rule {}, built into the gate.{whole}", rule.id)
    } else {
        format!("Rule {} in {}.{whole}", rule.id, rule.file)
    }
}

/// What can be done instead of what the lease cannot do.
fn instead(missing: Classes, facts: &Facts, index: usize) -> String {
    let Some(piece) = facts.pieces.get(index) else { return String::new() };
    if missing.has(Class::Admin) {
        let kind = piece.inner.first().unwrap_or(&piece.kind);
        let setting = piece.settings.first().map_or("", String::as_str);
        let words = match (kind.command(), kind.object(), setting) {
            (command, ..) if command.starts_with("COPY") => {
                "Use COPY … TO STDOUT or COPY … FROM STDIN; the data goes through the connection."
            }
            (_, _, "role" | "session_authorization") => {
                "The lease's role stays; objects are its own, and no other role is needed."
            }
            (_, _, "client_encoding") => "Use client_encoding UTF8.",
            (_, _, "standard_conforming_strings" | "backslash_quote") => {
                "Leave it as it is, and write E'…' for strings with backslash escapes."
            }
            (_, _, "*") => "Write the setting's name as a constant.",
            ("SET" | "RESET", ..) => "Leave this setting to the operator.",
            ("PREPARE TRANSACTION" | "COMMIT PREPARED" | "ROLLBACK PREPARED", ..) => {
                "End the transaction with COMMIT or ROLLBACK."
            }
            (_, "FUNCTION" | "PROCEDURE" | "LANGUAGE", _) | ("DO", ..) => {
                "Use LANGUAGE sql or plpgsql."
            }
            _ => {
                "A branch is a database of its own; what reaches beyond it (files, programs, roles, \
                 other servers and sessions, configuration) is for the operator."
            }
        };
        return words.to_owned();
    }
    let words: Vec<String> = missing
        .iter()
        .map(|class| match class {
            Class::Truncate => "migrate".to_owned(),
            other => other.to_string(),
        })
        .collect();
    let ask = format!("Ask for a lease with the capability {}.", words.join(", "));
    let command = piece.kind.command();
    let inner = piece.inner.first().map_or("", |kind| kind.command());
    let form = if command == "EXPLAIN ANALYZE" {
        " EXPLAIN without ANALYZE shows the plan and runs nothing."
    } else if inner == "SELECT FOR UPDATE" && missing == Classes::WRITE {
        " Without FOR UPDATE or FOR SHARE the query only reads."
    } else if inner == "SELECT INTO" {
        " Without INTO the query only reads."
    } else if missing.has(Class::Truncate) && missing.iter().count() == 1 {
        " DELETE is allowed with write."
    } else if matches!(command, "BEGIN" | "START" | "SET TRANSACTION" | "SET" | "SELECT")
        && piece.because.as_deref().is_some_and(|b| b == "READ WRITE" || b.contains("read_only"))
    {
        " A read-only transaction needs no such capability."
    } else {
        ""
    };
    format!("{ask}{form}")
}

/// The refusal of a text that could not be read.
pub(super) fn of_unreadable(sql: &[u8], encoding: Encoding, error: &Unreadable) -> Denial {
    let at = |byte: usize| Some(position(sql, encoding, byte.min(sql.len())));
    // Where the server would refuse the text with a syntax error, so does the gate, in the
    // server's words: they say best what is wrong.
    let syntax = |what: &str, from: usize, to: usize| Denial {
        sqlstate: SqlState::SYNTAX_ERROR,
        message: match quote(sql, from, to) {
            Some(text) => format!("{what} at or near \"{text}\""),
            None => format!("{what} at end of input"),
        },
        detail: None,
        hint: None,
        position: at(from),
    };
    match error {
        Unreadable::Grammar { at: from, end } => syntax("syntax error", *from, *end),
        Unreadable::Lexer(LexError::Syntax { what, at: from }) => {
            let to = if *what == "syntax error" { from + 1 } else { sql.len() };
            syntax(what, *from, to)
        }
        Unreadable::Lexer(LexError::Encoding { at: from }) => Denial {
            sqlstate: SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            message: format!("invalid byte sequence for encoding \"UTF8\": {}", bytes(sql, *from)),
            detail: None,
            hint: None,
            position: None,
        },
        Unreadable::Lexer(LexError::Cap { what, limit, at: from }) => Denial {
            sqlstate: SqlState::STATEMENT_TOO_COMPLEX,
            message: format!("{what} is over the gate's cap of {limit}"),
            detail: Some("The gate refuses what it does not read to the end.".to_owned()),
            hint: Some(
                "Split it into several statements, send values as parameters or with COPY FROM \
                 STDIN, and long lists as one array parameter (= ANY($1))."
                    .to_owned(),
            ),
            position: at(*from),
        },
    }
}

fn quote(sql: &[u8], from: usize, to: usize) -> Option<String> {
    let text = sql.get(from..to.min(sql.len())).filter(|text| !text.is_empty())?;
    let text = String::from_utf8_lossy(text);
    Some(text.chars().take(LONGEST_QUOTE).collect())
}

/// The bytes of the wrong character, as many as its first byte promises.
fn bytes(sql: &[u8], at: usize) -> String {
    let rest = sql.get(at..).unwrap_or_default();
    let length = match rest.first() {
        Some(0xc0..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf7) => 4,
        _ => 1,
    };
    let shown: Vec<String> = rest.iter().take(length).map(|b| format!("0x{b:02x}")).collect();
    shown.join(" ")
}

/// The lease names a policy that is not loaded: everything is refused.
pub(super) fn of_missing_policy(policy: &str) -> Denial {
    Denial {
        sqlstate: SqlState::INSUFFICIENT_PRIVILEGE,
        message: format!("the lease is under the policy {policy}, which is not loaded"),
        detail: Some("Rule no-such-policy, built into the gate.".to_owned()),
        hint: Some("Ask the operator to put the policy back, or for another lease.".to_owned()),
        position: None,
    }
}
