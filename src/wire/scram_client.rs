//! SCRAM-SHA-256, the client's side, for servers that postern logs in to with a password
//! (RFC 5802, RFC 7677). Without channel binding.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::pbkdf2;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::scram::{KEY_LEN, NONCE_LEN, ScramError, mac, random, sha256};

/// More rounds than any server is set to; beyond it a hostile one only wants to keep us busy.
const MAX_ITERATIONS: u32 = 1_000_000;
/// The channel-binding flag and the empty authorization identity: no binding is offered.
const GS2_HEADER: &str = "n,,";

/// One login.
pub struct ClientExchange {
    password: SecretString,
    first_bare: String,
    nonce: String,
    /// What the server must answer; known after its first message.
    expected: Option<[u8; KEY_LEN]>,
}

impl ClientExchange {
    /// Begins, and gives the first message. The password must be ASCII or already prepared
    /// (RFC 4013).
    pub fn begin(password: &SecretString) -> Result<(Self, Vec<u8>), ScramError> {
        let mut nonce = [0; NONCE_LEN];
        random(&mut nonce)?;
        let nonce = BASE64.encode(nonce);
        // The server takes the user's name from the startup message (manual, "55.3.1").
        let first_bare = format!("n=,r={nonce}");
        let first = format!("{GS2_HEADER}{first_bare}").into_bytes();
        Ok((Self { password: password.clone(), first_bare, nonce, expected: None }, first))
    }

    /// Takes the server's first message and gives the last one, with the proof.
    pub fn answer(&mut self, server_first: &[u8]) -> Result<Vec<u8>, ScramError> {
        let text = std::str::from_utf8(server_first).map_err(|_| ScramError::Malformed)?;
        let mut attributes = text.split(',');
        let mut next = |name| attributes.next().and_then(|a| a.strip_prefix(name));
        let (Some(nonce), Some(salt), Some(rounds)) = (next("r="), next("s="), next("i=")) else {
            return Err(ScramError::Malformed);
        };
        // The server adds to our nonce; one that does not replays an old exchange.
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(ScramError::Malformed);
        }
        let salt = BASE64.decode(salt).map_err(|_| ScramError::Malformed)?;
        let rounds: NonZeroU32 = rounds.parse().map_err(|_| ScramError::Malformed)?;
        if rounds.get() > MAX_ITERATIONS {
            return Err(ScramError::Malformed);
        }
        let mut salted = Zeroizing::new([0; KEY_LEN]);
        let secret = self.password.expose_secret().as_bytes();
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, secret, &mut *salted);

        let without_proof = format!("c={},r={nonce}", BASE64.encode(GS2_HEADER));
        let message = format!("{},{text},{without_proof}", self.first_bare);
        let client_key = Zeroizing::new(mac(&*salted, b"Client Key"));
        let signature = mac(&sha256(&*client_key), message.as_bytes());
        let proof: [u8; KEY_LEN] = std::array::from_fn(|i| client_key[i] ^ signature[i]);
        self.expected = Some(mac(&mac(&*salted, b"Server Key"), message.as_bytes()));
        Ok(format!("{without_proof},p={}", BASE64.encode(proof)).into_bytes())
    }

    /// Does the server's last message prove that it knows the password?
    pub fn verify(&self, server_final: &[u8]) -> bool {
        let signature = server_final.strip_prefix(b"v=").and_then(|text| BASE64.decode(text).ok());
        match (signature, &self.expected) {
            (Some(signature), Some(expected)) => signature.ct_eq(expected).into(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::scram::{Exchange, SCRAM_SHA_256, Verifier};
    use super::*;

    fn play(ours: &str, theirs: &str) -> Option<bool> {
        let verifier = Verifier::of(&SecretString::from(theirs)).unwrap();
        let (mut client, first) = ClientExchange::begin(&SecretString::from(ours)).unwrap();
        let (server, reply) = Exchange::begin(verifier, SCRAM_SHA_256, &first, None).unwrap();
        let last = client.answer(&reply).unwrap();
        server.finish(&last).unwrap().map(|answer| client.verify(&answer))
    }

    #[test]
    fn both_sides_prove_that_they_know_the_password() {
        assert_eq!(play("secret", "secret"), Some(true));
        assert_eq!(play("secret", "other"), None);
    }

    #[test]
    fn a_server_that_does_not_know_it_is_not_believed() {
        let (mut client, _) = ClientExchange::begin(&SecretString::from("x")).unwrap();
        assert!(!client.verify(b"v="));
        assert_eq!(client.answer(b"r=another,s=AAAA,i=4096"), Err(ScramError::Malformed));
        let replayed = format!("r={},s=AAAA,i=4096", client.nonce);
        assert_eq!(client.answer(replayed.as_bytes()), Err(ScramError::Malformed));
        let endless = format!("r={}x,s=AAAA,i=2000000000", client.nonce);
        assert_eq!(client.answer(endless.as_bytes()), Err(ScramError::Malformed));
        let good = format!("r={}x,s=AAAA,i=1", client.nonce);
        client.answer(good.as_bytes()).unwrap();
        assert!(!client.verify(b"v=AAAA"));
        assert!(!client.verify(b"e=other-error"));
    }

    proptest! {
        #[test]
        fn no_message_makes_it_panic(first: Vec<u8>, last: Vec<u8>) {
            let (mut client, _) = ClientExchange::begin(&SecretString::from("x")).unwrap();
            prop_assert!(client.answer(&first).is_err());
            prop_assert!(!client.verify(&last));
        }
    }
}
