//! A policy file: TOML in, a checked [`Policy`] or an error with line and column out.

use serde::Deserialize;
use toml::Spanned;

use super::Policy;
use super::pattern::Pattern;
use super::rule::{Effect, Rule, RuleRef};
use crate::error::{ErrorKind, SqlState, UserFacingError};
use crate::gate::capability::{Capabilities, Capability};
use crate::gate::class::{Class, Classes};
use crate::gate::kind::Kind;

/// Why a folder of policies is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The folder or a file in it cannot be read.
    #[error("{dir}: {reason}")]
    Folder {
        /// The folder or file.
        dir: String,
        /// What is wrong.
        reason: String,
    },
    /// A file says something that means nothing.
    #[error("{file}:{line}:{column}: {reason}")]
    File {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// What is wrong.
        reason: String,
    },
}

impl UserFacingError for PolicyError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::ControlPlane
    }
    fn sqlstate(&self) -> SqlState {
        SqlState::CONFIG_FILE_ERROR
    }
    fn hint(&self) -> Option<String> {
        Some("No file of the folder was taken. `postern policy check` shows what is wrong.".into())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<String>,
    #[serde(default)]
    #[expect(dead_code, reason = "for the people who read the file")]
    description: String,
    serves: Vec<Spanned<String>>,
    #[serde(default)]
    default: bool,
    #[serde(default)]
    operator: bool,
    #[serde(default)]
    allow: Vec<Spanned<FileRule>>,
    #[serde(default)]
    deny: Vec<Spanned<FileRule>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRule {
    id: Spanned<String>,
    hint: Option<String>,
    #[serde(default)]
    classes: Vec<Spanned<String>>,
    #[serde(default)]
    kinds: Vec<Spanned<String>>,
    #[serde(default)]
    schemas: Vec<Spanned<String>>,
    #[serde(default)]
    tables: Vec<Spanned<String>>,
    #[serde(default)]
    columns: Vec<Spanned<String>>,
    #[serde(default)]
    functions: Vec<Spanned<String>>,
    #[serde(default)]
    settings: Vec<Spanned<String>>,
}

/// Errors of one file, with places.
struct Places<'a> {
    file: &'a str,
    text: &'a str,
}

impl Places<'_> {
    fn error(&self, at: usize, reason: impl Into<String>) -> PolicyError {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        PolicyError::File { file: self.file.to_owned(), line, column, reason: reason.into() }
    }
}

pub(super) fn parse(file: &str, text: &str) -> Result<Policy, PolicyError> {
    let places = Places { file, text };
    let read: File = toml::from_str(text).map_err(|error| {
        places.error(error.span().map_or(0, |span| span.start), error.message().to_owned())
    })?;
    let name = read.name.get_ref();
    if !is_word(name) {
        let reason = "a policy's name is lower-case letters, digits, `-` and `_`";
        return Err(places.error(read.name.span().start, reason));
    }
    let mut serves = Capabilities::NONE;
    for word in &read.serves {
        let capability: Capability =
            word.get_ref().parse().map_err(|e: crate::gate::UnknownCapability| {
                places.error(word.span().start, e.to_string())
            })?;
        serves = serves.with(capability);
    }
    if serves.is_empty() {
        let at = read.name.span().start;
        return Err(places.error(at, "`serves` is empty, so no lease would ever be under it"));
    }
    if read.operator && read.default {
        let at = read.name.span().start;
        return Err(places.error(at, "an operator's policy is never a default; a lease names it"));
    }
    let mut rules = Vec::new();
    for (effect, list) in [(Effect::Deny, &read.deny), (Effect::Allow, &read.allow)] {
        for rule in list {
            rules.push(places.rule(rule, effect, read.operator)?);
        }
    }
    if !rules.iter().any(|rule| rule.effect == Effect::Allow) {
        let at = read.name.span().start;
        return Err(places.error(at, "there is no [[allow]] rule, so nothing would be allowed"));
    }
    Ok(Policy {
        name: name.clone(),
        file: file.to_owned(),
        serves,
        is_default: read.default,
        operator: read.operator,
        rules,
    })
}

