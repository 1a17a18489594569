//! Redaction: values that must not be in the evidence are replaced by a keyed hash of themselves.
//!
//! The same value has the same hash everywhere in one log, so that one can still see that two
//! statements spoke of the same customer; without the key nobody can try out values. When in doubt
//! more is hidden, never less: a statement that mentions a hidden column loses *all* its literals
//! and parameters, for no reader without the catalog can tell which of them belong to the column.

use std::borrow::Cow;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use regex::bytes::{Captures, Regex};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::shape::{Kind, Token, tokens};
use super::{LogError, encode};

const KEY: &str = "redaction.key";

/// What is hidden; exactly one of `column`, `parameters` and `pattern` is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// A column as `table.column` or `column`. Only with its table is it found in an
    /// `INSERT` that does not name its columns.
    pub column: Option<String>,
    /// Bind parameters by number, from 1; an empty list means all.
    pub parameters: Option<Vec<u16>>,
    /// For `parameters`: only of statements whose text this regular expression finds.
    pub statement: Option<String>,
    /// Whatever this regular expression finds, anywhere in texts and parameters.
    pub pattern: Option<String>,
}

#[derive(Debug)]
struct Column {
    table: Option<String>,
    column: String,
}

#[derive(Debug)]
struct Parameters {
    numbers: Vec<u16>,
    statement: Option<Regex>,
}

/// The rules, ready for use.
#[derive(Debug)]
pub struct Redactor {
    key: Option<hmac::Key>,
    columns: Vec<Column>,
    parameters: Vec<Parameters>,
    patterns: Vec<Regex>,
}

/// What must be hidden of one statement besides its text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hidden {
    /// All values: parameters, and what errors quote.
    pub all: bool,
    /// These parameters, from 1.
    pub parameters: Vec<u16>,
}

impl Redactor {
    /// Reads the rules. The key is made when there are rules and it is missing.
    pub fn open(dir: &Path, rules: &[Rule]) -> Result<Self, LogError> {
        let mut redactor =
            Self { key: None, columns: Vec::new(), parameters: Vec::new(), patterns: Vec::new() };
        for (i, rule) in rules.iter().enumerate() {
            redactor.add(rule).map_err(|problem| LogError::BadRule { number: i + 1, problem })?;
        }
        if !rules.is_empty() {
            redactor.key = Some(open_key(dir)?);
        }
        Ok(redactor)
    }

    fn add(&mut self, rule: &Rule) -> Result<(), String> {
        let regex = |text: &str| Regex::new(text).map_err(|error| error.to_string());
        match (&rule.column, &rule.parameters, &rule.pattern) {
            (Some(name), None, None) if rule.statement.is_none() => {
                let (table, column) = match name.rsplit_once('.') {
                    Some((table, column)) => (Some(last_part(table)), column),
                    None => (None, name.as_str()),
                };
                if column.is_empty() || table.as_deref() == Some("") {
                    return Err(format!("`{name}` names no column"));
                }
                self.columns.push(Column { table, column: column.to_lowercase() });
            }
            (None, Some(numbers), None) => {
                if numbers.contains(&0) {
                    return Err("parameters are counted from 1".into());
                }
                let statement = rule.statement.as_deref().map(regex).transpose()?;
                self.parameters.push(Parameters { numbers: numbers.clone(), statement });
            }
            (None, None, Some(pattern)) if rule.statement.is_none() => {
                let pattern = regex(pattern)?;
                if pattern.is_match(b"") {
                    return Err("the pattern finds the empty text".into());
                }
                self.patterns.push(pattern);
            }
            _ => {
                return Err(
                    "give one of `column`, `parameters` (with `statement`) and `pattern`".into()
                );
            }
        }
        Ok(())
    }

