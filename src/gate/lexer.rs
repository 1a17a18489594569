//! SQL text to tokens, exactly where PostgreSQL's own scanner puts their borders.
//!
//! Source: PostgreSQL manual, "4.1. Lexical Structure", and the rules of `scan.l` from version 13
//! to 18, read with `standard_conforming_strings = on`. Where versions differ, the reading that
//! sees more tokens is taken; the other version then refuses the text as a syntax error, and a
//! string with a syntax error runs nothing at all.
//!
//! Works on bytes: in every encoding the gate lets through, bytes from 0x80 on are letters.

use super::caps::Caps;

/// The kinds of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// A keyword or an identifier without quotes.
    Word,
    /// An identifier in double quotes, `U&` and `UESCAPE` included. Never a keyword.
    Quoted,
    /// A string constant whose value a statement can use: `'…'`, `E'…'`, `U&'…'`, `$$…$$`.
    Text,
    /// A bit string constant: `B'…'`, `X'…'`.
    Bits,
    /// A number without its sign.
    Number,
    /// `$1`
    Parameter,
    /// An operator of the general kind, two-character ones such as `::` and `<=` included.
    Operator,
    /// One of `,()[].;:+-*/%^<>=`
    Symbol(u8),
}

/// One token. Offsets are bytes of the SQL text.
#[derive(Debug, Clone, Copy)]
pub struct Token {
    start: u32,
    end: u32,
    /// Index into the table of rewritten texts; [`Token::AS_IS`] where the text stands as it is.
    text: u32,
    /// What it is.
    pub kind: TokenKind,
}

impl Token {
    const AS_IS: u32 = u32::MAX;

    /// Where it starts.
    pub fn start(self) -> usize {
        self.start as usize
    }

    /// Where it ends (exclusive).
    pub fn end(self) -> usize {
        self.end as usize
    }
}

/// Why a text is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LexError {
    /// PostgreSQL's scanner would refuse it too.
    #[error("{what} at byte {at}")]
    Syntax {
        /// As the server says it, without the text it stands at.
        what: &'static str,
        /// The byte offset where the offending token starts.
        at: usize,
    },
    /// Not valid in its encoding.
    #[error("a byte sequence that is not valid UTF-8 at byte {at}")]
    Encoding {
        /// The byte offset of the first wrong byte.
        at: usize,
    },
    /// Over one of the [`Caps`].
    #[error("{what} is over the cap of {limit}")]
    Cap {
        /// Which cap.
        what: &'static str,
        /// Its value.
        limit: usize,
        /// The byte offset where it was passed.
        at: usize,
    },
}

/// The tokens of a text, comments and white space left out.
#[derive(Debug)]
pub struct Tokens<'a> {
    sql: &'a [u8],
    list: Vec<Token>,
    /// Rewritten texts, one after the other, and where each ends.
    arena: Vec<u8>,
    ends: Vec<u32>,
}

impl<'a> Tokens<'a> {
    /// Reads the whole text.
    pub fn read(sql: &'a [u8], caps: &Caps) -> Result<Self, LexError> {
        if sql.len() > caps.bytes {
            let what = "the length of the text in bytes";
            return Err(LexError::Cap { what, limit: caps.bytes, at: caps.bytes });
        }
        let mut lexer = Lexer {
            out: Self {
                sql,
                list: Vec::with_capacity((sql.len() / 4 + 4).min(4096)),
                arena: Vec::new(),
                ends: Vec::new(),
            },
            at: 0,
            depth: 0,
            caps,
        };
        lexer.run()?;
        Ok(lexer.out)
    }

    /// All tokens.
    pub fn list(&self) -> &[Token] {
        &self.list
    }

