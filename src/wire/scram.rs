//! SCRAM-SHA-256 and SCRAM-SHA-256-PLUS, the server's side (RFC 5802, RFC 7677; channel binding
//! `tls-server-end-point`, RFC 5929; PostgreSQL manual, "55.3. SASL Authentication").

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};
use secrecy::{ExposeSecret, SecretString};
use subtle::{Choice, ConstantTimeEq};

/// The mechanism without channel binding.
pub const SCRAM_SHA_256: &str = "SCRAM-SHA-256";
/// The mechanism with channel binding.
pub const SCRAM_SHA_256_PLUS: &str = "SCRAM-SHA-256-PLUS";
/// PostgreSQL's default (`scram_iterations`). Tokens are random: more rounds protect nothing.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).unwrap();
const SALT_LEN: usize = 16;
/// As many random bytes as PostgreSQL puts into its nonce (`SCRAM_RAW_NONCE_LEN`).
pub(super) const NONCE_LEN: usize = 18;
pub(super) const KEY_LEN: usize = 32;

/// What is stored of a password, in the form of `pg_authid.rolpassword`:
/// `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>` (manual, "53.8. `pg_authid`").
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: NonZeroU32,
    salt: Vec<u8>,
    stored_key: [u8; KEY_LEN],
    server_key: [u8; KEY_LEN],
}

impl fmt::Debug for Verifier {
    /// Without the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

impl Verifier {
    /// The verifier of a password, with a fresh salt. The password must be ASCII or already
    /// prepared (RFC 4013), as tokens are.
    pub fn of(password: &SecretString) -> Result<Self, ScramError> {
        let mut salt = vec![0; SALT_LEN];
        random(&mut salt)?;
        let mut salted = [0; KEY_LEN];
        let secret = password.expose_secret().as_bytes();
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ITERATIONS, &salt, secret, &mut salted);
        Ok(Self {
            iterations: ITERATIONS,
            salt,
            stored_key: sha256(&mac(&salted, b"Client Key")),
            server_key: mac(&salted, b"Server Key"),
        })
    }

    /// A verifier that no password fits, for a user that does not exist. The salt depends on the
    /// name and a secret of this process only, so asking twice tells nothing.
    pub fn mock(user: &str, secret: &MockSecret) -> Self {
        let salt = hmac::sign(&secret.0, user.as_bytes());
        let keys = hmac::sign(&secret.0, &[user.as_bytes(), b"\0keys"].concat());
        let keys: [u8; KEY_LEN] = keys.as_ref().try_into().unwrap_or([0; KEY_LEN]);
        Self {
            iterations: ITERATIONS,
            salt: salt.as_ref()[..SALT_LEN].to_vec(),
            stored_key: sha256(&keys),
            server_key: keys,
        }
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SCRAM-SHA-256${}:{}${}:{}",
            self.iterations,
            BASE64.encode(&self.salt),
            BASE64.encode(self.stored_key),
            BASE64.encode(self.server_key)
        )
    }
}

impl FromStr for Verifier {
    type Err = ScramError;

    fn from_str(text: &str) -> Result<Self, ScramError> {
        let parse = || {
            let rest = text.strip_prefix("SCRAM-SHA-256$")?;
            let (head, keys) = rest.split_once('$')?;
            let (iterations, salt) = head.split_once(':')?;
            let (stored, server) = keys.split_once(':')?;
            Some(Self {
                iterations: iterations.parse().ok()?,
                salt: BASE64.decode(salt).ok()?,
                stored_key: BASE64.decode(stored).ok()?.try_into().ok()?,
                server_key: BASE64.decode(server).ok()?.try_into().ok()?,
            })
        };
        parse().ok_or(ScramError::Verifier)
    }
}

/// Makes mock verifiers of this process.
pub struct MockSecret(hmac::Key);

impl MockSecret {
    /// A new one.
    pub fn generate() -> Result<Self, ScramError> {
        let mut secret = [0; KEY_LEN];
        random(&mut secret)?;
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &secret)))
    }
}

/// An exchange that waits for the client's last word.
pub struct Exchange {
    verifier: Verifier,
    gs2_header: String,
    binding: Option<Vec<u8>>,
    nonce: String,
    client_first_bare: String,
    server_first: String,
}

