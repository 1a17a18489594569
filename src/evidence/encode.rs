//! JSON written straight into a byte buffer: no map, no allocation, no formatting machinery.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// Begins a record's body: its time, which no comma precedes, and its event code.
pub fn begin(out: &mut Vec<u8>, at: u64, event: &str) {
    out.extend_from_slice(b"\"time\":");
    time(out, at);
    text(out, "event", event);
}

/// Appends `,"key":`.
pub fn key(out: &mut Vec<u8>, key: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
}

/// Appends `,"key":"value"` with the value escaped.
pub fn text(out: &mut Vec<u8>, name: &str, value: &str) {
    key(out, name);
    string(out, value.as_bytes());
}

/// Appends `,"key":value` for a number.
pub fn number(out: &mut Vec<u8>, name: &str, value: u64) {
    key(out, name);
    digits(out, value);
}

/// Appends `,"key":["a","b"]`.
pub fn list<S: AsRef<str>>(out: &mut Vec<u8>, name: &str, values: &[S]) {
    key(out, name);
    out.push(b'[');
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        string(out, value.as_ref().as_bytes());
    }
    out.push(b']');
}

/// Appends a JSON string. Bytes that are not UTF-8 become U+FFFD; who must keep them says so with
/// `bytes` beside it.
pub fn string(out: &mut Vec<u8>, value: &[u8]) {
    out.push(b'"');
    for chunk in value.utf8_chunks() {
        escape(out, chunk.valid().as_bytes());
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    out.push(b'"');
}

/// Appends what is inside the quotes of a JSON string; `value` is UTF-8.
fn escape(out: &mut Vec<u8>, value: &[u8]) {
    let mut done = 0;
    for (i, &byte) in value.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&value[done..i]);
        done = i + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&hex_digits(byte));
            }
        }
    }
    out.extend_from_slice(&value[done..]);
}

/// Appends a JSON string holding the base64 of `value`.
pub fn bytes(out: &mut Vec<u8>, value: &[u8]) {
    out.push(b'"');
    let start = out.len();
    // 4 characters for every 3 bytes begun; the engine needs the room in advance.
    out.resize(start + value.len().div_ceil(3) * 4, 0);
    let written = BASE64.encode_slice(value, &mut out[start..]).unwrap_or(0);
    out.truncate(start + written);
    out.push(b'"');
}

/// Appends a number in decimal.
pub fn digits(out: &mut Vec<u8>, mut value: u64) {
    let mut buffer = [0_u8; 20];
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&buffer[at..]);
}

/// Appends bytes in lower-case hexadecimal.
pub fn hex(out: &mut Vec<u8>, value: &[u8]) {
    for &byte in value {
        out.extend_from_slice(&hex_digits(byte));
    }
}

const fn hex_digits(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[(byte >> 4) as usize], DIGITS[(byte & 0xf) as usize]]
}

/// Reads lower-case hexadecimal of exactly `N` bytes.
pub fn unhex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * N {
        return None;
    }
    let mut value = [0; N];
    for (byte, pair) in value.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(value)
}

/// Microseconds since 1970, the resolution of all times in the log.
pub fn micros(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Appends `"2026-12-01T02:44:39.123456Z"`: RFC 3339, always UTC and of one length, so that times
/// sort as text.
pub fn time(out: &mut Vec<u8>, micros: u64) {
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    out.push(b'"');
    padded(out, year, 4);
    out.push(b'-');
    padded(out, month, 2);
    out.push(b'-');
    padded(out, day, 2);
    out.push(b'T');
    padded(out, second / 3600, 2);
    out.push(b':');
    padded(out, second / 60 % 60, 2);
    out.push(b':');
    padded(out, second % 60, 2);
    out.push(b'.');
    padded(out, fraction, 6);
    out.extend_from_slice(b"Z\"");
}

/// Year, month and day of a number of days since 1970-01-01, in the Gregorian calendar. Years are
/// counted from 1 March so that the leap day comes last.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_TO_1970: u64 = 719_468; // from 0000-03-01
    let days = days + DAYS_TO_1970;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

fn padded(out: &mut Vec<u8>, value: u64, width: u32) {
    for place in (0..width).rev() {
        out.push(b'0' + u8::try_from(value / 10_u64.pow(place) % 10).unwrap_or(0));
    }
}

/// Reads a time that [`time`] wrote, without its quotes.
pub fn parse_time(text: &str) -> Option<u64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_microsecond()).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    proptest! {
        #[test]
        fn any_text_comes_back(value in ".*") {
            let json = written(|out| string(out, value.as_bytes()));
            prop_assert!(!json.contains('\n'));
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), value);
        }

        #[test]
        fn any_bytes_are_json(value in proptest::collection::vec(any::<u8>(), 0..200)) {
            let json = written(|out| string(out, &value));
            prop_assert_eq!(
                serde_json::from_str::<String>(&json).unwrap(),
                String::from_utf8_lossy(&value)
            );
            let json = written(|out| bytes(out, &value));
            let text: String = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(BASE64.decode(text).unwrap(), value);
        }

        #[test]
        fn times_are_what_a_calendar_says(at in 0_u64..4_102_444_800_000_000) {
            let json = written(|out| time(out, at));
            let text: String = serde_json::from_str(&json).unwrap();
            let stamp = jiff::Timestamp::from_microsecond(i64::try_from(at).unwrap()).unwrap();
            prop_assert_eq!(&text, &format!("{stamp:.6}"));
            prop_assert_eq!(parse_time(&text), Some(at));
        }

        #[test]
        fn numbers_are_decimal(value in any::<u64>()) {
            prop_assert_eq!(written(|out| digits(out, value)), value.to_string());
        }
    }

    #[test]
    fn hexadecimal_is_strict() {
        assert_eq!(unhex::<2>(b"0aff"), Some([0x0a, 0xff]));
        for wrong in [&b"0aFF"[..], b"0af", b"0agg", b"0aff00"] {
            assert_eq!(unhex::<2>(wrong), None);
        }
    }
}