    /// The text of a statement as it may be recorded, and what else must be hidden of it.
    pub fn statement<'a>(&self, sql: &'a [u8]) -> (Cow<'a, [u8]>, Hidden) {
        let Some(key) = &self.key else { return (Cow::Borrowed(sql), Hidden::default()) };
        let mut hidden = Hidden::default();
        for rule in &self.parameters {
            if rule.statement.as_ref().is_none_or(|pattern| pattern.is_match(sql)) {
                hidden.all |= rule.numbers.is_empty();
                hidden.parameters.extend(&rule.numbers);
            }
        }
        if !self.columns.is_empty() {
            let tokens = tokens(sql);
            if self.columns.iter().any(|column| column.is_in(sql, &tokens)) {
                hidden.all = true;
                let text = self.patterns_of(key, Cow::Owned(literals(key, sql, &tokens)));
                return (Cow::Owned(text.into_owned()), hidden);
            }
        }
        (self.patterns_of(key, Cow::Borrowed(sql)), hidden)
    }

    /// The value of a parameter, by number from 1, as it may be recorded.
    pub fn parameter<'a>(&self, hidden: &Hidden, number: usize, value: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(key) = &self.key else { return Cow::Borrowed(value) };
        if hidden.all || hidden.parameters.iter().any(|n| usize::from(*n) == number) {
            return Cow::Owned(hash(key, value));
        }
        self.patterns_of(key, Cow::Borrowed(value))
    }

    /// The message of an error about a statement: what it quotes may be a value.
    pub fn message<'a>(&self, hidden: &Hidden, message: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(key) = &self.key else { return Cow::Borrowed(message) };
        if !hidden.all {
            return self.patterns_of(key, Cow::Borrowed(message));
        }
        let mut out = Vec::with_capacity(message.len());
        let mut parts = message.split(|byte| *byte == b'"');
        out.extend_from_slice(parts.next().unwrap_or_default());
        let mut inside = true;
        for part in parts {
            out.push(b'"');
            if inside {
                out.extend_from_slice(&hash(key, part));
            } else {
                out.extend_from_slice(part);
            }
            inside = !inside;
        }
        self.patterns_of(key, Cow::Owned(out))
    }

    /// A plan in JSON: its expressions are SQL, and hidden like it.
    pub fn plan(&self, hidden: &Hidden, plan: &mut serde_json::Value) {
        let Some(key) = &self.key else { return };
        match plan {
            serde_json::Value::String(text) => {
                let sql = text.as_bytes();
                let tokens = tokens(sql);
                let triggered =
                    hidden.all || self.columns.iter().any(|column| column.is_in(sql, &tokens));
                let shown = if triggered {
                    Cow::Owned(literals(key, sql, &tokens))
                } else {
                    Cow::Borrowed(sql)
                };
                let shown = String::from_utf8_lossy(&self.patterns_of(key, shown)).into_owned();
                *text = shown;
            }
            serde_json::Value::Array(items) => {
                items.iter_mut().for_each(|item| self.plan(hidden, item));
            }
            serde_json::Value::Object(members) => {
                members.values_mut().for_each(|item| self.plan(hidden, item));
            }
            _ => {}
        }
    }

    fn patterns_of<'a>(&self, key: &hmac::Key, text: Cow<'a, [u8]>) -> Cow<'a, [u8]> {
        self.patterns.iter().fold(text, |text, pattern| {
            if !pattern.is_match(&text) {
                return text;
            }
            let replaced = pattern.replace_all(&text, |found: &Captures<'_>| hash(key, &found[0]));
            Cow::Owned(replaced.into_owned())
        })
    }
}

fn last_part(table: &str) -> String {
    table.rsplit('.').next().unwrap_or(table).to_lowercase()
}

