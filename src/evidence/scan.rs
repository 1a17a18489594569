//! The facts that stand first in every record, found without reading the rest.

/// What the beginning of a record tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts<'a> {
    /// When, in the log's spelling.
    pub time: &'a str,
    /// The event code.
    pub event: &'a str,
    /// The session.
    pub session: &'a str,
    /// The number of the statement in its session.
    pub statement: Option<u64>,
    /// The lease.
    pub lease: &'a str,
    /// The run.
    pub run: &'a str,
    /// The branch.
    pub branch: &'a str,
    /// `allowed` or `denied`.
    pub verdict: &'a str,
    /// How a statement ended.
    pub outcome: &'a str,
    /// A value could not be taken as it stands: what follows it was not looked at.
    pub escaped: bool,
}

/// Reads the known keys at the beginning of a body, up to the first that is not among them.
///
/// Postern writes these keys first, and their values seldom need an escape (they are ids and
/// words); one that does ends the scan, and a full reader must be asked.
pub fn scan(body: &[u8]) -> Facts<'_> {
    let mut facts = Facts::default();
    let mut rest = body;
    while let Some((key, value, after)) = pair(rest) {
        if value.contains('\\') {
            facts.escaped = true;
            break;
        }
        match key {
            "time" => facts.time = value,
            "event" => facts.event = value,
            "postern.session" => facts.session = value,
            "postern.statement" => facts.statement = value.parse().ok(),
            "postern.lease" => facts.lease = value,
            "postern.run" => facts.run = value,
            "postern.branch" => facts.branch = value,
            "postern.verdict" => facts.verdict = value,
            "postern.outcome" => facts.outcome = value,
            _ => break,
        }
        rest = after;
    }
    facts
}

/// `"key":"value",…` or `"key":123,…`.
fn pair(rest: &[u8]) -> Option<(&str, &str, &[u8])> {
    let rest = rest.strip_prefix(b"\"")?;
    let (key, rest) = until(rest, b'"')?;
    let rest = rest.strip_prefix(b":")?;
    let (value, rest) = if let Some(text) = rest.strip_prefix(b"\"") {
        until(text, b'"')?
    } else {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (std::str::from_utf8(rest.get(..digits).filter(|d| !d.is_empty())?).ok()?, &rest[digits..])
    };
    Some((key, value, rest.strip_prefix(b",").unwrap_or(rest)))
}

fn until(bytes: &[u8], end: u8) -> Option<(&str, &[u8])> {
    let at = bytes.iter().position(|byte| *byte == end)?;
    Some((std::str::from_utf8(&bytes[..at]).ok()?, &bytes[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_keys_are_read_and_no_others() {
        let body = br#""time":"2026-12-01T00:00:00.000000Z","event":"statement","postern.session":"5.1","postern.statement":7,"postern.lease":"l","db.query.text":"x \" y","postern.run":"no""#;
        let facts = scan(body);
        assert_eq!(facts.time, "2026-12-01T00:00:00.000000Z");
        assert_eq!((facts.event, facts.session, facts.statement), ("statement", "5.1", Some(7)));
        assert_eq!((facts.lease, facts.run), ("l", ""));
    }

    #[test]
    fn escapes_and_garbage_end_the_scan() {
        let facts = scan(br#""event":"a","postern.run":"a\"b","postern.lease":"l""#);
        assert!(facts.escaped && facts.lease.is_empty());
        for garbage in [&b""[..], b"\"", b"\"event\"", b"\"event\":", b"\"event\":x", b"\xff"] {
            assert_eq!(scan(garbage), Facts::default());
        }
    }
}
