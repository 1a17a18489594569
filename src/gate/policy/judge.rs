//! What the policies in force say to a statement.

use std::sync::Arc;

use super::pattern::Pattern;
use super::rule::{Effect, Rule, RuleRef};
use super::{Policy, invariant};
use crate::gate::capability::Capabilities;
use crate::gate::class::Classes;
use crate::gate::facts::{Facts, Name, Piece};

/// The outcome for a whole text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The rule that decided: the one that denied, or the one that allowed the last class.
    pub rule: RuleRef,
    /// Why it is refused, if it is.
    pub refused: Option<Refused>,
}

/// Why a statement is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The lease lacks the capability for these classes; no policy changes that.
    Capability {
        /// Which statement of the text, from 0.
        piece: usize,
        /// The classes it cannot have.
        missing: Classes,
    },
    /// A deny rule speaks of it.
    Denied {
        /// Which statement of the text, from 0.
        piece: usize,
        /// The rule's own hint.
        hint: Option<String>,
    },
    /// No allow rule grants these classes to this statement.
    NotAllowed {
        /// Which statement of the text, from 0.
        piece: usize,
        /// The classes nobody grants.
        missing: Classes,
    },
    /// A rule speaks of names, and the statement's names could not be read.
    NamesUnread {
        /// Which statement of the text, from 0.
        piece: usize,
    },
}

/// Judges a text: every statement of it has to be allowed, or all of it is refused.
pub(crate) fn judge(
    policies: &[Arc<Policy>],
    capabilities: Capabilities,
    operator: bool,
    facts: &Facts,
) -> Judgement {
    let operator = operator && policies.iter().any(|policy| policy.operator);
    let mut decided = RuleRef { id: "nothing-to-run".to_owned(), file: "built in".to_owned() };
    for (index, piece) in facts.pieces.iter().enumerate() {
        let missing = invariant::missing(piece.classes, capabilities, operator);
        if let Some(class) = missing.iter().next() {
            let rule = RuleRef { id: format!("capability.{class}"), file: "built in".to_owned() };
            return refuse(rule, Refused::Capability { piece: index, missing });
        }
        let rules = || policies.iter().flat_map(|policy| &policy.rules);
        for rule in rules().filter(|rule| rule.effect == Effect::Deny) {
            match meets(rule, piece) {
                Some(true) => {
                    let hint = rule.hint.clone();
                    return refuse(rule.at.clone(), Refused::Denied { piece: index, hint });
                }
                Some(false) => {}
                None => return refuse(rule.at.clone(), Refused::NamesUnread { piece: index }),
            }
        }
        let mut open = piece.classes;
        let mut unread = None;
        for rule in rules().filter(|rule| rule.effect == Effect::Allow) {
            if !rule.classes.meets(open) {
                continue;
            }
            match fits(rule, piece) {
                Some(true) => {
                    open = open.without(rule.classes);
                    decided = rule.at.clone();
                }
                Some(false) => {}
                None => unread = Some(rule.at.clone()),
            }
        }
        if !open.is_empty() {
            if let Some(rule) = unread {
                return refuse(rule, Refused::NamesUnread { piece: index });
            }
            let file = policies.first().map_or("no policy", |policy| policy.file.as_str());
            let rule = RuleRef { id: "default-deny".to_owned(), file: file.to_owned() };
            return refuse(rule, Refused::NotAllowed { piece: index, missing: open });
        }
    }
    Judgement { rule: decided, refused: None }
}

fn refuse(rule: RuleRef, refused: Refused) -> Judgement {
    Judgement { rule, refused: Some(refused) }
}

