//! Settings that come with the startup message, and those the server reports later.

use super::class::Classes;
use super::facts::Piece;
use super::floor::{Encoding, settings};
use super::kind::Kind;

/// The startup message as if it were a statement.
pub(super) fn piece<'a>(parameters: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Piece {
    let mut piece = Piece::bare(Kind::of("STARTUP"), Classes::SESSION);
    for (name, value) in parameters {
        match name {
            b"user" | b"database" => {}
            // Only walsenders speak it; the session room refuses it in its own words first.
            b"replication" => {
                if !settings::is_false(&String::from_utf8_lossy(value)) {
                    refuse(&mut piece, "replication");
                }
            }
            b"options" => options(value, &mut piece),
            _ => set(&mut piece, name, value),
        }
    }
    piece
}

fn set(piece: &mut Piece, name: &[u8], value: &[u8]) {
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let value = std::str::from_utf8(value).ok();
    let needs = settings::needs(&name, Some(value));
    if !needs.within(piece.classes) && piece.because.is_none() {
        piece.because = Some(match value {
            Some(value) => format!("{name} = {value}"),
            None => format!("a value of {name} that is no text"),
        });
    }
    piece.classes = piece.classes.and(needs);
    piece.settings.push(name);
}

fn refuse(piece: &mut Piece, what: &str) {
    piece.classes = piece.classes.and(Classes::ADMIN);
    piece.because.get_or_insert_with(|| what.to_owned());
}

/// `options` is split at white space, a backslash taking the next character as it is
/// (`pg_split_opts`), and read like the server's command line: `-c name=value`, `-cname=value` and
/// `--name=value`, with dashes in a name standing for underscores (`process_postgres_switches`).
fn options(text: &[u8], piece: &mut Piece) {
    let mut words = split(text).into_iter();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix(b"--") {
            Some(long) => Some(long.to_vec()),
            None => match word.strip_prefix(b"-c") {
                Some([]) => words.next(),
                Some(rest) => Some(rest.to_vec()),
                None => None,
            },
        };
        let Some(setting) = setting else {
            // The other switches are for who starts servers.
            refuse(piece, &format!("the switch {}", String::from_utf8_lossy(&word)));
            continue;
        };
        let at = setting.iter().position(|b| *b == b'=').unwrap_or(setting.len());
        let (name, value) = setting.split_at(at);
        let name: Vec<u8> = name.iter().map(|b| if *b == b'-' { b'_' } else { *b }).collect();
        set(piece, &name, value.get(1..).unwrap_or_default());
    }
}

fn split(text: &[u8]) -> Vec<Vec<u8>> {
    let (mut out, mut word, mut inside) = (Vec::new(), Vec::new(), false);
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            // `isspace` in the C locale.
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => {
                if std::mem::take(&mut inside) {
                    out.push(std::mem::take(&mut word));
                }
            }
            b'\\' => {
                inside = true;
                word.extend(bytes.next());
            }
            _ => {
                inside = true;
                word.push(*byte);
            }
        }
    }
    if inside {
        out.push(word);
    }
    out
}

/// What a reported setting (`ParameterStatus`) means for the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// Nothing.
    Fine,
    /// From here on the session's text is in this encoding.
    Reads(Encoding),
    /// The gate cannot read this session's text any more: end it before another byte passes.
    Unreadable,
}

/// Looks at a setting that the server reports. However it was changed, by SET, by a function or
/// from inside a code block, the server tells before it reads the next message.
pub fn watch(name: &[u8], value: &[u8]) -> Watched {
    match name {
        b"standard_conforming_strings" if value != b"on" => Watched::Unreadable,
        b"client_encoding" => match std::str::from_utf8(value) {
            Ok(value) if value.eq_ignore_ascii_case("UTF8") => Watched::Reads(Encoding::Utf8),
            Ok(value) if settings::is_safe_encoding(value) => {
                Watched::Reads(Encoding::AsciiSuperset)
            }
            _ => Watched::Unreadable,
        },
        _ => Watched::Fine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Class;

    fn needs(options: &str) -> Classes {
        piece([(&b"user"[..], &b"x"[..]), (b"options", options.as_bytes())]).classes
    }

    #[test]
    fn options_are_read_as_the_server_reads_them() {
        for harmless in
            ["", "-c work_mem=1MB", "-cwork_mem=1MB --geqo=off", r"-c search_path=a,\ b"]
        {
            assert_eq!(needs(harmless), Classes::SESSION, "{harmless}");
        }
        for wrong in [
            "-c role=postgres",
            "-crole=postgres",
            "--role=postgres",
            "--session-authorization=x",
            r"-c\ role=x",
            r"-c r\ole=x",
            "-c\trole=x",
            "-c standard_conforming_strings=off",
            "-c client_encoding=SJIS",
            "-B 100",
            "-c session_preload_libraries=x",
        ] {
            assert!(needs(wrong).has(Class::Admin), "{wrong}");
        }
        assert!(needs("-c default_transaction_read_only=off").has(Class::Write));
        assert!(!needs("-c default_transaction_read_only=on").has(Class::Write));
    }

    #[test]
    fn a_reported_setting_changes_how_text_is_read() {
        assert_eq!(watch(b"standard_conforming_strings", b"off"), Watched::Unreadable);
        assert_eq!(watch(b"standard_conforming_strings", b"on"), Watched::Fine);
        assert_eq!(watch(b"client_encoding", b"SJIS"), Watched::Unreadable);
        assert_eq!(watch(b"client_encoding", b"LATIN1"), Watched::Reads(Encoding::AsciiSuperset));
        assert_eq!(watch(b"client_encoding", b"UTF8"), Watched::Reads(Encoding::Utf8));
        assert_eq!(watch(b"TimeZone", b"off"), Watched::Fine);
    }
}