    /// The text that was read.
    pub fn sql(&self) -> &'a [u8] {
        self.sql
    }

    /// The text of a token: words in lower case, quoted identifiers as they are meant, both cut to
    /// 63 bytes as the server does; everything else as it is written.
    pub fn text(&self, token: Token) -> &[u8] {
        if token.text == Token::AS_IS {
            return self.sql.get(token.start()..token.end()).unwrap_or_default();
        }
        let index = token.text as usize;
        let start = index.checked_sub(1).and_then(|i| self.ends.get(i)).map_or(0, |e| *e as usize);
        let end = self.ends.get(index).map_or(start, |e| *e as usize);
        self.arena.get(start..end).unwrap_or_default()
    }

    /// The value of a [`TokenKind::Text`] token, escapes and continuation lines resolved. `None`
    /// for other tokens and for values the server would refuse.
    pub fn value(&self, token: Token) -> Option<Vec<u8>> {
        if token.kind != TokenKind::Text {
            return None;
        }
        let written = self.sql.get(token.start()..token.end())?;
        match written.first()? {
            b'$' => {
                let tag = written.iter().skip(1).position(|b| *b == b'$')? + 2;
                written.get(tag..written.len().checked_sub(tag)?).map(<[u8]>::to_vec)
            }
            b'e' | b'E' => plain_value(&written[1..], true),
            b'u' | b'U' => {
                let escape = match self.text(token) {
                    [escape] => *escape,
                    _ => b'\\',
                };
                decode_unicode(&plain_value(&written[2..], false)?, escape)
            }
            _ => plain_value(written, false),
        }
    }
}

/// The server keeps 63 bytes of a name and cuts at a character's border (`NAMEDATALEN`).
const NAME_BYTES: usize = 63;

struct Lexer<'a, 'c> {
    out: Tokens<'a>,
    at: usize,
    depth: usize,
    caps: &'c Caps,
}

