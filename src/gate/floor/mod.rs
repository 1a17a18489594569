//! The floor: a verdict's lower bound, read from tokens alone.
//!
//! It never builds a tree. A statement is judged by its leading words and by what stands in
//! positions where PostgreSQL's grammar allows more, and where it is not sure it asks for more.
//! That is sound for one reason: a string with a syntax error anywhere runs nothing at all, so
//! only valid strings need a right answer.

mod cursor;
pub(crate) mod functions;
mod object;
mod query;
pub(crate) mod settings;
mod statement;

use super::caps::Caps;
use super::facts::{Facts, Piece};
use super::lexer::{LexError, Token, TokenKind, Tokens};
use cursor::Cursor;
use statement::{Effects, Prepared};

/// The character encoding a session's client uses, as far as reading SQL goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Encoding {
    /// UTF-8: what is not valid is refused.
    #[default]
    Utf8,
    /// Any other in which bytes below 0x80 always stand for themselves.
    AsciiSuperset,
}

/// Why a text has no facts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The lexer stopped.
    #[error(transparent)]
    Lexer(#[from] LexError),
    /// No statement of PostgreSQL 13 to 18 goes on like this.
    #[error("syntax error at byte {at}")]
    Grammar {
        /// The byte offset of the token that cannot stand there.
        at: usize,
        /// The byte offset after it; the same as `at` at the end of the text.
        end: usize,
    },
}

/// Reads a text.
pub fn read(sql: &[u8], encoding: Encoding, caps: &Caps) -> Result<Facts, Unreadable> {
    read_nested(sql, encoding, caps, 0)
}

/// How deep SQL text inside the arguments of a function is followed.
const MOST_NESTED_TEXTS: usize = 3;

fn read_nested(
    sql: &[u8],
    encoding: Encoding,
    caps: &Caps,
    depth: usize,
) -> Result<Facts, Unreadable> {
    if encoding == Encoding::Utf8
        && let Err(error) = std::str::from_utf8(sql)
    {
        return Err(LexError::Encoding { at: error.valid_up_to() }.into());
    }
    let tokens = Tokens::read(sql, caps)?;
    let mut facts = Facts::default();
    let mut prepared = Prepared::default();
    let mut counter = Position { sql, encoding, byte: 0, character: 1 };
    for span in split(&tokens) {
        let cursor = Cursor::new(&tokens, span.clone());
        let (Some(first), Some(last)) = (cursor.first(), cursor.last()) else { continue };
        let mut effects = Effects::new(caps, encoding, depth, &mut prepared);
        effects.statement(cursor, 0)?;
        let Effects {
            kind, inner, classes, tables, functions, settings, because, overfull, ..
        } = effects;
        // What changes persistent state does not need `read` beside it, EXPLAIN aside.
        facts.classes = facts.classes.and(classes);
        facts.statements += 1;
        facts.pieces.push(Piece {
            classes,
            kind,
            inner,
            offset: first.start(),
            position: counter.at(first.start()),
            end: last.end(),
            tables,
            columns: Vec::new(),
            functions,
            settings,
            because,
            names_read: overfull.then_some(false),
        });
    }
    Ok(facts)
}

/// The statements of a text as the server splits it, empty ones left out.
///
/// A semicolon separates statements unless it stands in parentheses (the actions of a rule) or in
/// the body of a `BEGIN ATOMIC` routine. In a valid string parentheses balance and nothing but a
/// body has these two words side by side at that place; in an invalid one nothing runs.
fn split(tokens: &Tokens<'_>) -> Vec<std::ops::Range<usize>> {
    let list = tokens.list();
    let mut out = Vec::with_capacity(1);
    let (mut start, mut depth, mut bodies) = (0, 0_usize, 0_usize);
    let mut piece_start = 0;
    for (i, token) in list.iter().enumerate() {
        match token.kind {
            TokenKind::Symbol(b'(' | b'[') => depth += 1,
            TokenKind::Symbol(b')' | b']') => depth = depth.saturating_sub(1),
            TokenKind::Symbol(b';') if depth == 0 => {
                piece_start = i + 1;
                if bodies == 0 {
                    if start < i {
                        out.push(start..i);
                    }
                    start = i + 1;
                }
            }
            TokenKind::Word if depth == 0 => {
                let is = |at: usize, word: &[u8]| {
                    list.get(at)
                        .is_some_and(|t| t.kind == TokenKind::Word && tokens.text(*t) == word)
                };
                if bodies > 0 && i == piece_start && is(i, b"end") {
                    bodies -= 1;
                } else if is(i, b"atomic")
                    && i > piece_start
                    && is(i - 1, b"begin")
                    && makes_routine(tokens, list.get(piece_start..i).unwrap_or_default())
                {
                    bodies += 1;
                    // The body's first statement starts here, and may be empty.
                    piece_start = i + 1;
                }
            }
            _ => {}
        }
    }
    if start < list.len() {
        out.push(start..list.len());
    }
    out
}

fn makes_routine(tokens: &Tokens<'_>, piece: &[Token]) -> bool {
    let word = |at: usize| {
        piece.get(at).filter(|t| t.kind == TokenKind::Word).map_or(&b""[..], |t| tokens.text(*t))
    };
    let object = if word(1) == b"or" && word(2) == b"replace" { 3 } else { 1 };
    word(0) == b"create" && matches!(word(object), b"function" | b"procedure")
}

/// Byte offsets to character positions, in one pass over the text.
struct Position<'a> {
    sql: &'a [u8],
    encoding: Encoding,
    byte: usize,
    character: usize,
}

impl Position<'_> {
    fn at(&mut self, byte: usize) -> usize {
        let passed = self.sql.get(self.byte..byte).unwrap_or_default();
        self.character += match self.encoding {
            Encoding::Utf8 => passed.iter().filter(|b| **b & 0xc0 != 0x80).count(),
            Encoding::AsciiSuperset => passed.len(),
        };
        self.byte = byte;
        self.character
    }
}

/// The character position of a byte offset.
pub(crate) fn position(sql: &[u8], encoding: Encoding, byte: usize) -> usize {
    Position { sql, encoding, byte: 0, character: 1 }.at(byte)
}

/// The lists of names the floor judges by.
pub mod lists {
    use super::functions::{self, Effect};
    use super::settings;
    use crate::gate::class::Classes;

    /// What a call of this function needs beyond reading, arguments aside.
    pub fn function(name: &str) -> Classes {
        match functions::effect(name.as_bytes()) {
            Some(Effect::Needs(classes)) => classes,
            _ => Classes::NONE,
        }
    }

    /// Does this function run SQL text that it is given?
    pub fn runs_text(name: &str) -> bool {
        functions::effect(name.as_bytes()) == Some(Effect::RunsText)
    }

    /// What a setting needs: `None` for DEFAULT and RESET, `Some(None)` for a computed value.
    pub fn setting(name: &str, value: Option<Option<&str>>) -> Classes {
        settings::needs(name, value)
    }

    /// Is the language one that cannot leave the database?
    pub fn is_trusted_language(name: &str) -> bool {
        functions::is_trusted_language(name.as_bytes())
    }

    /// Does the extension open a way out?
    pub fn is_dangerous_extension(name: &str) -> bool {
        functions::is_dangerous_extension(name.as_bytes())
    }
}

#[cfg(test)]
mod tests;