/// Does a denial speak of the statement: is there something of it in every list of the rule?
/// `None` if that takes names which were not read.
fn meets(rule: &Rule, piece: &Piece) -> Option<bool> {
    let class = rule.classes.is_empty() || rule.classes.meets(piece.classes);
    let kind = rule.kinds.is_empty()
        || rule.kinds.iter().any(|k| kinds(piece).any(|found| k.covers(found)));
    let setting = rule.settings.is_empty()
        || rule.settings.iter().any(|s| piece.settings.iter().any(|found| speaks_of(s, found)));
    if !(class && kind && setting) {
        return Some(false);
    }
    if !rule.wants_names() {
        return Some(true);
    }
    let schema = rule.schemas.is_empty()
        || rule.schemas.iter().any(|pattern| {
            piece.tables.iter().chain(&piece.functions).any(|name| {
                name.schema().is_some_and(|s| pattern.may_mean(&Name(vec![s.to_owned()])))
            })
        })
        // What an unqualified name means is search_path's to say, so it stays as it is.
        || piece.settings.iter().any(|s| s == "search_path");
    let table = rule.tables.is_empty() || any(&rule.tables, &piece.tables);
    let column = rule.columns.is_empty() || rule.columns.iter().any(|p| column(p, piece));
    let function = rule.functions.is_empty()
        || any(&rule.functions, &piece.functions)
        || rule.functions.iter().any(|p| piece.attributes.iter().any(|a| a == p.last()));
    if schema && table && column && function {
        return Some(true);
    }
    // What was not read could be what the rule speaks of.
    if piece.names_read == Some(true) || touches_nothing(piece) { Some(false) } else { None }
}

/// Does an allowance hold for the statement: is all of it in every list of the rule?
fn fits(rule: &Rule, piece: &Piece) -> Option<bool> {
    let kind = rule.kinds.is_empty()
        || kinds(piece).all(|found| rule.kinds.iter().any(|k| k.covers(found)));
    let setting = rule.settings.is_empty()
        || piece.settings.iter().all(|found| rule.settings.iter().any(|s| speaks_of(s, found)));
    if !(kind && setting) {
        return Some(false);
    }
    if !rule.wants_names() {
        return Some(true);
    }
    let schema = rule.schemas.is_empty()
        || (piece.tables.iter().all(|name| {
            name.schema().is_some_and(|schema| {
                let schema = Name(vec![schema.to_owned()]);
                rule.schemas.iter().any(|p| p.surely_means(&schema))
            })
        }) && !piece.settings.iter().any(|s| s == "search_path"));
    let table = rule.tables.is_empty() || all(&rule.tables, &piece.tables);
    let column =
        rule.columns.is_empty() || (all(&rule.columns, &piece.columns) && !piece.whole_rows);
    let function = rule.functions.is_empty() || all(&rule.functions, &piece.functions);
    if !(schema && table && column && function) {
        return Some(false);
    }
    if piece.names_read == Some(true) || touches_nothing(piece) { Some(true) } else { None }
}

fn any(patterns: &[Pattern], names: &[Name]) -> bool {
    patterns.iter().any(|pattern| names.iter().any(|name| pattern.may_mean(name)))
}

fn all(patterns: &[Pattern], names: &[Name]) -> bool {
    names.iter().all(|name| patterns.iter().any(|pattern| pattern.surely_means(name)))
}

/// Could the statement see this column: it stands in the text, or whole rows of its table do?
fn column(pattern: &Pattern, piece: &Piece) -> bool {
    let of_table = pattern.without_last();
    let table = of_table.is_none_or(|t| piece.tables.iter().any(|name| t.may_mean(name)));
    let named = pattern.last() == "*"
        || piece.identifiers.iter().any(|word| word == pattern.last())
        || piece.columns.iter().any(|name| name.last() == pattern.last());
    table && (named || piece.whole_rows)
}

/// Transaction control and the like name nothing.
fn touches_nothing(piece: &Piece) -> bool {
    piece.classes.within(Classes::SESSION)
        && piece.tables.is_empty()
        && piece.functions.is_empty()
        && piece.names_read != Some(false)
}

fn kinds(piece: &Piece) -> impl Iterator<Item = crate::gate::kind::Kind> {
    std::iter::once(piece.kind).chain(piece.inner.iter().copied())
}

fn speaks_of(pattern: &str, setting: &str) -> bool {
    // A computed name could be any.
    setting == "*"
        || match pattern.strip_suffix('*') {
            Some(stem) => setting.starts_with(stem),
            None => pattern == setting,
        }
}