impl Exchange {
    /// Takes the client's first message for `mechanism` and gives the answer to send.
    ///
    /// `binding` is the hash of our certificate when the connection is encrypted: then both
    /// mechanisms are offered, else only the one without channel binding.
    pub fn begin(
        verifier: Verifier,
        mechanism: &str,
        client_first: &[u8],
        binding: Option<&[u8]>,
    ) -> Result<(Self, Vec<u8>), ScramError> {
        let text = std::str::from_utf8(client_first).map_err(|_| ScramError::Malformed)?;
        let plus = match (mechanism, binding) {
            (SCRAM_SHA_256, _) => false,
            (SCRAM_SHA_256_PLUS, Some(_)) => true,
            _ => return Err(ScramError::Mechanism),
        };
        // gs2-header = ("p=" cb-name / "n" / "y") "," [authzid] ","
        let mut parts = text.splitn(3, ',');
        let (flag, authzid, bare) = (parts.next(), parts.next(), parts.next());
        let (Some(flag), Some(authzid), Some(bare)) = (flag, authzid, bare) else {
            return Err(ScramError::Malformed);
        };
        match (flag, plus) {
            ("n", false) | ("p=tls-server-end-point", true) => {}
            // "I could bind, but you do not offer it": a lie when we do, so somebody sits between.
            ("y", false) if binding.is_none() => {}
            ("y", _) => return Err(ScramError::Downgrade),
            _ => return Err(ScramError::Malformed),
        }
        if !authzid.is_empty() {
            return Err(ScramError::Malformed);
        }
        // client-first-message-bare = username "," nonce; extensions are not spoken. The user
        // name is the startup message's, so this one is not looked at.
        let mut attributes = bare.split(',');
        let user = attributes.next().filter(|a| a.starts_with("n="));
        let nonce = attributes.next().and_then(|a| a.strip_prefix("r="));
        let (Some(_), Some(client_nonce)) = (user, nonce) else {
            return Err(ScramError::Malformed);
        };
        let printable = |byte: u8| (0x21..=0x7e).contains(&byte) && byte != b',';
        if client_nonce.is_empty() || !client_nonce.bytes().all(printable) {
            return Err(ScramError::Malformed);
        }
        let mut ours = [0; NONCE_LEN];
        random(&mut ours)?;
        let nonce = format!("{client_nonce}{}", BASE64.encode(ours));
        let salt = BASE64.encode(&verifier.salt);
        let server_first = format!("r={nonce},s={salt},i={}", verifier.iterations);
        let reply = server_first.clone().into_bytes();
        let exchange = Self {
            gs2_header: format!("{flag},,"),
            binding: plus.then(|| binding.unwrap_or_default().to_vec()),
            nonce,
            client_first_bare: bare.to_owned(),
            server_first,
            verifier,
        };
        Ok((exchange, reply))
    }

    /// Takes the client's last message. `Ok(Some(…))` is the answer for a client that knows the
    /// password, `Ok(None)` means that it does not. Costs the same either way.
    pub fn finish(&self, client_final: &[u8]) -> Result<Option<Vec<u8>>, ScramError> {
        let text = std::str::from_utf8(client_final).map_err(|_| ScramError::Malformed)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(ScramError::Malformed)?;
        let mut attributes = without_proof.split(',');
        let channel = attributes.next().and_then(|a| a.strip_prefix("c="));
        let nonce = attributes.next().and_then(|a| a.strip_prefix("r="));
        let (Some(channel), Some(nonce)) = (channel, nonce) else {
            return Err(ScramError::Malformed);
        };
        let decode = |text: &str| BASE64.decode(text).map_err(|_| ScramError::Malformed);
        let (channel, proof) = (decode(channel)?, decode(proof)?);
        let proof: [u8; KEY_LEN] = proof.try_into().map_err(|_| ScramError::Malformed)?;
        if nonce != self.nonce {
            return Err(ScramError::Malformed);
        }
        let mut expected = self.gs2_header.clone().into_bytes();
        expected.extend(self.binding.iter().flatten());
        let bound: Choice = channel.ct_eq(&expected);

        let message = format!("{},{},{without_proof}", self.client_first_bare, self.server_first);
        let signature = mac(&self.verifier.stored_key, message.as_bytes());
        let client_key: [u8; KEY_LEN] = std::array::from_fn(|i| proof[i] ^ signature[i]);
        let known: Choice = sha256(&client_key).ct_eq(&self.verifier.stored_key);
        let answer = mac(&self.verifier.server_key, message.as_bytes());
        let answer = format!("v={}", BASE64.encode(answer)).into_bytes();
        Ok(bool::from(known & bound).then_some(answer))
    }
}

pub(super) fn mac(key: &[u8], message: &[u8]) -> [u8; KEY_LEN] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    tag.as_ref().try_into().unwrap_or([0; KEY_LEN]) // SHA-256 has 32 bytes
}

pub(super) fn sha256(bytes: &[u8]) -> [u8; KEY_LEN] {
    let hash = digest::digest(&digest::SHA256, bytes);
    hash.as_ref().try_into().unwrap_or([0; KEY_LEN])
}

pub(super) fn random(bytes: &mut [u8]) -> Result<(), ScramError> {
    SystemRandom::new().fill(bytes).map_err(|_| ScramError::NoRandom)
}

