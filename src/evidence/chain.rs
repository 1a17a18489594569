//! The chain: how a record becomes a line of the log, and back.
//!
//! ```text
//! {"seq":7,"prev":"<hash of record 6>",<body>,"hash":"<SHA-256 of all before the comma>"}
//! ```
//!
//! The hash is over the bytes of the line as they stand, so that anybody can check it with
//! `sha256sum` and without knowing how to order keys.

use ring::digest::{SHA256, digest};

use super::encode;

/// SHA-256 of a record.
pub type Hash = [u8; 32];

const SEQ: &[u8] = b"{\"seq\":";
const PREV: &[u8] = b",\"prev\":\"";
const HASH: &[u8] = b",\"hash\":\"";
const SIGNATURE: &[u8] = b",\"signature\":\"";
const END: &[u8] = b"\"}";

/// The end of a chain: what the next record follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain {
    /// The number of the next record; the first of a log is 1.
    pub next: u64,
    /// The hash of the record before it; zeros for the first.
    pub prev: Hash,
}

impl Chain {
    /// The beginning of a log.
    pub const START: Self = Self { next: 1, prev: [0; 32] };

    /// Appends the next record as a line.
    pub fn seal(&mut self, body: &[u8], out: &mut Vec<u8>) {
        let start = self.begin(body, out);
        self.finish(start, out);
    }

    /// Appends the next record with a signature over all that stands before it. `sign` gets those
    /// bytes.
    pub fn seal_signed(
        &mut self,
        body: &[u8],
        out: &mut Vec<u8>,
        sign: impl FnOnce(&[u8]) -> [u8; 64],
    ) {
        let start = self.begin(body, out);
        let signature = sign(&out[start..]);
        out.extend_from_slice(SIGNATURE);
        encode::hex(out, &signature);
        out.push(b'"');
        self.finish(start, out);
    }

    fn begin(&self, body: &[u8], out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.reserve(body.len() + 256);
        out.extend_from_slice(SEQ);
        encode::digits(out, self.next);
        out.extend_from_slice(PREV);
        encode::hex(out, &self.prev);
        out.extend_from_slice(b"\",");
        out.extend_from_slice(body);
        start
    }

    fn finish(&mut self, start: usize, out: &mut Vec<u8>) {
        self.prev = sha256(&out[start..]);
        self.next += 1;
        out.extend_from_slice(HASH);
        encode::hex(out, &self.prev);
        out.extend_from_slice(END);
        out.push(b'\n');
    }
}

/// SHA-256.
pub fn sha256(bytes: &[u8]) -> Hash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

/// A line of the log, taken apart but not yet believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// The record's number.
    pub seq: u64,
    /// The hash of the record before it.
    pub prev: Hash,
    /// The hash it says it has.
    pub hash: Hash,
    /// What the record says: `"key":value` pairs with commas between.
    pub body: &'a [u8],
    /// What the hash is over.
    covered: &'a [u8],
}

impl<'a> Line<'a> {
    /// Takes a line apart (without its newline). `None` when it has not exactly the form that
    /// [`Chain`] writes.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let before_end = line.strip_suffix(END)?;
        let (rest, hash) = before_end.split_at_checked(before_end.len().checked_sub(64)?)?;
        let covered = rest.strip_suffix(HASH)?;
        let rest = covered.strip_prefix(SEQ)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = rest.split_at(digits);
        if number.first() == Some(&b'0') {
            return None;
        }
        let seq = std::str::from_utf8(number).ok()?.parse().ok()?;
        let (prev, rest) = rest.strip_prefix(PREV)?.split_at_checked(64)?;
        let body = rest.strip_prefix(b"\",")?;
        Some(Self { seq, prev: encode::unhex(prev)?, hash: encode::unhex(hash)?, body, covered })
    }

    /// Is the hash the one of these bytes?
    pub fn is_intact(&self) -> bool {
        sha256(self.covered) == self.hash
    }

    /// What a signed record's signature is over, and the signature.
    pub fn signature(&self) -> Option<(&'a [u8], [u8; 64])> {
        let before_quote = self.covered.strip_suffix(b"\"")?;
        let (rest, signature) =
            before_quote.split_at_checked(before_quote.len().checked_sub(128)?)?;
        Some((rest.strip_suffix(SIGNATURE)?, encode::unhex(signature)?))
    }

    /// The chain after this record.
    pub fn chain(&self) -> Chain {
        Chain { next: self.seq + 1, prev: self.hash }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_record_is_read_back_and_follows_the_one_before() {
        let mut chain = Chain::START;
        let mut out = Vec::new();
        chain.seal(b"\"event\":\"a\"", &mut out);
        chain.seal(b"\"event\":\"b\"", &mut out);
        let lines: Vec<_> = out.split(|b| *b == b'\n').collect();
        let (first, second) = (Line::parse(lines[0]).unwrap(), Line::parse(lines[1]).unwrap());
        assert!(first.is_intact() && second.is_intact());
        assert_eq!((first.seq, first.prev, first.body), (1, [0; 32], &b"\"event\":\"a\""[..]));
        assert_eq!((second.seq, second.prev), (2, first.hash));
        assert_eq!(second.chain(), chain);
        assert!(serde_json::from_slice::<serde_json::Value>(lines[0]).is_ok());
        assert!(first.signature().is_none());
    }

    #[test]
    fn the_hash_is_what_sha256sum_says() {
        let mut out = Vec::new();
        Chain::START.seal(b"\"event\":\"a\"", &mut out);
        let text = String::from_utf8(out).unwrap();
        // printf '{"seq":1,"prev":"000…","event":"a"' | sha256sum
        let covered = text.split(",\"hash\"").next().unwrap();
        assert_eq!(covered.len(), 7 + 1 + 9 + 64 + 2 + 11);
        let mut hex = Vec::new();
        encode::hex(&mut hex, &sha256(covered.as_bytes()));
        assert!(text.contains(std::str::from_utf8(&hex).unwrap()));
        // FIPS 180-2, appendix B.1.
        let mut abc = Vec::new();
        encode::hex(&mut abc, &sha256(b"abc"));
        assert_eq!(abc, b"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn a_signature_covers_what_stands_before_it() {
        let mut out = Vec::new();
        let mut seen = Vec::new();
        Chain::START.seal_signed(b"\"event\":\"a\"", &mut out, |bytes| {
            seen = bytes.to_vec();
            [7; 64]
        });
        let line = Line::parse(out.strip_suffix(b"\n").unwrap()).unwrap();
        assert!(line.is_intact());
        assert_eq!(line.signature(), Some((&seen[..], [7; 64])));
    }

    #[test]
    fn what_has_another_form_is_no_line() {
        let mut out = Vec::new();
        Chain::START.seal(b"\"event\":\"a\"", &mut out);
        let line = out.strip_suffix(b"\n").unwrap();
        for cut in 0..line.len() {
            assert!(Line::parse(&line[..cut]).is_none());
        }
        for wrong in ["", "{}", "{\"seq\":01,", "\"}", "x"] {
            assert!(Line::parse(wrong.as_bytes()).is_none());
        }
    }
}