impl<'a> Lexer<'a, '_> {
    fn run(&mut self) -> Result<(), LexError> {
        while let Some(byte) = self.peek(0) {
            match byte {
                // Version 16 made the vertical tab white space; it is a syntax error before.
                b' ' | b'\t' | b'\n' | b'\r' | 0x0c | 0x0b => self.at += 1,
                b'-' if self.peek(1) == Some(b'-') => self.line_comment(),
                b'/' if self.peek(1) == Some(b'*') => self.block_comment()?,
                b'\'' => self.string(self.at, Body::Plain)?,
                b'"' => self.quoted_identifier(self.at, false)?,
                b'$' => self.dollar()?,
                b'0'..=b'9' => self.number()?,
                b'.' if self.peek(1).is_some_and(|b| b.is_ascii_digit()) => self.number()?,
                b'.' if self.peek(1) == Some(b'.') => self.push_wide(2, TokenKind::Operator)?,
                b':' if matches!(self.peek(1), Some(b':' | b'=')) => {
                    self.push_wide(2, TokenKind::Operator)?;
                }
                b'(' | b'[' => {
                    self.depth += 1;
                    if self.depth > self.caps.nesting {
                        return Err(self.cap("the depth of parentheses", self.caps.nesting));
                    }
                    self.push_wide(1, TokenKind::Symbol(byte))?;
                }
                b')' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.push_wide(1, TokenKind::Symbol(byte))?;
                }
                b',' | b'.' | b';' | b':' => self.push_wide(1, TokenKind::Symbol(byte))?,
                b'A'..=b'Z' | b'a'..=b'z' | b'_' | 0x80..=0xff => self.word()?,
                _ if is_operator(byte) => self.operator()?,
                _ => return Err(self.syntax("syntax error", self.at)),
            }
        }
        Ok(())
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.out.sql.get(self.at + ahead).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.out.sql.get(self.at..).unwrap_or_default()
    }

    #[expect(clippy::unused_self, reason = "reads as the lexer's error")]
    fn syntax(&self, what: &'static str, at: usize) -> LexError {
        LexError::Syntax { what, at }
    }

    fn cap(&self, what: &'static str, limit: usize) -> LexError {
        LexError::Cap { what, limit, at: self.at }
    }

    fn push(&mut self, start: usize, kind: TokenKind, text: u32) -> Result<(), LexError> {
        if self.out.list.len() >= self.caps.tokens {
            return Err(self.cap("the number of tokens", self.caps.tokens));
        }
        // Offsets fit: the cap on bytes is far below 4 GiB (`Caps` sees to it).
        let (start, end) = (narrow(start), narrow(self.at));
        self.out.list.push(Token { start, end, text, kind });
        Ok(())
    }

    fn push_wide(&mut self, width: usize, kind: TokenKind) -> Result<(), LexError> {
        let start = self.at;
        self.at += width;
        self.push(start, kind, Token::AS_IS)
    }

    /// Closes the text that was last added to the arena and gives its index.
    fn seal(&mut self) -> u32 {
        self.out.ends.push(narrow(self.out.arena.len()));
        narrow(self.out.ends.len() - 1)
    }

    fn line_comment(&mut self) {
        let rest = self.rest();
        self.at += rest.iter().position(|b| matches!(b, b'\n' | b'\r')).unwrap_or(rest.len());
    }

    fn block_comment(&mut self) -> Result<(), LexError> {
        let start = self.at;
        self.at += 2;
        let mut depth = 1_usize;
        while depth > 0 {
            let rest = self.rest();
            let Some(next) = rest.iter().position(|b| matches!(b, b'*' | b'/')) else {
                return Err(self.syntax("unterminated /* comment", start));
            };
            self.at += next;
            match (self.peek(0), self.peek(1)) {
                (Some(b'/'), Some(b'*')) => {
                    depth += 1;
                    self.at += 2;
                    if depth > self.caps.comment_depth {
                        let what = "the depth of nested comments";
                        return Err(self.cap(what, self.caps.comment_depth));
                    }
                }
                (Some(b'*'), Some(b'/')) => {
                    depth -= 1;
                    self.at += 2;
                }
                _ => self.at += 1,
            }
        }
        Ok(())
    }

    /// A string from its opening quote; `start` is where its prefix starts.
    fn string(&mut self, start: usize, body: Body) -> Result<(), LexError> {
        loop {
            self.at += 1;
            self.string_piece(start, body)?;
            match continuation(self.rest()) {
                Some(skip) => self.at += skip,
                None => break,
            }
        }
        let kind = if body == Body::Bits { TokenKind::Bits } else { TokenKind::Text };
        if body == Body::Unicode {
            let end = self.at;
            let escape = self.uescape(start)?;
            self.out.arena.push(escape);
            let text = self.seal();
            self.push(start, kind, text)?;
            // The token ends where the string does, so that its value can be read again.
            if let Some(token) = self.out.list.last_mut() {
                token.end = narrow(end);
            }
            return Ok(());
        }
        self.push(start, kind, Token::AS_IS)
    }

    /// From after an opening quote to after the closing one.
    fn string_piece(&mut self, start: usize, body: Body) -> Result<(), LexError> {
        loop {
            let rest = self.rest();
            let found = match body {
                Body::Escapes => rest.iter().position(|b| matches!(b, b'\'' | b'\\')),
                _ => rest.iter().position(|b| *b == b'\''),
            };
            let Some(found) = found else {
                return Err(self.syntax(body.unterminated(), start));
            };
            self.at += found;
            if self.peek(0) == Some(b'\\') {
                if self.peek(1).is_none() {
                    return Err(self.syntax(body.unterminated(), start));
                }
                self.at += 2;
            } else if self.peek(1) == Some(b'\'') && body != Body::Bits {
                self.at += 2;
            } else {
                self.at += 1;
                return Ok(());
            }
        }
    }

    /// An identifier from its opening double quote.
    fn quoted_identifier(&mut self, start: usize, unicode: bool) -> Result<(), LexError> {
        self.at += 1;
        let from = self.at;
        let mut doubled = false;
        let to = loop {
            let rest = self.rest();
            let Some(found) = rest.iter().position(|b| *b == b'"') else {
                return Err(self.syntax("unterminated quoted identifier", start));
            };
            self.at += found + 1;
            if self.peek(0) == Some(b'"') {
                doubled = true;
                self.at += 1;
            } else {
                break self.at - 1;
            }
        };
        let inner = self.out.sql.get(from..to).unwrap_or_default();
        if inner.is_empty() {
            return Err(self.syntax("zero-length delimited identifier", start));
        }
        let mut name = inner.to_vec();
        if doubled {
            let mut previous_was_quote = false;
            name.retain(|b| {
                previous_was_quote = *b == b'"' && !previous_was_quote;
                *b != b'"' || previous_was_quote
            });
        }
        if unicode {
            let escape = self.uescape(start)?;
            name = decode_unicode(&name, escape)
                .ok_or_else(|| self.syntax("invalid Unicode escape", start))?;
        }
        name.truncate(cut(&name));
        self.out.arena.extend_from_slice(&name);
        let text = self.seal();
        self.push(start, TokenKind::Quoted, text)
    }

    /// `UESCAPE 'x'` after a `U&` token, if it is there (`base_yylex` in parser.c).
    fn uescape(&mut self, start: usize) -> Result<u8, LexError> {
        let back = self.at;
        self.space()?;
        let word = self.rest().get(..7).unwrap_or_default();
        let ends = self.peek(7).is_none_or(|b| !is_identifier(b));
        if !word.eq_ignore_ascii_case(b"uescape") || !ends {
            self.at = back;
            return Ok(b'\\');
        }
        self.at += 7;
        self.space()?;
        // The server takes any string constant of one character here; the plain form is the only
        // one anybody writes, and refusing the others is on the safe side.
        match (self.peek(0), self.peek(1), self.peek(2)) {
            (Some(b'\''), Some(escape), Some(b'\''))
                if !escape.is_ascii_hexdigit()
                    && !matches!(escape, b'+' | b'\'' | b'"' | 0x80..)
                    && !is_space(escape) =>
            {
                self.at += 3;
                if self.peek(0) == Some(b'\'') || continuation(self.rest()).is_some() {
                    return Err(self.syntax("invalid Unicode escape character", start));
                }
                Ok(escape)
            }
            _ => Err(self.syntax("invalid Unicode escape character", start)),
        }
    }

    /// White space and comments.
    fn space(&mut self) -> Result<(), LexError> {
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(b), _) if is_space(b) => self.at += 1,
                (Some(b'-'), Some(b'-')) => self.line_comment(),
                (Some(b'/'), Some(b'*')) => self.block_comment()?,
                _ => return Ok(()),
            }
        }
    }

    /// A parameter or a dollar-quoted string.
    fn dollar(&mut self) -> Result<(), LexError> {
        let start = self.at;
        let rest = self.rest();
        if rest.get(1).is_some_and(u8::is_ascii_digit) {
            let digits = rest.iter().skip(1).take_while(|b| b.is_ascii_digit()).count();
            return self.push_wide(1 + digits, TokenKind::Parameter);
        }
        let tag = rest.iter().skip(1).take_while(|b| is_identifier(**b) && **b != b'$').count();
        if rest.get(1 + tag) != Some(&b'$') {
            return Err(self.syntax("syntax error", start));
        }
        let delimiter = rest.get(..tag + 2).unwrap_or_default();
        self.at += delimiter.len();
        loop {
            let rest = self.rest();
            let Some(found) = rest.iter().position(|b| *b == b'$') else {
                return Err(self.syntax("unterminated dollar-quoted string", start));
            };
            self.at += found;
            if self.rest().starts_with(delimiter) {
                self.at += delimiter.len();
                return self.push(start, TokenKind::Text, Token::AS_IS);
            }
            self.at += 1;
        }
    }

    /// A number. What follows it at once is a token of its own, as up to version 14; later ones
    /// know 0x1F and 1_000 and refuse other junk, so no border moves.
    fn number(&mut self) -> Result<(), LexError> {
        let start = self.at;
        self.digits();
        if self.peek(0) == Some(b'.') && self.peek(1) != Some(b'.') {
            self.at += 1;
            self.digits();
        }
        if matches!(self.peek(0), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(self.peek(1), Some(b'+' | b'-')));
            if self.peek(1 + sign).is_some_and(|b| b.is_ascii_digit()) {
                self.at += 1 + sign;
                self.digits();
            }
        }
        self.push(start, TokenKind::Number, Token::AS_IS)
    }

    fn digits(&mut self) {
        self.at += self.rest().iter().take_while(|b| b.is_ascii_digit()).count();
    }

    fn word(&mut self) -> Result<(), LexError> {
        let start = self.at;
        match (self.peek(0), self.peek(1), self.peek(2)) {
            (Some(b'e' | b'E'), Some(b'\''), _) => {
                self.at += 1;
                return self.string(start, Body::Escapes);
            }
            (Some(b'b' | b'B' | b'x' | b'X'), Some(b'\''), _) => {
                self.at += 1;
                return self.string(start, Body::Bits);
            }
            (Some(b'u' | b'U'), Some(b'&'), Some(b'\'')) => {
                self.at += 2;
                return self.string(start, Body::Unicode);
            }
            (Some(b'u' | b'U'), Some(b'&'), Some(b'"')) => {
                self.at += 2;
                return self.quoted_identifier(start, true);
            }
            // N'…' is the word NCHAR and a string; the word alone is enough here.
            _ => {}
        }
        let rest = self.rest();
        let length = rest.iter().take_while(|b| is_identifier(**b)).count();
        let word = rest.get(..length).unwrap_or_default();
        self.at += length;
        if length <= NAME_BYTES && word.iter().all(|b| !b.is_ascii_uppercase() && *b < 0x80) {
            return self.push(start, TokenKind::Word, Token::AS_IS);
        }
        let mut name = word.to_ascii_lowercase();
        // A Turkish single-byte server folds this letter to an ASCII one.
        if let Some(at) = find(&name, "İ".as_bytes()) {
            name.splice(at..at + 2, *b"i");
        }
        name.truncate(cut(&name));
        self.out.arena.extend_from_slice(&name);
        let text = self.seal();
        self.push(start, TokenKind::Word, text)
    }

    /// An operator: the longest run of operator characters, cut before a comment, and without
    /// trailing signs unless a character says that it is no SQL operator.
    fn operator(&mut self) -> Result<(), LexError> {
        let rest = self.rest();
        let run = rest.iter().take_while(|b| is_operator(**b)).count();
        let run = rest.get(..run).unwrap_or_default();
        let comment = run.windows(2).position(|pair| matches!(pair, b"--" | b"/*"));
        let mut width = comment.unwrap_or(run.len());
        let general = |b: &u8| b"~!@#^&|`?%".contains(b);
        if width > 1 && !run[..width].iter().any(general) {
            while width > 1 && matches!(run[width - 1], b'+' | b'-') {
                width -= 1;
            }
        } else if width > 1
            && matches!(run[width - 1], b'+' | b'-')
            && !run[..width - 1].iter().any(general)
        {
            width = 1;
        }
        match run.first() {
            Some(first) if width == 1 && b"+-*/%^<>=".contains(first) => {
                self.push_wide(1, TokenKind::Symbol(*first))
            }
            _ => self.push_wide(width.max(1), TokenKind::Operator),
        }
    }
}

