//! Definitions that the server prints in two ways though they mean the same.

/// The definition in the form it has after a dump and a restore.
///
/// For `v IN ('a', 'b')` on a `varchar`, the server casts the array when it first parses it and
/// casts the elements when it parses what it printed. Both mean the same, so the cast of an array
/// of constants is moved inside: `(ARRAY['a'::character varying])::text[]` becomes
/// `ARRAY[('a'::character varying)::text]`.
pub(super) fn settled(text: String) -> String {
    if !text.contains("(ARRAY[") {
        return text;
    }
    let mut settled = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(start) = rest.find("(ARRAY[") {
        let (before, from) = rest.split_at(start);
        settled.push_str(before);
        if let Some((length, inside)) = cast_array(from) {
            settled.push_str(&inside);
            rest = &from[length..];
        } else {
            settled.push_str("(ARRAY[");
            rest = &from["(ARRAY[".len()..];
        }
    }
    settled.push_str(rest);
    settled
}

/// Reads `(ARRAY['…'::type, …])::type[]` at the start: its length, and the same with the cast
/// inside. `None` if it is anything else.
fn cast_array(text: &str) -> Option<(usize, String)> {
    let mut rest = text.strip_prefix("(ARRAY[")?;
    let mut elements = Vec::new();
    loop {
        let length = constant(rest)?;
        elements.push(&rest[..length]);
        rest = &rest[length..];
        if let Some(next) = rest.strip_prefix(", ") {
            rest = next;
        } else {
            rest = rest.strip_prefix("])::")?;
            break;
        }
    }
    let kind = rest.find("[]").map(|end| &rest[..end])?;
    if !kind.bytes().all(|b| b.is_ascii_lowercase() || b == b' ') {
        return None;
    }
    let length = text.len() - rest.len() + kind.len() + "[]".len();
    let inside: Vec<_> = elements.iter().map(|element| format!("({element})::{kind}")).collect();
    Some((length, format!("ARRAY[{}]", inside.join(", "))))
}

/// The length of a string constant with a cast to a type of plain words.
fn constant(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    if bytes.first() != Some(&b'\'') {
        return None;
    }
    let mut i = 1;
    loop {
        match bytes.get(i)? {
            b'\'' if bytes.get(i + 1) == Some(&b'\'') => i += 2,
            b'\'' => break,
            _ => i += 1,
        }
    }
    let kind = text.get(i + 1..)?.strip_prefix("::")?;
    let length =
        kind.bytes().position(|b| !(b.is_ascii_lowercase() || b == b' ')).unwrap_or(kind.len());
    (length > 0).then_some(i + 3 + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_forms_of_a_list_are_one() {
        let first = "CHECK (((s)::text = ANY ((ARRAY['a'::character varying, \
                     'it''s, ]'::character varying])::text[])))";
        let second = "CHECK (((s)::text = ANY (ARRAY[('a'::character varying)::text, \
                      ('it''s, ]'::character varying)::text])))";
        assert_eq!(settled(first.to_owned()), second);
        assert_eq!(settled(second.to_owned()), second);
    }

    #[test]
    fn what_is_something_else_stays() {
        for text in [
            "(ARRAY[",
            "(ARRAY[a, b])::text[]",
            "(ARRAY['a",
            "(ARRAY['a'::text])",
            "(ARRAY['é'::",
            "(ARRAY['a'::text])::\"T\"[]",
        ] {
            assert_eq!(settled(text.to_owned()), text);
        }
    }
}