impl Places<'_> {
    fn rule(
        &self,
        rule: &Spanned<FileRule>,
        effect: Effect,
        operator: bool,
    ) -> Result<Rule, PolicyError> {
        let read = rule.get_ref();
        let id = read.id.get_ref();
        if !is_word(id) {
            let reason = "a rule's id is lower-case letters, digits, `-`, `_` and `.`";
            return Err(self.error(read.id.span().start, reason));
        }
        let mut classes = Classes::NONE;
        for word in &read.classes {
            let class: Class = word.get_ref().parse().map_err(|e: crate::gate::UnknownClass| {
                self.error(word.span().start, e.to_string())
            })?;
            if class == Class::Admin && effect == Effect::Allow && !operator {
                let reason = "only a policy with `operator = true` can allow `admin`";
                return Err(self.error(word.span().start, reason));
            }
            classes = classes.and(class.into());
        }
        let mut kinds = Vec::new();
        for words in &read.kinds {
            let kind = Kind::parse(words.get_ref()).ok_or_else(|| {
                let reason = format!("`{}` is no kind of statement", words.get_ref());
                self.error(words.span().start, reason)
            })?;
            kinds.push(kind);
        }
        let rule = Rule {
            at: RuleRef { id: id.clone(), file: self.file.to_owned() },
            effect,
            hint: read.hint.clone(),
            classes,
            kinds,
            schemas: self.patterns(&read.schemas, 1)?,
            tables: self.patterns(&read.tables, 2)?,
            columns: self.patterns(&read.columns, 3)?,
            functions: self.patterns(&read.functions, 2)?,
            settings: self.settings(&read.settings)?,
        };
        let is_empty = rule.classes.is_empty()
            && rule.kinds.is_empty()
            && rule.settings.is_empty()
            && !rule.wants_names();
        if effect == Effect::Allow && rule.classes.is_empty() {
            let reason = "an [[allow]] rule says in `classes` what it grants";
            return Err(self.error(read.id.span().start, reason));
        }
        if is_empty {
            let reason = "a [[deny]] rule without a list would refuse everything; name something";
            return Err(self.error(read.id.span().start, reason));
        }
        Ok(rule)
    }

    fn patterns(&self, list: &[Spanned<String>], most: usize) -> Result<Vec<Pattern>, PolicyError> {
        list.iter()
            .map(|text| {
                Pattern::parse(text.get_ref(), most).map_err(|error| {
                    let reason = format!("`{}` cannot be a name: it has {error}", text.get_ref());
                    self.error(text.span().start, reason)
                })
            })
            .collect()
    }

    fn settings(&self, list: &[Spanned<String>]) -> Result<Vec<String>, PolicyError> {
        list.iter()
            .map(|text| {
                let name = text.get_ref().to_ascii_lowercase();
                let stem = name.strip_suffix('*').unwrap_or(&name);
                let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
                if name.is_empty() || !stem.chars().all(fits) {
                    let reason = format!("`{}` cannot be a setting's name", text.get_ref());
                    return Err(self.error(text.span().start, reason));
                }
                Ok(name)
            })
            .collect()
    }
}

/// Something that is there twice, in this file and another (or the same).
pub(super) fn duplicate(
    file: &str,
    text: &str,
    name: &str,
    other: &str,
    what: &str,
) -> PolicyError {
    let quoted = format!("\"{name}\"");
    let at = if file == other { text.rfind(&quoted) } else { text.find(&quoted) };
    let reason = format!("there is another {what} `{name}` in {other}");
    Places { file, text }.error(at.unwrap_or(0), reason)
}

fn is_word(word: &str) -> bool {
    !word.is_empty()
        && word.len() <= 63
        && word
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.'))
}
