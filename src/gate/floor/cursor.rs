//! A window on the tokens of one statement.

use std::ops::Range;

use crate::gate::facts::Name;
use crate::gate::lexer::{Token, TokenKind, Tokens};

/// The tokens of a statement, or of a part of one. Cheap to copy.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'t, 's> {
    tokens: &'t Tokens<'s>,
    list: &'t [Token],
}

impl<'t, 's> Cursor<'t, 's> {
    pub(super) fn new(tokens: &'t Tokens<'s>, range: Range<usize>) -> Self {
        Self { tokens, list: tokens.list().get(range).unwrap_or_default() }
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn first(&self) -> Option<Token> {
        self.list.first().copied()
    }

    pub(super) fn last(&self) -> Option<Token> {
        self.list.last().copied()
    }

    pub(super) fn get(&self, at: usize) -> Option<Token> {
        self.list.get(at).copied()
    }

    /// The same from `at` on.
    pub(super) fn from(&self, at: usize) -> Self {
        self.range(at..self.list.len())
    }

    pub(super) fn range(&self, range: Range<usize>) -> Self {
        Self { tokens: self.tokens, list: self.list.get(range).unwrap_or_default() }
    }

    /// The word at `at`, in lower case; empty where no unquoted word stands.
    pub(super) fn word(&self, at: usize) -> &'t [u8] {
        match self.list.get(at) {
            Some(token) if token.kind == TokenKind::Word => self.tokens.text(*token),
            _ => b"",
        }
    }

    /// Is there this symbol?
    pub(super) fn is_symbol(&self, at: usize, symbol: u8) -> bool {
        self.list.get(at).is_some_and(|t| t.kind == TokenKind::Symbol(symbol))
    }

    /// Is there this operator?
    pub(super) fn is_operator(&self, at: usize, operator: &[u8]) -> bool {
        self.list
            .get(at)
            .is_some_and(|t| t.kind == TokenKind::Operator && self.tokens.text(*t) == operator)
    }

    /// Do these words stand here, one after the other?
    pub(super) fn words(&self, at: usize, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(i, word)| self.word(at + i) == word.as_bytes())
    }

    /// The identifier at `at`, quoted or not. Reserved words count too: the caller knows whether
    /// one can stand there.
    pub(super) fn identifier(&self, at: usize) -> Option<&'t [u8]> {
        let token = self.list.get(at)?;
        matches!(token.kind, TokenKind::Word | TokenKind::Quoted).then(|| self.tokens.text(*token))
    }

    /// The value of the string constant at `at`.
    pub(super) fn text(&self, at: usize) -> Option<Vec<u8>> {
        self.tokens.value(*self.list.get(at)?)
    }

    /// What stands at `at` as it is written.
    pub(super) fn written(&self, at: usize) -> &'s [u8] {
        self.list
            .get(at)
            .map_or(b"", |t| self.tokens.sql().get(t.start()..t.end()).unwrap_or_default())
    }

    pub(super) fn is_text(&self, at: usize) -> bool {
        self.list.get(at).is_some_and(|t| t.kind == TokenKind::Text)
    }

    /// The dotted name that starts at `at`, and where it ends.
    pub(super) fn name(&self, at: usize) -> Option<(Name, usize)> {
        let mut parts = vec![owned(self.identifier(at)?)];
        let mut at = at + 1;
        while self.is_symbol(at, b'.')
            && let Some(part) = self.identifier(at + 1)
        {
            parts.push(owned(part));
            at += 2;
        }
        Some((Name(parts), at))
    }

    /// Where the parenthesis that opens at `at` closes; the end of the tokens if it does not.
    pub(super) fn closing(&self, at: usize) -> usize {
        let mut depth = 0_usize;
        for (i, token) in self.list.iter().enumerate().skip(at) {
            match token.kind {
                TokenKind::Symbol(b'(' | b'[') => depth += 1,
                TokenKind::Symbol(b')' | b']') => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return i;
                    }
                }
                _ => {}
            }
        }
        self.list.len()
    }

    /// The first place from `at` on, outside parentheses, where one of these words stands.
    pub(super) fn find(&self, at: usize, words: &[&str]) -> Option<usize> {
        let mut depth = 0_usize;
        for (i, token) in self.list.iter().enumerate().skip(at) {
            match token.kind {
                TokenKind::Symbol(b'(' | b'[') => depth += 1,
                TokenKind::Symbol(b')' | b']') => depth = depth.saturating_sub(1),
                TokenKind::Word if depth == 0 => {
                    let text = self.tokens.text(*token);
                    if words.iter().any(|word| word.as_bytes() == text) {
                        return Some(i);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// The parts between commas, outside parentheses.
    pub(super) fn list(&self) -> Vec<Self> {
        let (mut out, mut depth, mut start) = (Vec::new(), 0_usize, 0);
        for (i, token) in self.list.iter().enumerate() {
            match token.kind {
                TokenKind::Symbol(b'(' | b'[') => depth += 1,
                TokenKind::Symbol(b')' | b']') => depth = depth.saturating_sub(1),
                TokenKind::Symbol(b',') if depth == 0 => {
                    out.push(self.range(start..i));
                    start = i + 1;
                }
                _ => {}
            }
        }
        if start < self.list.len() {
            out.push(self.from(start));
        }
        out
    }
}

pub(super) fn owned(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// Words that can be no name of a table, column or function (`RESERVED_KEYWORD` in kwlist.h).
pub(crate) fn is_reserved(word: &[u8]) -> bool {
    matches!(
        word,
        b"all"
            | b"analyse"
            | b"analyze"
            | b"and"
            | b"any"
            | b"array"
            | b"as"
            | b"asc"
            | b"asymmetric"
            | b"both"
            | b"case"
            | b"cast"
            | b"check"
            | b"collate"
            | b"column"
            | b"constraint"
            | b"create"
            | b"current_catalog"
            | b"current_date"
            | b"current_role"
            | b"current_time"
            | b"current_timestamp"
            | b"current_user"
            | b"default"
            | b"deferrable"
            | b"desc"
            | b"distinct"
            | b"do"
            | b"else"
            | b"end"
            | b"except"
            | b"false"
            | b"fetch"
            | b"for"
            | b"foreign"
            | b"from"
            | b"grant"
            | b"group"
            | b"having"
            | b"in"
            | b"initially"
            | b"intersect"
            | b"into"
            | b"lateral"
            | b"leading"
            | b"limit"
            | b"localtime"
            | b"localtimestamp"
            | b"not"
            | b"null"
            | b"offset"
            | b"on"
            | b"only"
            | b"or"
            | b"order"
            | b"placing"
            | b"primary"
            | b"references"
            | b"returning"
            | b"select"
            | b"session_user"
            | b"some"
            | b"symmetric"
            | b"system_user"
            | b"table"
            | b"then"
            | b"to"
            | b"trailing"
            | b"true"
            | b"union"
            | b"unique"
            | b"user"
            | b"using"
            | b"variadic"
            | b"when"
            | b"where"
            | b"window"
            | b"with"
    )
}
