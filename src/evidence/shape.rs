//! The shape of a SQL text: where its literals, names and comments are.
//!
//! Lexical rules are those of the manual's "4.1. Lexical Structure". This reader serves redaction
//! and tags, not verdicts; what it cannot make sense of it takes for one long literal, so that
//! doubt hides too much and never too little.

use std::ops::Range;

/// A piece of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Where it is, quotes included.
    pub range: Range<usize>,
    /// What is inside the quotes or the comment marks; the range itself for the rest.
    pub inner: Range<usize>,
}

/// What a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A name or key word without quotes.
    Word,
    /// A name in double quotes.
    Quoted,
    /// `'…'`, also with a prefix.
    Text,
    /// `$tag$…$tag$`.
    Dollar,
    /// A number.
    Number,
    /// `$1`.
    Parameter,
    /// `-- …` or `/* … */`.
    Comment,
    /// One other character.
    Other,
}

/// Reads the pieces of a text; blanks are left out.
pub fn tokens(sql: &[u8]) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < sql.len() {
        if sql[at].is_ascii_whitespace() {
            at += 1;
            continue;
        }
        let token = next(sql, at);
        at = token.range.end.max(at + 1);
        tokens.push(token);
    }
    tokens
}

fn next(sql: &[u8], at: usize) -> Token {
    let peek = |ahead: usize| sql.get(at + ahead).copied().unwrap_or(0);
    let plain = |kind, end| Token { kind, range: at..end, inner: at..end };
    match sql[at] {
        b'\'' => quoted(sql, at, at, false),
        b'E' | b'e' if peek(1) == b'\'' => quoted(sql, at, at + 1, true),
        b'B' | b'b' | b'X' | b'x' | b'N' | b'n' if peek(1) == b'\'' => {
            quoted(sql, at, at + 1, false)
        }
        b'U' | b'u' if peek(1) == b'&' && peek(2) == b'\'' => quoted(sql, at, at + 2, false),
        b'U' | b'u' if peek(1) == b'&' && peek(2) == b'"' => {
            Token { range: at..name_end(sql, at + 2), ..double(sql, at + 2) }
        }
        b'"' => double(sql, at),
        b'-' if peek(1) == b'-' => {
            let end = sql[at..].iter().position(|b| matches!(b, b'\n' | b'\r'));
            let end = end.map_or(sql.len(), |length| at + length);
            Token { kind: Kind::Comment, range: at..end, inner: at + 2..end }
        }
        b'/' if peek(1) == b'*' => comment(sql, at),
        b'$' if peek(1).is_ascii_digit() => {
            plain(Kind::Parameter, at + 1 + run(&sql[at + 1..], |b| b.is_ascii_digit()))
        }
        b'$' => dollar(sql, at).unwrap_or_else(|| plain(Kind::Other, at + 1)),
        b'0'..=b'9' => plain(Kind::Number, at + number(&sql[at..])),
        b'.' if peek(1).is_ascii_digit() => plain(Kind::Number, at + number(&sql[at..])),
        byte if is_name_start(byte) => plain(
            Kind::Word,
            at + run(&sql[at..], |b| is_name_start(b) || b.is_ascii_digit() || b == b'$'),
        ),
        _ => plain(Kind::Other, at + 1),
    }
}

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn run(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|byte| !belongs(*byte)).unwrap_or(bytes.len())
}

/// Digits, points, exponents, and the radix forms and separators of PostgreSQL 16.
fn number(bytes: &[u8]) -> usize {
    let mut end = 0;
    while let Some(&byte) = bytes.get(end) {
        let sign = matches!(byte, b'+' | b'-') && matches!(bytes[..end].last(), Some(b'e' | b'E'));
        // `1..2` in a loop of plpgsql is two numbers, which matters to nobody here.
        if !(byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_' || sign) {
            break;
        }
        end += 1;
    }
    end
}

