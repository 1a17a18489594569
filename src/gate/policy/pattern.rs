//! Patterns for names in rules: `orders`, `public.orders`, `public.*`, `account.email`.

use crate::gate::facts::Name;

/// A pattern for a dotted name. A part is a name or `*`, which stands for any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Vec<String>);

/// What is wrong with a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadPattern {
    #[error("an empty part")]
    Empty,
    #[error("more than {0} parts")]
    TooLong(usize),
    #[error("a part of more than 63 bytes, which no name of PostgreSQL has")]
    TooWide,
    #[error("a quote that does not close")]
    Quote,
    #[error("`*` beside other characters; it stands for a whole part")]
    Star,
    #[error("the character {0:?}; put the part in double quotes if its name has it")]
    Character(char),
}

impl Pattern {
    /// Reads a pattern of up to `most` parts. Unquoted parts are folded to lower case, as the
    /// server does with names; parts in double quotes stand as they are.
    pub(super) fn parse(text: &str, most: usize) -> Result<Self, BadPattern> {
        let mut parts = Vec::new();
        let mut rest = text.trim();
        loop {
            let (part, after) = part(rest)?;
            if part.len() > 63 {
                return Err(BadPattern::TooWide);
            }
            parts.push(part);
            match after.strip_prefix('.') {
                Some(more) => rest = more,
                None if after.is_empty() => break,
                None => return Err(BadPattern::Character(after.chars().next().unwrap_or(' '))),
            }
        }
        if parts.len() > most { Err(BadPattern::TooLong(most)) } else { Ok(Self(parts)) }
    }

    /// Could the name mean something the pattern speaks of? A part that the name leaves out could
    /// be anything. For denials.
    pub(super) fn may_mean(&self, name: &Name) -> bool {
        self.0.iter().rev().zip(name.0.iter().rev()).all(|(p, n)| p == "*" || p == n)
    }

    /// Does the name surely mean something the pattern speaks of? For allowances.
    pub(super) fn surely_means(&self, name: &Name) -> bool {
        let spare = self.0.len().saturating_sub(name.0.len());
        self.0.iter().take(spare).all(|part| part == "*") && self.may_mean(name)
    }

    pub(super) fn last(&self) -> &str {
        self.0.last().map_or("*", String::as_str)
    }

    /// The pattern without its last part; `None` if there is but one.
    pub(super) fn without_last(&self) -> Option<Self> {
        let (_, rest) = self.0.split_last()?;
        (!rest.is_empty()).then(|| Self(rest.to_vec()))
    }
}

fn part(text: &str) -> Result<(String, &str), BadPattern> {
    if let Some(quoted) = text.strip_prefix('"') {
        let mut out = String::new();
        let mut rest = quoted;
        loop {
            let end = rest.find('"').ok_or(BadPattern::Quote)?;
            out.push_str(&rest[..end]);
            rest = &rest[end + 1..];
            if !rest.starts_with('"') {
                break;
            }
            out.push('"');
            rest = &rest[1..];
        }
        return if out.is_empty() { Err(BadPattern::Empty) } else { Ok((out, rest)) };
    }
    let end = text.find('.').unwrap_or(text.len());
    let (part, rest) = text.split_at(end);
    if part.is_empty() {
        return Err(BadPattern::Empty);
    }
    if part == "*" {
        return Ok((part.to_owned(), rest));
    }
    if part.contains('*') {
        return Err(BadPattern::Star);
    }
    let wrong = |(i, c): (usize, char)| {
        let letter = c == '_' || c.is_alphabetic() || !c.is_ascii();
        !(letter || (i > 0 && (c.is_ascii_digit() || c == '$')))
    };
    match part.chars().enumerate().find(|c| wrong(*c)) {
        Some((_, character)) => Err(BadPattern::Character(character)),
        None => Ok((part.to_ascii_lowercase(), rest)),
    }
}