impl Column {
    /// Does the statement mention the column, or may it write it without naming it?
    fn is_in(&self, sql: &[u8], tokens: &[Token]) -> bool {
        let mentions = |name: &str| {
            tokens.iter().any(|token| match token.kind {
                Kind::Word | Kind::Quoted => is_name(sql, token, name),
                // Code in a text, say of DO; a comment may quote anything.
                Kind::Dollar | Kind::Text | Kind::Comment => {
                    contains(&sql[token.inner.clone()], name)
                }
                _ => false,
            })
        };
        if mentions(&self.column) || tokens.first().is_some_and(|t| is_name(sql, t, "execute")) {
            return true;
        }
        match &self.table {
            Some(table) => {
                mentions(table) && ["insert", "copy", "merge", "row"].iter().any(|w| mentions(w))
            }
            None => nameless_insert(sql, tokens),
        }
    }
}

/// `INSERT INTO name` that is not followed by a list of columns.
fn nameless_insert(sql: &[u8], tokens: &[Token]) -> bool {
    let bare = tokens.iter().filter(|token| token.kind != Kind::Comment).collect::<Vec<_>>();
    bare.windows(2).enumerate().any(|(at, pair)| {
        if !(is_name(sql, pair[0], "insert") && is_name(sql, pair[1], "into")) {
            return false;
        }
        let after = bare.get(at + 2..).unwrap_or_default();
        let name = after
            .iter()
            .take_while(|token| {
                matches!(token.kind, Kind::Word | Kind::Quoted) && !is_name(sql, token, "values")
                    || &sql[token.range.clone()] == b"."
            })
            .count();
        let next = after.get(name).map(|token| &sql[token.range.clone()]);
        // `name (SELECT …)` looks like a list of columns but is none.
        next != Some(b"(") || after.get(name + 1).is_some_and(|t| is_name(sql, t, "select"))
    })
}

fn is_name(sql: &[u8], token: &Token, name: &str) -> bool {
    // Unicode escapes would have to be decoded to know the name; such a name counts as every name.
    let escaped = token.kind == Kind::Quoted && sql[token.range.start] != b'"';
    matches!(token.kind, Kind::Word | Kind::Quoted)
        && (escaped
            || std::str::from_utf8(&sql[token.inner.clone()])
                .is_ok_and(|text| text.to_lowercase() == name))
}

fn contains(text: &[u8], name: &str) -> bool {
    text.windows(name.len()).any(|window| window.eq_ignore_ascii_case(name.as_bytes()))
}

/// The text with every literal and comment hashed. Row counts stay: they are no values.
fn literals(key: &hmac::Key, sql: &[u8], tokens: &[Token]) -> Vec<u8> {
    let mut out = Vec::with_capacity(sql.len() + 64);
    let mut done = 0;
    let mut before: Option<&Token> = None;
    for token in tokens {
        let text = &sql[token.inner.clone()];
        let counts = ["limit", "offset", "first", "next"];
        let open_and_close: Option<(&[u8], &[u8])> = match token.kind {
            Kind::Number if before.is_some_and(|b| counts.iter().any(|w| is_name(sql, b, w))) => {
                None
            }
            Kind::Number => Some((b"'", b"'")),
            Kind::Text => Some((b"'", b"'")),
            Kind::Dollar => Some((
                &sql[token.range.start..token.inner.start],
                &sql[token.inner.end..token.range.end],
            )),
            Kind::Comment if sql[token.range.start] == b'-' => Some((b"-- ", b"")),
            Kind::Comment => Some((b"/* ", b" */")),
            _ => None,
        };
        if let Some((open, close)) = open_and_close {
            out.extend_from_slice(&sql[done..token.range.start]);
            out.extend_from_slice(open);
            out.extend_from_slice(&match token.kind {
                Kind::Text => hash(key, &without_doubled_quotes(text)),
                _ => hash(key, text),
            });
            out.extend_from_slice(close);
            done = token.range.end;
        }
        before = Some(token);
    }
    out.extend_from_slice(&sql[done..]);
    out
}

fn without_doubled_quotes(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        out.push(byte);
        rest = if byte == b'\'' { after.strip_prefix(b"'").unwrap_or(after) } else { after };
    }
    out
}

