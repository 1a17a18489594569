//! The URL of a running server, and the password in it.

use secrecy::{ExposeSecret, SecretString};
use tokio::process::Command;

use super::SnapshotError;

/// Hands a password over.
pub(super) fn with_password(command: &mut Command, password: Option<&SecretString>) {
    if let Some(password) = password {
        // By the environment: an argument would stand in the process list.
        command.env("PGPASSWORD", password.expose_secret());
    }
}

/// A URL without its password, and the password (PostgreSQL manual, "34.1.1.2. Connection URIs").
pub(super) fn split_password(url: &str) -> Result<(String, Option<SecretString>), SnapshotError> {
    let scheme = ["postgresql://", "postgres://"].into_iter().find(|s| url.starts_with(s));
    let Some(scheme) = scheme else {
        return Err(SnapshotError::Invalid(
            "the source's URL must begin with postgresql://".to_owned(),
        ));
    };
    let rest = &url[scheme.len()..];
    let (authority, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (authority, mut password) = match authority.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((user, password)) => (format!("{user}@{host}"), Some(decode(password)?)),
            None => (authority.to_owned(), None),
        },
        None => (authority.to_owned(), None),
    };
    let tail = match tail.split_once('?') {
        None => tail.to_owned(),
        Some((path, query)) => {
            let mut kept = Vec::new();
            for pair in query.split('&') {
                match pair.split_once('=') {
                    Some(("password", value)) => password = Some(decode(value)?),
                    Some(("sslpassword", _)) => {
                        return Err(SnapshotError::Invalid(
                            "the source's URL holds an sslpassword, which would stand in the \
                             process list: use a key without one"
                                .to_owned(),
                        ));
                    }
                    _ => kept.push(pair),
                }
            }
            if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) }
        }
    };
    Ok((format!("{scheme}{authority}{tail}"), password))
}

fn decode(text: &str) -> Result<SecretString, SnapshotError> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digit = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16));
            match (digit(bytes.next()), digit(bytes.next())) {
                (Some(a), Some(b)) => out.push(u8::try_from(a * 16 + b).unwrap_or_default()),
                _ => return Err(not_encoded()),
            }
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).map(SecretString::from).map_err(|_| not_encoded())
}

fn not_encoded() -> SnapshotError {
    SnapshotError::Invalid("the password in the source's URL is not percent-encoded".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_taken_out_of_a_url() {
        let split = |url: &str| {
            let (bare, password) = split_password(url).unwrap();
            (bare, password.map(|p| p.expose_secret().to_owned()))
        };
        assert_eq!(
            split("postgresql://u:p%40ss@h:1/db?sslmode=require"),
            ("postgresql://u@h:1/db?sslmode=require".into(), Some("p@ss".into()))
        );
        assert_eq!(
            split("postgres:///db?host=/tmp&password=x&user=u"),
            ("postgres:///db?host=/tmp&user=u".into(), Some("x".into()))
        );
        assert_eq!(split("postgresql://h/db"), ("postgresql://h/db".into(), None));
        let error = split_password("u:hunter2@h/db").err().unwrap();
        assert!(!error.to_string().contains("hunter2"));
    }
}
