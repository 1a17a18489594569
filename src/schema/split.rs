//! Splits a migration file into statements where the server would.
//!
//! The one function is the seam: another reader of SQL can be put in its place. A wrong split here
//! cannot widen what a migration may do, since the server and the gate see what is sent; it can only
//! make a file fail.

/// One statement of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Statement<'a> {
    /// Its text, without the semicolon and the comments before it.
    pub(super) text: &'a str,
    /// The byte at which it starts in the file.
    pub(super) start: usize,
}

/// A file that ends inside a string, a quoted name or a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unterminated {
    /// What does not end.
    pub(super) what: &'static str,
    /// The byte at which it starts in the file.
    pub(super) start: usize,
}

/// The statements of `sql`, empty ones left out.
///
/// Lexical structure as in the manual, section 4.1 "Lexical Structure", with
/// `standard_conforming_strings` on. Semicolons in parentheses (`CREATE RULE … DO (…; …)`) and
/// between `BEGIN ATOMIC` and its `END` do not end a statement.
pub(super) fn split(sql: &str) -> Result<Vec<Statement<'_>>, Unterminated> {
    let mut splitter = Splitter { sql, ..Splitter::default() };
    let mut at = 0;
    while at < sql.len() {
        at = splitter.step(at)?;
    }
    splitter.finish(sql.len());
    Ok(splitter.found)
}

/// The words and symbols of a statement in upper case, with strings, quoted names and comments left
/// out; as many as are asked for.
pub(super) fn words(statement: &str, most: usize) -> Vec<String> {
    let mut words = Vec::new();
    let mut at = 0;
    while at < statement.len() && words.len() < most {
        let Ok((end, kind)) = token(statement, at) else { break };
        if kind == Token::Word {
            words.push(statement[at..end].to_ascii_uppercase());
        }
        at = end;
    }
    words
}

#[derive(Default)]
struct Splitter<'a> {
    sql: &'a str,
    found: Vec<Statement<'a>>,
    /// Where the statement under way starts, once it has a token.
    start: Option<usize>,
    parentheses: usize,
    /// The last word in upper case, to see `BEGIN ATOMIC`.
    last: String,
    /// How many `BEGIN ATOMIC` and `CASE` wait for their `END`.
    blocks: usize,
    atomic: bool,
}

impl Splitter<'_> {
    fn step(&mut self, at: usize) -> Result<usize, Unterminated> {
        let (end, kind) = token(self.sql, at)?;
        match kind {
            Token::Blank => return Ok(end),
            Token::Word => self.word(&self.sql[at..end].to_ascii_uppercase()),
            Token::Quoted => self.last.clear(),
            Token::Symbol => match self.sql.as_bytes()[at] {
                b';' if self.parentheses == 0 && self.blocks == 0 => {
                    self.finish(at);
                    return Ok(end);
                }
                b'(' => self.parentheses += 1,
                b')' => self.parentheses = self.parentheses.saturating_sub(1),
                _ => {}
            },
        }
        self.start.get_or_insert(at);
        Ok(end)
    }

    fn word(&mut self, word: &str) {
        match word {
            "ATOMIC" if self.last == "BEGIN" => {
                self.atomic = true;
                self.blocks += 1;
            }
            "CASE" if self.atomic => self.blocks += 1,
            "END" if self.atomic => self.blocks = self.blocks.saturating_sub(1),
            _ => {}
        }
        word.clone_into(&mut self.last);
    }

    fn finish(&mut self, end: usize) {
        if let Some(start) = self.start.take() {
            self.found.push(Statement { text: self.sql[start..end].trim_end(), start });
        }
        self.parentheses = 0;
        self.blocks = 0;
        self.atomic = false;
        self.last.clear();
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    /// White space or a comment.
    Blank,
    /// A key word, a name or a number.
    Word,
    /// A string or a quoted name.
    Quoted,
    /// Any other character.
    Symbol,
}

/// The token at `at`, which is the start of a character: where it ends and what it is.
fn token(sql: &str, at: usize) -> Result<(usize, Token), Unterminated> {
    let bytes = sql.as_bytes();
    let next = bytes.get(at + 1).copied();
    Ok(match bytes[at] {
        b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => (at + 1, Token::Blank),
        b'-' if next == Some(b'-') => {
            let end = bytes[at..].iter().position(|b| matches!(b, b'\n' | b'\r'));
            (end.map_or(sql.len(), |n| at + n), Token::Blank)
        }
        b'/' if next == Some(b'*') => (comment(bytes, at)?, Token::Blank),
        b'\'' => (quoted(bytes, at, at, b'\'', false)?, Token::Quoted),
        b'"' => (quoted(bytes, at, at, b'"', false)?, Token::Quoted),
        b'e' | b'E' if next == Some(b'\'') => {
            (quoted(bytes, at, at + 1, b'\'', true)?, Token::Quoted)
        }
        b'$' => match dollar_quoted(sql, at)? {
            Some(end) => (end, Token::Quoted),
            None => (at + 1, Token::Symbol),
        },
        b if is_word_start(b) || b.is_ascii_digit() => {
            let end = bytes[at..]
                .iter()
                .position(|b| !(is_word_start(*b) || b.is_ascii_digit() || *b == b'$'));
            (end.map_or(sql.len(), |n| at + n), Token::Word)
        }
        _ => (at + 1, Token::Symbol),
    })
}

