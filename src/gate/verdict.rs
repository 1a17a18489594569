//! Verdicts: what the gate says about a message, shared by all who send the same one.

use serde::Serialize;

use super::capability::Capabilities;
use super::class::Classes;
use super::denial::{self, Denial};
use super::facts::Facts;
use super::floor::{Encoding, Unreadable};
use super::policy::{Judgement, RuleRef};

/// The gate's word on one text under one lease's rules. It names no lease, so that leases of a kind
/// share it.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// May it be forwarded?
    pub allow: bool,
    /// What the text needs; empty if it could not be read.
    pub classes: Classes,
    /// The rule that decided.
    pub rule: RuleRef,
    /// What was found in the text.
    pub facts: Facts,
    #[serde(skip)]
    outcome: Outcome,
    #[serde(skip)]
    capabilities: Capabilities,
    #[serde(skip)]
    policy: Option<String>,
}

#[derive(Debug, Clone)]
enum Outcome {
    Judged(Judgement),
    Told(Box<Denial>),
}

impl Verdict {
    pub(super) fn judged(
        facts: Facts,
        judgement: Judgement,
        capabilities: Capabilities,
        policy: Option<&str>,
    ) -> Self {
        Self {
            allow: judgement.refused.is_none(),
            classes: facts.classes,
            rule: judgement.rule.clone(),
            facts,
            outcome: Outcome::Judged(judgement),
            capabilities,
            policy: policy.map(str::to_owned),
        }
    }

    pub(super) fn unreadable(error: &Unreadable, sql: &[u8], encoding: Encoding) -> Self {
        Self::told("unreadable", denial::of_unreadable(sql, encoding, error))
    }

    pub(super) fn no_policy(name: &str) -> Self {
        Self::told("no-such-policy", denial::of_missing_policy(name))
    }

    fn told(rule: &str, denial: Denial) -> Self {
        Self {
            allow: false,
            classes: Classes::NONE,
            rule: RuleRef { id: rule.to_owned(), file: "built in".to_owned() },
            facts: Facts::default(),
            outcome: Outcome::Told(Box::new(denial)),
            capabilities: Capabilities::NONE,
            policy: None,
        }
    }

    /// What the client of this lease is told, if the message is refused.
    pub fn denial(&self, lease: &str) -> Option<Denial> {
        match &self.outcome {
            Outcome::Judged(judgement) => denial::of_judgement(
                lease,
                self.capabilities,
                self.policy.as_deref(),
                &self.facts,
                judgement,
            ),
            Outcome::Told(denial) => Some(denial.as_ref().clone()),
        }
    }

    /// The judgement, where it came to one.
    pub fn judgement(&self) -> Option<&Judgement> {
        match &self.outcome {
            Outcome::Judged(judgement) => Some(judgement),
            Outcome::Told(_) => None,
        }
    }

    /// About how many bytes it holds beside its own size.
    pub(super) fn weight(&self) -> usize {
        let held = match &self.outcome {
            Outcome::Told(denial) => denial.message.len(),
            Outcome::Judged(_) => 0,
        };
        let names = self.facts.pieces.iter().map(|piece| {
            let names = piece.tables.len() + piece.columns.len() + piece.functions.len();
            let words = piece.identifiers.len() + piece.attributes.len() + piece.settings.len();
            size_of_val(piece) + 64 * (names + words)
        });
        held + names.sum::<usize>()
    }
}
