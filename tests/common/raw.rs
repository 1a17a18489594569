//! A client that speaks the raw protocol: it sends what it is told and shows what comes.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use postern::wire::message;
use postern::wire::scram_client::ClientExchange;
use secrecy::SecretString;

/// A connection on which every read must bring something within 20 seconds.
pub struct Raw {
    pub stream: TcpStream,
    pub pid: u32,
    pub key: Vec<u8>,
    inbox: Vec<u8>,
}

impl Raw {
    /// Connects and says nothing.
    pub fn dial(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, pid: 0, key: Vec::new(), inbox: Vec::new() }
    }

    /// Connects and logs in.
    pub fn connect(port: u16) -> Self {
        let mut raw = Self::dial(port);
        let events = raw.login(&[]);
        assert_eq!(events.last().map(String::as_str), Some("Z I"), "{events:?}");
        raw
    }

    /// Sends the startup message with `more` parameters and does the password exchange. Gives
    /// what came, up to `ReadyForQuery` or an error.
    pub fn login(&mut self, more: &[(&str, &str)]) -> Vec<String> {
        self.login_as(super::direct::USER, super::direct::PASSWORD, 0x0003_0000, more)
    }

    /// The same with another user, password and protocol version.
    pub fn login_as(
        &mut self,
        user: &str,
        password: &str,
        version: u32,
        more: &[(&str, &str)],
    ) -> Vec<String> {
        let mut parameters = vec![("user", user)];
        if !more.iter().any(|(name, _)| *name == "database") {
            parameters.push(("database", super::direct::DATABASE));
        }
        parameters.extend(more);
        self.send(&startup(version, &parameters));
        let (mut exchange, first) = ClientExchange::begin(&SecretString::from(password)).unwrap();
        let mut out = Vec::new();
        loop {
            let Ok((kind, body)) = self.read() else {
                out.push("end".to_owned());
                return out;
            };
            let mut answer = Vec::new();
            match (kind, body.get(3)) {
                (b'R', Some(10)) => message::sasl_initial(&mut answer, "SCRAM-SHA-256", &first),
                (b'R', Some(11)) => {
                    message::sasl(&mut answer, &exchange.answer(&body[4..]).unwrap());
                }
                (b'R', Some(12)) => assert!(exchange.verify(&body[4..])),
                (b'R' | b'S', _) => {}
                (b'K', _) => {
                    self.pid = u32::from_be_bytes(body[..4].try_into().unwrap());
                    self.key = body[4..].to_vec();
                }
                _ => {
                    out.push(event(kind, &body));
                    if matches!(kind, b'Z' | b'E') {
                        return out;
                    }
                }
            }
            self.send(&answer);
        }
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends no more.
    pub fn half_close(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// One message.
    pub fn read(&mut self) -> io::Result<(u8, Vec<u8>)> {
        loop {
            if let Some(head) = self.inbox.first_chunk::<5>() {
                let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize + 1;
                if self.inbox.len() >= length {
                    let message: Vec<u8> = self.inbox.drain(..length).collect();
                    if self.inbox.is_empty() {
                        self.inbox = Vec::new(); // tests look at memory
                    }
                    return Ok((message[0], message[5..].to_vec()));
                }
            }
            let mut chunk = [0; 16384];
            let n = self.stream.read(&mut chunk)?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.inbox.extend_from_slice(&chunk[..n]);
        }
    }

    /// What comes up to `count` messages of type `stop`, or the end.
    pub fn until(&mut self, stop: u8, count: usize) -> Vec<String> {
        let (mut out, mut left) = (Vec::new(), count);
        while left > 0 {
            match self.read() {
                Ok((kind, body)) => {
                    out.push(event(kind, &body));
                    left -= usize::from(kind == stop);
                }
                Err(error) => {
                    assert!(
                        matches!(
                            error.kind(),
                            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
                        ),
                        "{error}, after {out:?}"
                    );
                    out.push("end".to_owned());
                    break;
                }
            }
        }
        out
    }

    /// What comes up to the end of the connection.
    pub fn rest(&mut self) -> Vec<String> {
        self.until(0, 1)
    }

    /// Sends, and gives what comes up to `count` `ReadyForQuery`.
    pub fn ask(&mut self, bytes: &[u8], count: usize) -> Vec<String> {
        self.send(bytes);
        self.until(b'Z', count)
    }
}

/// A message in short: its type and what matters of it.
fn event(kind: u8, body: &[u8]) -> String {
    let text = |field| {
        String::from_utf8_lossy(message::error_field(body, field).unwrap_or_default()).into_owned()
    };
    let name = char::from(kind);
    match kind {
        b'E' => format!("E {} {} {}", text(b'S'), text(b'C'), text(b'M')),
        b'N' => format!("N {} {}", text(b'C'), text(b'M').chars().take(60).collect::<String>()),
        b'Z' => format!("Z {}", char::from(body[0])),
        b'C' => format!("C {}", String::from_utf8_lossy(&body[..body.len() - 1])),
        b'D' if body.len() < 100 => {
            format!("D {}", String::from_utf8_lossy(body.get(6..).unwrap_or_default()))
        }
        b'D' => format!("D {} bytes", body.len()),
        _ => name.to_string(),
    }
}

/// A startup message.
pub fn startup(version: u32, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = version.to_be_bytes().to_vec();
    for (name, value) in parameters {
        body.extend([name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
    }
    body.push(0);
    [&u32::try_from(body.len() + 4).unwrap().to_be_bytes()[..], &body].concat()
}

/// Any message.
pub fn msg(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    message::put(&mut out, kind, |out| out.extend_from_slice(body));
    out
}

/// Query
pub fn query(sql: &str) -> Vec<u8> {
    msg(b'Q', &[sql.as_bytes(), b"\0"].concat())
}

/// Parse
pub fn parse(name: &str, sql: &str) -> Vec<u8> {
    msg(b'P', &[name.as_bytes(), b"\0", sql.as_bytes(), b"\0\0\0"].concat())
}

/// Bind of the unnamed portal, with text parameters.
pub fn bind(statement: &str, values: &[&[u8]]) -> Vec<u8> {
    let mut body = [b"\0", statement.as_bytes(), b"\0\0\0"].concat();
    body.extend(u16::try_from(values.len()).unwrap().to_be_bytes());
    for value in values {
        body.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
        body.extend_from_slice(value);
    }
    body.extend([0, 0]);
    msg(b'B', &body)
}

/// Execute of the unnamed portal.
pub fn execute(limit: u32) -> Vec<u8> {
    msg(b'E', &[&[0][..], &limit.to_be_bytes()].concat())
}

/// Parse, Bind and Execute.
pub fn run(sql: &str) -> Vec<u8> {
    [parse("", sql), bind("", &[]), execute(0)].concat()
}

/// Sync
pub fn sync() -> Vec<u8> {
    msg(b'S', &[])
}
