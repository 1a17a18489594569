//! What two schemas differ in, named.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

use super::fact::{Fingerprint, Part, object_digest};

/// One way in which two schemas differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The object, such as `table public.orders`.
    pub object: String,
    /// Its part, such as `column total`; none when the object itself differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The fact, such as `type`; none when the whole object or part is on one side only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fact: Option<String>,
    /// What became of it from the first schema to the second.
    #[serde(flatten)]
    pub change: Change,
}

/// What became of an object, a part or a fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "change", rename_all = "lowercase")]
pub enum Change {
    /// Only the second schema has it.
    Added {
        /// Its value, if it is a fact.
        #[serde(skip_serializing_if = "Option::is_none")]
        to: Option<String>,
    },
    /// Only the first schema has it.
    Removed {
        /// Its value, if it is a fact.
        #[serde(skip_serializing_if = "Option::is_none")]
        from: Option<String>,
    },
    /// Both have the fact, with other values.
    Changed {
        /// The value in the first schema.
        from: String,
        /// The value in the second schema.
        to: String,
    },
}

/// All differences of two schemas, sorted by object, part and fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
#[serde(transparent)]
pub struct Diff {
    /// The differences; empty if and only if the fingerprints are equal.
    pub differences: Vec<Difference>,
}

impl Diff {
    /// Are the schemas the same?
    pub fn is_empty(&self) -> bool {
        self.differences.is_empty()
    }

    /// The differences as JSON: a list of objects with `object`, `part`, `fact`, `change`
    /// (`added`, `removed` or `changed`), `from` and `to`, of which those that do not apply are
    /// left out.
    pub fn to_json(&self) -> String {
        serde_json::json!(self).to_string()
    }
}

/// What must change to come from schema `a` to schema `b`.
pub fn diff(a: &Fingerprint, b: &Fingerprint) -> Diff {
    let mut found = Diff::default();
    if a.digest() == b.digest() {
        return found;
    }
    let (a, b) = (&a.facts().objects, &b.facts().objects);
    for (name, sides) in pair(a, b) {
        match sides {
            (Some(a), Some(b)) if object_digest(a) == object_digest(b) => {}
            (Some(a), Some(b)) => {
                for (part, sides) in pair(a, b) {
                    found.part(name, part, sides);
                }
            }
            (a, _) => found.push(name, None, None, one_sided(a.is_none(), None)),
        }
    }
    found
}

impl Diff {
    fn part(&mut self, object: &str, part: &str, sides: (Option<&Part>, Option<&Part>)) {
        let named = (!part.is_empty()).then_some(part);
        let empty = Part::new();
        let (a, b) = match sides {
            (Some(a), Some(b)) => (a, b),
            (a, _) if named.is_some() => {
                return self.push(object, named, None, one_sided(a.is_none(), None));
            }
            (a, b) => (a.unwrap_or(&empty), b.unwrap_or(&empty)),
        };
        for (fact, sides) in pair(a, b) {
            let change = match sides {
                (Some(from), Some(to)) if from == to => continue,
                (Some(from), Some(to)) => Change::Changed { from: from.clone(), to: to.clone() },
                (a, b) => one_sided(a.is_none(), a.or(b)),
            };
            self.push(object, named, Some(fact), change);
        }
    }

    fn push(&mut self, object: &str, part: Option<&str>, fact: Option<&str>, change: Change) {
        self.differences.push(Difference {
            object: object.to_owned(),
            part: part.map(str::to_owned),
            fact: fact.map(str::to_owned),
            change,
        });
    }
}

fn one_sided(added: bool, value: Option<&String>) -> Change {
    let value = value.cloned();
    if added { Change::Added { to: value } } else { Change::Removed { from: value } }
}

type Sides<'a, T> = (Option<&'a T>, Option<&'a T>);

/// The keys of two maps, in order, with what each map has for them.
fn pair<'a, T>(
    a: &'a std::collections::BTreeMap<String, T>,
    b: &'a std::collections::BTreeMap<String, T>,
) -> impl Iterator<Item = (&'a String, Sides<'a, T>)> {
    let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
    keys.into_iter().map(|key| (key, (a.get(key), b.get(key))))
}

impl fmt::Display for Diff {
    /// One difference a line: `+` added, `-` removed, `~` changed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.differences.iter().try_for_each(|difference| writeln!(f, "{difference}"))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.change {
            Change::Added { .. } => "+ ",
            Change::Removed { .. } => "- ",
            Change::Changed { .. } => "~ ",
        })?;
        f.write_str(&printable(&self.object))?;
        for name in [&self.part, &self.fact].into_iter().flatten() {
            write!(f, " / {}", printable(name))?;
        }
        match &self.change {
            Change::Added { to: Some(value) } | Change::Removed { from: Some(value) } => {
                write!(f, ": {}", printable(value))
            }
            Change::Changed { from, to } => {
                write!(f, ": {} → {}", printable(from), printable(to))
            }
            Change::Added { to: None } | Change::Removed { from: None } => Ok(()),
        }
    }
}

/// Names and values come from a database an agent may have written to: nothing in them may break
/// the line or steer a terminal.
fn printable(text: &str) -> Cow<'_, str> {
    let steers =
        |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if steers(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::super::fact::Facts;
    use super::*;

    fn of(json: serde_json::Value) -> Fingerprint {
        Fingerprint::new(serde_json::from_value::<Facts>(json).unwrap())
    }

    #[test]
    fn objects_parts_and_facts_are_named() {
        let a = of(serde_json::json!({
            "table public.gone": {"": {"owner": "app"}},
            "table public.orders": {"": {"owner": "app", "options": "{a=1}"},
                "column total": {"type": "integer"}, "column old": {"type": "text"}},
        }));
        let b = of(serde_json::json!({
            "table public.orders": {"": {"owner": "bob"},
                "column total": {"type": "bigint", "default": "0"}},
            "view public.\u{1b}[31mv": {"": {"owner": "app"}},
        }));
        assert_eq!(
            diff(&a, &b).to_string(),
            "- table public.gone\n\
             - table public.orders / options: {a=1}\n\
             ~ table public.orders / owner: app → bob\n\
             - table public.orders / column old\n\
             + table public.orders / column total / default: 0\n\
             ~ table public.orders / column total / type: integer → bigint\n\
             + view public.\\u{1b}[31mv\n"
        );
        let json: serde_json::Value = serde_json::from_str(&diff(&a, &b).to_json()).unwrap();
        assert_eq!(
            json[5],
            serde_json::json!({"object": "table public.orders", "part": "column total",
                "fact": "type", "change": "changed", "from": "integer", "to": "bigint"})
        );
        assert!(diff(&a, &a).is_empty());
    }
}
