//! A rule: what it speaks of, and what it says about it.

use serde::Serialize;

use super::pattern::Pattern;
use crate::gate::class::Classes;
use crate::gate::kind::Kind;

/// Where a rule stands, for verdicts and evidence.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct RuleRef {
    /// Its id, unique among all policies of a folder.
    pub id: String,
    /// The policy file it stands in, or `built in`.
    pub file: String,
}

/// What a rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It grants its classes to statements that fit all of its lists.
    Allow,
    /// It refuses statements that meet all of its lists.
    Deny,
}

/// A rule of a policy. An empty list does not restrict.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Where it stands.
    pub at: RuleRef,
    /// What it says.
    pub effect: Effect,
    /// What the client is told to do instead.
    pub hint: Option<String>,
    /// The classes it grants, or refuses.
    pub classes: Classes,
    /// Kinds of statements.
    pub kinds: Vec<Kind>,
    /// Schemas of tables and functions.
    pub schemas: Vec<Pattern>,
    /// Tables, views and sequences.
    pub tables: Vec<Pattern>,
    /// Columns.
    pub columns: Vec<Pattern>,
    /// Functions.
    pub functions: Vec<Pattern>,
    /// Settings, in lower case; a trailing `*` stands for any rest.
    pub settings: Vec<String>,
}

impl Rule {
    /// Can it be judged only when a statement's names are known?
    pub fn wants_names(&self) -> bool {
        !(self.schemas.is_empty()
            && self.tables.is_empty()
            && self.columns.is_empty()
            && self.functions.is_empty())
    }
}