/// Why an exchange cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScramError {
    /// A message is not what the RFC says.
    #[error("malformed SCRAM message")]
    Malformed,
    /// The client chose what was not offered.
    #[error("client selected an invalid SASL authentication mechanism")]
    Mechanism,
    /// The client believes that channel binding was not offered.
    #[error("SCRAM channel binding negotiation error")]
    Downgrade,
    /// A stored verifier is none.
    #[error("not a SCRAM-SHA-256 verifier")]
    Verifier,
    /// The operating system gave no random bytes.
    #[error("no random bytes")]
    NoRandom,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The client's side, straight from RFC 5802.
    fn client_final(
        password: &str,
        gs2: &str,
        binding: &[u8],
        bare: &str,
        server_first: &str,
    ) -> (String, [u8; 32]) {
        let field = |name: char| {
            server_first.split(',').find_map(|a| a.strip_prefix(&format!("{name}="))).unwrap()
        };
        let mut salted = [0; 32];
        let salt = BASE64.decode(field('s')).unwrap();
        let rounds = field('i').parse().unwrap();
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, password.as_bytes(), &mut salted);
        let channel = BASE64.encode([gs2.as_bytes(), binding].concat());
        let without_proof = format!("c={channel},r={}", field('r'));
        let message = format!("{bare},{server_first},{without_proof}");
        let client_key = mac(&salted, b"Client Key");
        let signature = mac(&sha256(&client_key), message.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(signature).map(|(a, b)| a ^ b).collect();
        let answer = mac(&mac(&salted, b"Server Key"), message.as_bytes());
        (format!("{without_proof},p={}", BASE64.encode(proof)), answer)
    }

    fn play(
        mechanism: &str,
        gs2: &str,
        ours: Option<&[u8]>,
        theirs: &[u8],
        password: &str,
    ) -> Result<bool, ScramError> {
        let verifier = Verifier::of(&SecretString::from("token")).unwrap();
        let bare = "n=,r=abc";
        let first = format!("{gs2}{bare}");
        let (exchange, reply) = Exchange::begin(verifier, mechanism, first.as_bytes(), ours)?;
        let reply = String::from_utf8(reply).unwrap();
        let (last, expected) = client_final(password, gs2, theirs, bare, &reply);
        let answer = exchange.finish(last.as_bytes())?;
        if let Some(answer) = &answer {
            assert_eq!(*answer, format!("v={}", BASE64.encode(expected)).into_bytes());
        }
        Ok(answer.is_some())
    }

    #[test]
    fn the_right_password_is_known_and_another_is_not() {
        assert_eq!(play(SCRAM_SHA_256, "n,,", None, b"", "token"), Ok(true));
        assert_eq!(play(SCRAM_SHA_256, "y,,", None, b"", "token"), Ok(true));
        assert_eq!(play(SCRAM_SHA_256, "n,,", None, b"", "Token"), Ok(false));
    }

    #[test]
    fn channel_binding_binds() {
        let plus = SCRAM_SHA_256_PLUS;
        let gs2 = "p=tls-server-end-point,,";
        assert_eq!(play(plus, gs2, Some(b"cert"), b"cert", "token"), Ok(true));
        assert_eq!(play(plus, gs2, Some(b"cert"), b"other", "token"), Ok(false));
        assert_eq!(play(plus, gs2, None, b"cert", "token"), Err(ScramError::Mechanism));
        assert_eq!(
            play(SCRAM_SHA_256, "y,,", Some(b"cert"), b"", "token"),
            Err(ScramError::Downgrade)
        );
        assert_eq!(play(SCRAM_SHA_256, "n,,", Some(b"cert"), b"", "token"), Ok(true));
        assert_eq!(
            play(SCRAM_SHA_256, gs2, Some(b"cert"), b"cert", "token"),
            Err(ScramError::Malformed)
        );
    }

    #[test]
    fn a_verifier_reads_as_it_was_written_and_a_mock_one_is_stable() {
        let verifier = Verifier::of(&SecretString::from("x")).unwrap();
        assert_eq!(verifier.to_string().parse(), Ok(verifier.clone()));
        assert_eq!("md5abc".parse::<Verifier>(), Err(ScramError::Verifier));
        let secret = MockSecret::generate().unwrap();
        assert_eq!(Verifier::mock("a", &secret), Verifier::mock("a", &secret));
        assert_ne!(Verifier::mock("a", &secret).salt, Verifier::mock("b", &secret).salt);
        assert_eq!(format!("{verifier:?}"), "Verifier");
    }

    proptest! {
        #[test]
        fn no_message_makes_it_panic(first: Vec<u8>, text in "[pny],.{0,20},n=.{0,9},r=.{0,9}", last: Vec<u8>) {
            let verifier = Verifier::mock("x", &MockSecret::generate().unwrap());
            let _ = Exchange::begin(verifier.clone(), SCRAM_SHA_256, &first, None);
            let _ = Exchange::begin(verifier.clone(), SCRAM_SHA_256, text.as_bytes(), None);
            let (exchange, _) = Exchange::begin(verifier, SCRAM_SHA_256, b"n,,n=,r=x", None).unwrap();
            prop_assert!(!matches!(exchange.finish(&last), Ok(Some(_))));
        }
    }
}
