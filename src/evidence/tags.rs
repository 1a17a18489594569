//! Tags: why a statement was sent, as the agent tells it.
//!
//! They come in comments in the form of sqlcommenter (`/*key='value',key2='value2'*/`, keys and
//! values percent-encoded; <https://google.github.io/sqlcommenter/spec/>) and by
//! `SET postern.step = '…'` and `SET postern.intent = '…'`.

use super::shape::{Kind, tokens};

/// Tags of one statement beyond this number are left out.
const MOST: usize = 32;
/// Longer ones are left out.
const LONGEST: usize = 1024;

/// The tags in the comments of a statement. Where a key comes twice, the last counts.
pub fn of_comments(sql: &[u8]) -> Vec<(String, String)> {
    // Nearly every statement has no comment at all.
    if !sql.windows(2).any(|pair| pair == b"/*") {
        return Vec::new();
    }
    let mut tags: Vec<(String, String)> = Vec::new();
    for token in tokens(sql).into_iter().filter(|token| token.kind == Kind::Comment) {
        let Some(found) = of_comment(&sql[token.inner]) else { continue };
        for (key, value) in found {
            tags.retain(|(known, _)| *known != key);
            tags.push((key, value));
        }
    }
    tags.truncate(MOST);
    tags
}

/// All of a comment must have the form, or it is prose.
fn of_comment(comment: &[u8]) -> Option<Vec<(String, String)>> {
    let text = std::str::from_utf8(comment).ok()?;
    let mut rest = text.trim();
    let mut tags = Vec::new();
    loop {
        let (key, after) = rest.split_once("='")?;
        let end = closing_quote(after)?;
        let key = decode(key.trim())?;
        if key.is_empty() || key.len() > LONGEST || !key.chars().all(is_key) {
            return None;
        }
        let value = decode(&after[..end].replace("\\'", "'"))?;
        if value.len() <= LONGEST {
            tags.push((key, value));
        }
        rest = after[end + 1..].trim_start();
        if rest.is_empty() {
            return Some(tags);
        }
        rest = rest.strip_prefix(',')?.trim_start();
    }
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let found = c == '\'' && !escaped;
        escaped = c == '\\' && !escaped;
        found.then_some(at)
    })
}

fn is_key(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | ' ')
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?].map(char::from);
            let value = digits[0].to_digit(16)? << 4 | digits[1].to_digit(16)?;
            bytes.push(u8::try_from(value).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// A tag that holds for all later statements of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionTag {
    /// `postern.step`: which step of its plan the agent is at.
    Step,
    /// `postern.intent`: what it wants to reach.
    Intent,
}

impl SessionTag {
    /// The setting's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Step => "postern.step",
            Self::Intent => "postern.intent",
        }
    }
}

/// Reads `SET [SESSION] postern.step = '…'` (or `TO`, `DEFAULT`) and `RESET postern.step`. The
/// value is `None` when it is reset. Any other statement is none of ours.
pub fn of_set(sql: &[u8]) -> Option<(SessionTag, Option<String>)> {
    let mut words = tokens(sql).into_iter().filter(|token| token.kind != Kind::Comment).peekable();
    let text = |token: &super::shape::Token| {
        std::str::from_utf8(&sql[token.inner.clone()]).unwrap_or_default().to_owned()
    };
    let mut word = |wanted: &str| {
        words.next_if(|token| {
            matches!(token.kind, Kind::Word | Kind::Other)
                && text(token).eq_ignore_ascii_case(wanted)
        })
    };
    let set = word("set").is_some();
    if set {
        word("session");
    } else {
        word("reset")?;
    }
    word("postern")?;
    word(".")?;
    let tag = if word("step").is_some() {
        SessionTag::Step
    } else {
        word("intent")?;
        SessionTag::Intent
    };
    let mut value = None;
    if set {
        if word("=").is_none() {
            word("to")?;
        }
        if word("default").is_none() {
            let token = words.next().filter(|token| token.kind == Kind::Text)?;
            value = Some(text(&token).replace("''", "'"));
        }
    }
    while words.next_if(|token| &sql[token.range.clone()] == b";").is_some() {}
    words.next().is_none().then_some((tag, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(sql: &str) -> Vec<(String, String)> {
        of_comments(sql.as_bytes())
    }

    #[test]
    fn comments_of_the_form_become_tags() {
        let sql = "SELECT 1 /*action='%2Fparam*d',controller='index',framework='it\\'s',traceparent='00-5bd66ef5095369c7b0d1f8f4bd33716a-c532cb4098ac3dd2-01'*/";
        let found = tags(sql);
        assert_eq!(found[0], ("action".into(), "/param*d".into()));
        assert_eq!(found[2].1, "it's");
        assert_eq!(found[3].0, "traceparent");
        assert_eq!(tags("/* step='1' */ SELECT 1"), [("step".into(), "1".into())]);
        assert_eq!(tags("/*a='1'*/ SELECT 1 /*a='2'*/"), [("a".into(), "2".into())]);
    }

    #[test]
    fn prose_and_text_that_looks_like_a_comment_are_no_tags() {
        for sql in [
            "SELECT 1",
            "SELECT '/*a=''1''*/'",
            "/* a = b */ SELECT 1",
            "/*a='1*/ SELECT 1",
            "/*a='1' b='2'*/ SELECT 1",
            "/*a='%zz'*/ SELECT 1",
            "/*='1'*/ SELECT 1",
        ] {
            assert_eq!(tags(sql), [], "{sql}");
        }
    }

    #[test]
    fn set_and_reset_of_our_settings_are_known() {
        let set = |sql: &str| of_set(sql.as_bytes());
        assert_eq!(set("SET postern.step = 'a''b'"), Some((SessionTag::Step, Some("a'b".into()))));
        assert_eq!(
            set("set /* x */ session POSTERN.intent to 'why' ;"),
            Some((SessionTag::Intent, Some("why".into())))
        );
        assert_eq!(set("RESET postern.step;"), Some((SessionTag::Step, None)));
        assert_eq!(set("SET postern.step TO DEFAULT"), Some((SessionTag::Step, None)));
        for other in [
            "SET postern.other = 'a'",
            "SET work_mem = '1MB'",
            "SET postern.step = 'a'; DROP TABLE t",
            "SET postern.step = a",
            "SELECT 1",
            "'set' postern.step",
            "",
        ] {
            assert_eq!(set(other), None, "{other}");
        }
    }
}