/// `open` is where the quote is; `start` where the prefix is.
fn quoted(sql: &[u8], start: usize, open: usize, escapes: bool) -> Token {
    let mut at = open + 1;
    while at < sql.len() {
        match sql[at] {
            b'\\' if escapes => at += 1,
            b'\'' if sql.get(at + 1) == Some(&b'\'') => at += 1,
            b'\'' => {
                return Token { kind: Kind::Text, range: start..at + 1, inner: open + 1..at };
            }
            _ => {}
        }
        at += 1;
    }
    Token { kind: Kind::Text, range: start..sql.len(), inner: (open + 1).min(sql.len())..sql.len() }
}

fn name_end(sql: &[u8], open: usize) -> usize {
    let mut at = open + 1;
    while at < sql.len() {
        match (sql[at], sql.get(at + 1)) {
            (b'"', Some(b'"')) => at += 2,
            (b'"', _) => return at + 1,
            _ => at += 1,
        }
    }
    sql.len()
}

fn double(sql: &[u8], open: usize) -> Token {
    let end = name_end(sql, open);
    let closed = end > open + 1 && sql[end - 1] == b'"';
    let inner = open + 1..if closed { end - 1 } else { end };
    Token { kind: Kind::Quoted, range: open..end, inner }
}

fn comment(sql: &[u8], start: usize) -> Token {
    let (mut at, mut depth) = (start, 0_usize);
    while at < sql.len() {
        match sql[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return Token {
                        kind: Kind::Comment,
                        range: start..at,
                        inner: start + 2..at - 2,
                    };
                }
            }
            _ => at += 1,
        }
    }
    Token { kind: Kind::Comment, range: start..sql.len(), inner: start + 2..sql.len() }
}

fn dollar(sql: &[u8], start: usize) -> Option<Token> {
    let length = run(&sql[start + 1..], |b| is_name_start(b) || b.is_ascii_digit());
    let open = start + 1 + length;
    if sql.get(open) != Some(&b'$') {
        return None;
    }
    let tag = &sql[start..=open];
    let found = sql[open + 1..].windows(tag.len()).position(|window| window == tag);
    let (inner, end) = match found {
        Some(at) => (open + 1..open + 1 + at, open + 1 + at + tag.len()),
        None => (open + 1..sql.len(), sql.len()),
    };
    Some(Token { kind: Kind::Dollar, range: start..end, inner })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(sql: &str) -> Vec<(Kind, &str)> {
        tokens(sql.as_bytes()).into_iter().map(|t| (t.kind, &sql[t.inner])).collect()
    }

    #[test]
    fn every_form_of_literal_is_one_piece() {
        assert_eq!(
            read(r#"a.b 'it''s' E'\'x' $1 $q$ 'y' $q$ 1.5e-3 "N""m" U&'z' x'0F' -- c"#),
            [
                (Kind::Word, "a"),
                (Kind::Other, "."),
                (Kind::Word, "b"),
                (Kind::Text, "it''s"),
                (Kind::Text, "\\'x"),
                (Kind::Parameter, "$1"),
                (Kind::Dollar, " 'y' "),
                (Kind::Number, "1.5e-3"),
                (Kind::Quoted, "N\"\"m"),
                (Kind::Text, "z"),
                (Kind::Text, "0F"),
                (Kind::Comment, " c"),
            ]
        );
        assert_eq!(read("/* a /* b */ c */ 1")[0], (Kind::Comment, " a /* b */ c "));
    }

    #[test]
    fn what_is_not_closed_goes_to_the_end() {
        for sql in ["'abc", "\"abc", "/*abc", "$$abc", "E'abc\\"] {
            let tokens = tokens(sql.as_bytes());
            assert_eq!(tokens.last().unwrap().range.end, sql.len(), "{sql}");
        }
    }

    proptest! {
        #[test]
        fn pieces_follow_each_other(sql in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut end = 0;
            for token in tokens(&sql) {
                prop_assert!(token.range.start >= end && token.range.end <= sql.len());
                prop_assert!(token.range.start < token.range.end);
                prop_assert!(token.inner.start >= token.range.start && token.inner.end <= token.range.end);
                prop_assert!(sql[end..token.range.start].iter().all(u8::is_ascii_whitespace));
                end = token.range.end;
            }
        }
    }
}