/// The ways the inside of a string is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Plain,
    Escapes,
    Unicode,
    Bits,
}

impl Body {
    const fn unterminated(self) -> &'static str {
        match self {
            Self::Bits => "unterminated bit string literal",
            _ => "unterminated quoted string",
        }
    }
}

/// If a string goes on after its closing quote, how far it is to the next opening quote: white
/// space with at least one line break, line comments allowed (`quotecontinue` in scan.l).
fn continuation(rest: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut broken = false;
    loop {
        match rest.get(at)? {
            b'\n' | b'\r' => {
                broken = true;
                at += 1;
            }
            b' ' | b'\t' | 0x0c | 0x0b => at += 1,
            b'-' if rest.get(at + 1) == Some(&b'-') => {
                at += rest.get(at..)?.iter().position(|b| matches!(b, b'\n' | b'\r'))?;
            }
            b'\'' if broken => return Some(at),
            _ => return None,
        }
    }
}

/// The value of a quoted string (with its quotes), continuation lines joined.
fn plain_value(written: &[u8], escapes: bool) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(written.len());
    let mut at = 1;
    loop {
        match (written.get(at)?, written.get(at + 1)) {
            (b'\'', Some(b'\'')) => {
                out.push(b'\'');
                at += 2;
            }
            (b'\'', _) => {
                at += 1;
                match written.get(at..).and_then(continuation) {
                    Some(skip) => at += skip + 1,
                    None => return Some(out),
                }
            }
            (b'\\', Some(next)) if escapes => at += escape(written.get(at..)?, *next, &mut out)?,
            (byte, _) => {
                out.push(*byte);
                at += 1;
            }
        }
    }
}