/// Letters, underscore, and everything that is not ASCII.
fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

/// Comments nest.
fn comment(bytes: &[u8], start: usize) -> Result<usize, Unterminated> {
    let mut depth = 0usize;
    let mut at = start;
    loop {
        match (bytes.get(at), bytes.get(at + 1)) {
            (Some(b'/'), Some(b'*')) => {
                depth += 1;
                at += 2;
            }
            (Some(b'*'), Some(b'/')) => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return Ok(at);
                }
            }
            (Some(_), _) => at += 1,
            (None, _) => return Err(Unterminated { what: "comment", start }),
        }
    }
}

/// A doubled quote stands for one; a backslash escapes only in `E'…'`.
fn quoted(
    bytes: &[u8],
    start: usize,
    open: usize,
    quote: u8,
    escapes: bool,
) -> Result<usize, Unterminated> {
    let mut at = open + 1;
    loop {
        match bytes.get(at) {
            Some(b'\\') if escapes => at += 2,
            Some(b) if *b == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
            Some(b) if *b == quote => return Ok(at + 1),
            Some(_) => at += 1,
            None => {
                let what = if quote == b'"' { "quoted name" } else { "string" };
                return Err(Unterminated { what, start });
            }
        }
    }
}

/// `$tag$ … $tag$`; `None` if the dollar sign begins no such string.
fn dollar_quoted(sql: &str, start: usize) -> Result<Option<usize>, Unterminated> {
    let bytes = sql.as_bytes();
    let mut at = start + 1;
    while let Some(&b) = bytes.get(at) {
        if b == b'$' {
            let tag = &sql[start..=at];
            let Some(length) = sql[at + 1..].find(tag) else {
                return Err(Unterminated { what: "dollar-quoted string", start });
            };
            return Ok(Some(at + 1 + length + tag.len()));
        }
        if !(is_word_start(b) || (b.is_ascii_digit() && at > start + 1)) {
            break;
        }
        at += 1;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(sql: &str) -> Vec<&str> {
        split(sql).unwrap().into_iter().map(|statement| statement.text).collect()
    }

    #[test]
    fn a_semicolon_ends_a_statement_only_where_the_server_thinks_so() {
        assert_eq!(texts("a; b ;; -- c;\n d"), ["a", "b", "d"]);
        assert_eq!(texts("select ';', \";\", E'\\';' ; x"), ["select ';', \";\", E'\\';'", "x"]);
        assert_eq!(texts("select 'it''s;'; x"), ["select 'it''s;'", "x"]);
        assert_eq!(texts("select '\\'; x"), ["select '\\'", "x"]);
        assert_eq!(texts("do $a$ ; $$ ; $b$ $a$; x"), ["do $a$ ; $$ ; $b$ $a$", "x"]);
        assert_eq!(texts("select a$1; select $1; x"), ["select a$1", "select $1", "x"]);
        assert_eq!(texts("/* ; /* ; */ ; */ a; b"), ["a", "b"]);
        assert_eq!(
            texts("create rule r as on x do (a; b); c"),
            ["create rule r as on x do (a; b)", "c"]
        );
        assert_eq!(texts("select U&'d\\0061;' ; ä; b"), ["select U&'d\\0061;'", "ä", "b"]);
        assert!(texts(" -- nothing\n/**/;").is_empty());
    }

    #[test]
    fn an_sql_body_is_one_statement() {
        let function = "create function f() returns int begin atomic select 1; \
                        select case when true then 2 end; end";
        assert_eq!(texts(&format!("{function}; x")), [function, "x"]);
        assert_eq!(texts("begin; select 1; end; x"), ["begin", "select 1", "end", "x"]);
    }

    #[test]
    fn what_does_not_end_is_named() {
        for (sql, what, start) in [
            ("a; 'b", "string", 3),
            ("\"b", "quoted name", 0),
            ("/* /* */", "comment", 0),
            ("x $q$ $$", "dollar-quoted string", 2),
            ("E'\\'", "string", 0),
        ] {
            assert_eq!(split(sql), Err(Unterminated { what, start }), "{sql}");
        }
    }

    #[test]
    fn words_are_those_outside_of_strings() {
        assert_eq!(
            words("copy /* x */ t from \"stdin\" 'y' Stdin", 9),
            ["COPY", "T", "FROM", "STDIN"]
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_split_or_refused(sql in "[a-c'\"$;()*/\\-\\\\ \nE\u{e9}]{0,60}") {
            if let Ok(statements) = split(&sql) {
                for statement in statements {
                    proptest::prop_assert!(sql[statement.start..].starts_with(statement.text));
                }
            }
        }
    }
}
