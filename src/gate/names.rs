//! The names of a text's statements, for rules that speak of names.

use std::collections::HashSet;

use super::caps::Caps;
use super::facts::{Facts, Piece};
use super::floor::is_reserved;
use super::lexer::{Token, TokenKind, Tokens};
use super::reader::{NotRead, Readers, Reading};

/// Completes the facts of a text with what its tokens and a reader tell. What cannot be read is
/// marked so; the rules that need it then refuse.
pub(super) fn complete(
    facts: &mut Facts,
    tokens: &Tokens<'_>,
    readers: Option<&Readers>,
    caps: &Caps,
) {
    let list = tokens.list();
    for piece in &mut facts.pieces {
        let from = list.partition_point(|token| token.start() < piece.offset);
        let to = list.partition_point(|token| token.start() < piece.end);
        let own = list.get(from..to).unwrap_or_default();
        words(piece, tokens, own);
        let overfull = piece.names_read == Some(false);
        let read =
            canonical(tokens, own, caps).and_then(|text| readers.ok_or(NotRead::Busy)?.ask(text));
        piece.names_read = Some(!overfull && read.is_ok());
        if let Ok(reading) = read {
            add(piece, reading);
            facts.classes = facts.classes.and(piece.classes);
        }
    }
}

fn add(piece: &mut Piece, reading: Reading) {
    let Reading { classes, tables, columns, functions, whole_rows } = reading;
    piece.classes = piece.classes.and(classes);
    piece.whole_rows |= whole_rows;
    piece.columns = columns;
    for (own, more) in [(&mut piece.tables, tables), (&mut piece.functions, functions)] {
        for name in more {
            if !own.contains(&name) {
                own.push(name);
            }
        }
    }
}

/// Gathers the words of a statement that could be columns or calls, and sees whether it asks for
/// whole rows.
fn words(piece: &mut Piece, tokens: &Tokens<'_>, own: &[Token]) {
    let mut seen = HashSet::new();
    let word = |at: usize| {
        own.get(at).filter(|t| t.kind == TokenKind::Word).map_or(&b""[..], |t| tokens.text(*t))
    };
    for (at, token) in own.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|i| own.get(i)).map(|t| t.kind);
        match token.kind {
            TokenKind::Word | TokenKind::Quoted => {
                let text = tokens.text(*token);
                let after_dot = before == Some(TokenKind::Symbol(b'.'));
                if token.kind == TokenKind::Word && is_reserved(text) && !after_dot {
                    continue;
                }
                let text = String::from_utf8_lossy(text).into_owned();
                if after_dot && !piece.attributes.contains(&text) {
                    piece.attributes.push(text.clone());
                }
                if seen.insert(text.clone()) {
                    piece.identifiers.push(text);
                }
            }
            TokenKind::Symbol(b'*') if before != Some(TokenKind::Symbol(b'(')) => {
                // A star with nothing to multiply behind it stands for columns.
                let ends = match own.get(at + 1).map(|t| t.kind) {
                    None | Some(TokenKind::Symbol(b',' | b')')) => true,
                    Some(TokenKind::Word) => is_reserved(word(at + 1)),
                    _ => false,
                };
                piece.whole_rows |= ends;
            }
            _ => {}
        }
    }
    // TABLE x, and COPY x TO without a list of columns.
    piece.whole_rows |= (0..own.len()).any(|at| word(at) == b"table")
        || (piece.kind.command() == "COPY TO"
            && !own.iter().any(|t| t.kind == TokenKind::Symbol(b'(')));
}

/// The statement for a reader: see [`super::reader::Reader`].
fn canonical(tokens: &Tokens<'_>, own: &[Token], caps: &Caps) -> Result<String, NotRead> {
    if own.len() > caps.parser_tokens {
        return Err(NotRead::Cap("tokens"));
    }
    let (mut depth, mut chain) = (0_usize, 0_usize);
    let mut out = String::with_capacity(own.len() * 6);
    for token in own {
        match token.kind {
            TokenKind::Symbol(b'(' | b'[') => {
                depth += 1;
                if depth > caps.parser_nesting {
                    return Err(NotRead::Cap("nesting"));
                }
            }
            TokenKind::Symbol(b')' | b']') => depth = depth.saturating_sub(1),
            TokenKind::Operator => chain += 1,
            TokenKind::Symbol(b'+' | b'-' | b'*' | b'/' | b'%' | b'^' | b'<' | b'>' | b'=') => {
                chain += 1;
            }
            TokenKind::Word => {
                let links = matches!(
                    tokens.text(*token),
                    b"join"
                        | b"union"
                        | b"intersect"
                        | b"except"
                        | b"and"
                        | b"or"
                        | b"not"
                        | b"case"
                        | b"when"
                );
                chain += usize::from(links);
            }
            _ => {}
        }
        if chain > caps.parser_chain {
            return Err(NotRead::Cap("joins, set operations and operators"));
        }
        write(tokens, *token, &mut out)?;
        if out.len() > caps.parser_bytes {
            return Err(NotRead::Cap("bytes"));
        }
    }
    Ok(out)
}

fn write(tokens: &Tokens<'_>, token: Token, out: &mut String) -> Result<(), NotRead> {
    let encoding = |_| NotRead::Cap("characters other than UTF-8");
    let quoted = |text: &str, quote: char, out: &mut String| {
        out.push(quote);
        for character in text.chars() {
            if character == quote {
                out.push(quote);
            }
            out.push(character);
        }
        out.push(quote);
    };
    // A dot binds what stands around it; all else is one blank apart.
    let after_dot = out.ends_with('.');
    if !after_dot && token.kind != TokenKind::Symbol(b'.') && !out.is_empty() {
        out.push(' ');
    }
    match token.kind {
        TokenKind::Quoted => {
            quoted(std::str::from_utf8(tokens.text(token)).map_err(encoding)?, '"', out);
        }
        TokenKind::Text => {
            let value = tokens.value(token).ok_or(NotRead::Cap("escapes"))?;
            quoted(std::str::from_utf8(&value).map_err(encoding)?, '\'', out);
        }
        _ => {
            let written = tokens.sql().get(token.start()..token.end()).unwrap_or_default();
            out.push_str(std::str::from_utf8(written).map_err(encoding)?);
        }
    }
    Ok(())
}