/// One backslash escape of an `E''` string (manual, 4.1.2.2); gives its width.
fn escape(written: &[u8], next: u8, out: &mut Vec<u8>) -> Option<usize> {
    let digits = |from: usize, most: usize, radix: u32| -> Option<(u32, usize)> {
        let digits: Vec<u32> = written
            .iter()
            .skip(from)
            .take(most)
            .map_while(|b| char::from(*b).to_digit(radix))
            .collect();
        let value = digits.iter().fold(0, |value: u32, d| value.wrapping_mul(radix) + d);
        (!digits.is_empty()).then_some((value, digits.len()))
    };
    let simple = match next {
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        b'0'..=b'7' => {
            let (value, width) = digits(1, 3, 8)?;
            out.push(u8::try_from(value & 0xff).ok()?);
            return Some(1 + width);
        }
        b'x' => match digits(2, 2, 16) {
            Some((value, width)) => {
                out.push(u8::try_from(value).ok()?);
                return Some(2 + width);
            }
            None => b'x',
        },
        b'u' | b'U' => {
            let wanted = if next == b'u' { 4 } else { 8 };
            let (value, width) = digits(2, wanted, 16)?;
            if width != wanted {
                return None;
            }
            // A pair of surrogates is one character; nothing the gate looks for needs it.
            let character = char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER);
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(2 + width);
        }
        other => other,
    };
    out.push(simple);
    Some(2)
}