/// `redacted:` and 64 bits of HMAC-SHA256.
fn hash(key: &hmac::Key, value: &[u8]) -> Vec<u8> {
    let mut out = b"redacted:".to_vec();
    encode::hex(&mut out, &hmac::sign(key, value).as_ref()[..8]);
    out
}

fn open_key(dir: &Path) -> Result<hmac::Key, LogError> {
    let path = dir.join(KEY);
    let bytes = match fs::read(&path) {
        Ok(bytes) => Zeroizing::new(bytes),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let mut bytes = Zeroizing::new(vec![0; 32]);
            SystemRandom::new()
                .fill(&mut bytes)
                .map_err(|_| LogError::file(&path)(io::Error::other("no randomness")))?;
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600);
            options
                .open(&path)
                .and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()))
                .map_err(LogError::file(&path))?;
            bytes
        }
        Err(e) => return Err(LogError::file(&path)(e)),
    };
    let mode = fs::metadata(&path).map_err(LogError::file(&path))?.mode();
    if mode & 0o077 != 0 {
        return Err(LogError::ExposedKey(path));
    }
    if bytes.len() != 32 {
        return Err(LogError::BadKey(path));
    }
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str) -> Rule {
        Rule { column: Some(name.into()), ..Rule::default() }
    }

    fn redactor(rules: &[Rule]) -> (Redactor, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        (Redactor::open(dir.path(), rules).unwrap(), dir)
    }

    fn shown(redactor: &Redactor, sql: &str) -> String {
        String::from_utf8(redactor.statement(sql.as_bytes()).0.into_owned()).unwrap()
    }

    #[test]
    fn a_hidden_column_is_hidden_in_every_form() {
        let (redactor, _dir) = redactor(&[column("customer.email")]);
        for sql in [
            "SELECT * FROM customer WHERE email = 'SECRET'",
            "SELECT * FROM customer WHERE \"email\" = $q$SECRET$q$",
            "SELECT * FROM customer WHERE Email IN ('a', E'SECRET')",
            "SELECT * FROM customer WHERE U&\"\\0065mail\" = 'SECRET'",
            "INSERT INTO customer VALUES (1, 'SECRET')",
            "INSERT INTO shop.customer (id, email) VALUES (1, 'SECRET')",
            "UPDATE customer SET email = lower('SECRET') WHERE id = 4",
            "DO $$ BEGIN UPDATE customer SET email = 'SECRET'; END $$",
            "SELECT email AS x FROM customer /* SECRET */",
            "SELECT email -- SECRET\n FROM customer",
            "EXECUTE find('SECRET')",
            "SELECT email FROM customer WHERE email > 'unfinished SECRET",
        ] {
            let text = shown(&redactor, sql);
            assert!(!text.contains("SECRET"), "{text}");
            assert!(text.contains("redacted:"), "{text}");
        }
    }

    #[test]
    fn the_shape_stays_and_equal_values_stay_equal() {
        let (redactor, _dir) = redactor(&[column("email")]);
        let text = shown(&redactor, "SELECT id FROM c WHERE email = 'a''b' AND n = 5 LIMIT 10");
        let hash = text.split('\'').nth(1).unwrap().to_owned();
        assert!(hash.starts_with("redacted:") && hash.len() == 25);
        assert!(text.starts_with("SELECT id FROM c WHERE email = 'redacted:"), "{text}");
        assert!(text.ends_with("' LIMIT 10"), "{text}");
        let hidden = redactor.statement(b"SELECT email").1;
        assert_eq!(redactor.parameter(&hidden, 1, b"a'b").as_ref(), hash.as_bytes());
        assert_ne!(redactor.parameter(&hidden, 1, b"other").as_ref(), hash.as_bytes());
    }

    #[test]
    fn other_statements_are_left_alone() {
        let (redactor, _dir) = redactor(&[column("customer.email")]);
        for sql in [
            "SELECT name FROM customer WHERE id = 5",
            "INSERT INTO orders VALUES (1, 'x')",
            "SELECT 'plain'",
        ] {
            assert_eq!(shown(&redactor, sql), sql);
        }
        let (none, _dir) = self::redactor(&[]);
        assert!(matches!(none.statement(b"SELECT email").0, Cow::Borrowed(_)));
    }

    #[test]
    fn a_column_without_table_is_found_in_an_insert_that_names_no_columns() {
        let (redactor, _dir) = redactor(&[column("email")]);
        for sql in [
            "INSERT INTO c VALUES ('SECRET')",
            "INSERT INTO s.c AS x VALUES ('SECRET')",
            "INSERT INTO c (SELECT 'SECRET')",
            "WITH a AS (INSERT INTO c SELECT 'SECRET') SELECT 1",
        ] {
            assert!(!shown(&redactor, sql).contains("SECRET"), "{sql}");
        }
        let open = "INSERT INTO c (id) VALUES ('open')";
        assert_eq!(shown(&redactor, open), open);
    }

    #[test]
    fn patterns_and_parameters_are_hidden_where_they_are() {
        let rules = [
            Rule { pattern: Some(r"\d{4}-\d{4}".into()), ..Rule::default() },
            Rule {
                parameters: Some(vec![2]),
                statement: Some("(?i)from patient".into()),
                ..Rule::default()
            },
        ];
        let (redactor, _dir) = redactor(&rules);
        let text = shown(&redactor, "SELECT 'card 1234-5678' /* 1234-5678 */");
        assert!(!text.contains("5678") && text.contains("'card redacted:"), "{text}");
        let hidden = redactor.statement(b"SELECT 1 FROM patient").1;
        assert_eq!(redactor.parameter(&hidden, 1, b"x").as_ref(), b"x");
        assert!(redactor.parameter(&hidden, 2, b"x").starts_with(b"redacted:"));
        assert!(redactor.parameter(&hidden, 1, b"1234-5678").starts_with(b"redacted:"));
        let other = redactor.statement(b"SELECT 1").1;
        assert_eq!(redactor.parameter(&other, 2, b"x").as_ref(), b"x");
    }

    #[test]
    fn errors_and_plans_do_not_tell_it_either() {
        let (redactor, _dir) = redactor(&[column("email")]);
        let hidden = redactor.statement(b"SELECT email").1;
        let message = redactor.message(&hidden, b"invalid input: \"SECRET\" here");
        assert!(
            message.starts_with(b"invalid input: \"redacted:") && message.ends_with(b"\" here")
        );
        let mut plan = serde_json::json!([{ "Plan": { "Filter": "(email = 'SECRET'::text)", "Plan Rows": 5 } }]);
        redactor.plan(&Hidden::default(), &mut plan);
        assert!(!plan.to_string().contains("SECRET"), "{plan}");
        assert_eq!(plan[0]["Plan"]["Plan Rows"], 5);
    }

    #[test]
    fn a_bad_rule_is_named() {
        let dir = tempfile::tempdir().unwrap();
        for (rule, part) in [
            (Rule::default(), "give one of"),
            (
                Rule { column: Some("a".into()), pattern: Some("b".into()), ..Rule::default() },
                "give one of",
            ),
            (Rule { pattern: Some("(".into()), ..Rule::default() }, "regex"),
            (Rule { pattern: Some("x*".into()), ..Rule::default() }, "empty text"),
            (Rule { parameters: Some(vec![0]), ..Rule::default() }, "from 1"),
            (column("t."), "names no column"),
        ] {
            let error = Redactor::open(dir.path(), &[rule]).unwrap_err().to_string();
            assert!(error.starts_with("redaction rule 1:") && error.contains(part), "{error}");
        }
        assert!(!dir.path().join(KEY).exists());
    }
}
