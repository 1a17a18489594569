//! What the fuzz targets do with bytes, and what must hold whatever these are.
#![allow(dead_code, missing_docs, reason = "each target uses one of them")]

use postern::wire::frame::{HEADER_LEN, Header, MAX_MESSAGE};
use postern::wire::message;
use postern::wire::scram::{Exchange, MockSecret, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, Verifier};
use postern::wire::scram_client::ClientExchange;
use postern::wire::startup::{self, MAX_STARTUP, StartupRequest};
use secrecy::SecretString;

/// Walks frames as the relay does and reads each body as an error.
pub fn framing(mut bytes: &[u8]) {
    loop {
        match Header::parse(bytes) {
            Ok(None) => return assert!(bytes.len() < HEADER_LEN),
            Err(error) => return assert!(!(4..=MAX_MESSAGE).contains(&error.length)),
            Ok(Some(header)) => {
                assert!(header.message_len() >= HEADER_LEN);
                let Some((one, rest)) = bytes.split_at_checked(header.message_len()) else {
                    return;
                };
                let body = message::body(one);
                for field in [b'M', b'C', b'V', 0] {
                    if let Some(text) = message::error_field(body, field) {
                        assert!(text.len() < body.len() && !text.contains(&0));
                    }
                }
                let _ = message::is_fatal(body);
                bytes = rest;
            }
        }
    }
}

/// Reads a first message.
pub fn startup(bytes: &[u8]) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return };
    let mut rest = bytes;
    match runtime.block_on(startup::read(&mut rest)) {
        Ok(StartupRequest::Startup(startup)) => {
            // Not a byte more than it announced was taken, and nothing came from nowhere.
            let taken = bytes.len() - rest.len();
            assert!(taken <= MAX_STARTUP);
            let held: usize = startup.parameters.iter().map(|(n, v)| n.len() + v.len() + 2).sum();
            let options: usize = startup.protocol_options.iter().map(Vec::len).sum();
            assert!(held + options <= taken);
            assert!(startup.parameters.iter().all(|(n, v)| !n.is_empty() && !v.contains(&0)));
        }
        Ok(StartupRequest::Cancel { key, .. }) => assert!((1..=256).contains(&key.len())),
        Ok(StartupRequest::Ssl | StartupRequest::GssEnc) => assert_eq!(bytes.len() - rest.len(), 8),
        Err(_) => {}
    }
}

/// Plays both sides of SCRAM against strangers: none is believed.
pub fn scram(bytes: &[u8]) {
    let at = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (first, last) = bytes.split_at(at);
    let Ok(secret) = MockSecret::generate() else { return };
    for (mechanism, binding) in [(SCRAM_SHA_256, None), (SCRAM_SHA_256_PLUS, Some(&b"hash"[..]))] {
        let verifier = Verifier::mock("user", &secret);
        if let Ok((exchange, _)) = Exchange::begin(verifier, mechanism, first, binding) {
            assert!(!matches!(exchange.finish(last), Ok(Some(_))));
        }
    }
    if let Ok((mut client, _)) = ClientExchange::begin(&SecretString::from("x")) {
        let _ = client.answer(first);
        assert!(!client.verify(last));
    }
}