/// Resolves `\XXXX` and `\+XXXXXX` (manual, 4.1.2.3), whatever the escape character is.
fn decode_unicode(written: &[u8], escape: u8) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(written.len());
    let mut at = 0;
    while let Some(byte) = written.get(at) {
        if *byte != escape {
            out.push(*byte);
            at += 1;
            continue;
        }
        if written.get(at + 1) == Some(&escape) {
            out.push(escape);
            at += 2;
            continue;
        }
        let (from, width) =
            if written.get(at + 1) == Some(&b'+') { (at + 2, 6) } else { (at + 1, 4) };
        let digits = std::str::from_utf8(written.get(from..from + width)?).ok()?;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let value = u32::from_str_radix(digits, 16).ok()?;
        let character = char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER);
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        at = from + width;
    }
    Some(out)
}

/// How much of a name the server keeps.
fn cut(name: &[u8]) -> usize {
    if name.len() <= NAME_BYTES {
        return name.len();
    }
    let mut end = NAME_BYTES;
    while end > 0 && name.get(end).is_some_and(|b| b & 0xc0 == 0x80) {
        end -= 1;
    }
    end
}

fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    hay.windows(needle.len()).position(|window| window == needle)
}

fn narrow(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c | 0x0b)
}

const fn is_identifier(byte: u8) -> bool {
    matches!(byte, b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'0'..=b'9' | b'$' | 0x80..)
}

const fn is_operator(byte: u8) -> bool {
    matches!(
        byte,
        b'~' | b'!'
            | b'@'
            | b'#'
            | b'^'
            | b'&'
            | b'|'
            | b'`'
            | b'?'
            | b'+'
            | b'-'
            | b'*'
            | b'/'
            | b'%'
            | b'<'
            | b'>'
            | b'='
    )
}
