//! A refused message is replaced by one that fails at the same point: the client sees what it
//! would see if the server itself had refused it, with our error in it.

mod common;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use common::direct::{Direct, OneLease, proxy, proxy_guarded};
use common::raw::{Raw, bind, execute, msg, parse, query, run, sync};
use parking_lot::Mutex;
use postern::error::SqlState;
use postern::session::{Decision, Guard, Guards, Opening, Reads, Reply};
use postern::wire::ErrorFields;

/// Refuses what contains this word, and writes down what it hears.
const FORBIDDEN: &[u8] = b"forbidden";

#[derive(Default)]
struct Marker {
    heard: Arc<Mutex<Vec<String>>>,
    /// The next batch cannot be committed.
    broken: Arc<Mutex<bool>>,
}

struct MarkerGuard {
    heard: Arc<Mutex<Vec<String>>>,
    broken: Arc<Mutex<bool>>,
    asked: u64,
    waited: bool,
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}

fn refusal() -> ErrorFields {
    let fields = ErrorFields::new(SqlState::INSUFFICIENT_PRIVILEGE, "refused by the marker");
    fields.hint("Leave the word out.")
}

impl Guards for Marker {
    type Guard = MarkerGuard;

    fn open(&self, opening: &Opening<'_>) -> Result<MarkerGuard, Box<ErrorFields>> {
        if opening.startup.parameters.iter().any(|(_, value)| contains(value, FORBIDDEN)) {
            return Err(Box::new(refusal()));
        }
        assert_eq!(opening.grant.lease, common::direct::USER);
        let (heard, broken) = (Arc::clone(&self.heard), Arc::clone(&self.broken));
        Ok(MarkerGuard { heard, broken, asked: 0, waited: false })
    }
}

impl Guard for MarkerGuard {
    const LISTENS: bool = true;

    fn reads(&self, kind: u8) -> Reads {
        match kind {
            b'Q' | b'P' | b'F' => Reads::Whole,
            b'B' => Reads::Start,
            _ => Reads::Nothing,
        }
    }

    fn decide(&mut self, number: u64, kind: u8, body: &[u8]) -> Decision {
        assert!(self.asked == 0 || number > self.asked, "asked twice about message {number}");
        self.asked = number;
        let forbidden = contains(body, FORBIDDEN) || kind == b'F';
        if forbidden { Decision::Refuse(Box::new(refusal())) } else { Decision::Forward }
    }

    fn poll_commit(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Box<ErrorFields>>> {
        // Every other batch has to wait, as for a disk.
        self.waited = !self.waited;
        if self.waited {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if *self.broken.lock() {
            let fields = ErrorFields::new(SqlState::IO_ERROR, "evidence cannot be written");
            return Poll::Ready(Err(Box::new(fields)));
        }
        Poll::Ready(Ok(()))
    }

    fn ready(&mut self, pid: u32) {
        assert!(pid > 0);
    }

    fn reply(&mut self, number: u64, reply: Reply<'_>) {
        self.heard.lock().push(match reply {
            Reply::Done => format!("{number} done"),
            Reply::Complete { tag, sent } => {
                let tag = String::from_utf8_lossy(tag);
                let copied = if sent.copied_in > 0 { " copied" } else { "" };
                format!("{number} complete {tag} rows={}{copied}", sent.rows)
            }
            Reply::Suspended { sent } => format!("{number} suspended rows={}", sent.rows),
            Reply::Failed { error, refused, .. } => {
                let code = postern::wire::message::error_field(error, b'C').unwrap_or_default();
                format!("{number} failed {} refused={refused}", String::from_utf8_lossy(code))
            }
            Reply::Skipped => format!("{number} skipped"),
            Reply::Ready { status } => format!("{number} ready {}", char::from(status)),
        });
    }

    fn notice(&mut self, body: &[u8]) -> bool {
        !contains(body, b"withhold")
    }

    fn parameter(&mut self, name: &[u8], value: &[u8]) {
        if name == b"application_name" {
            let value = String::from_utf8_lossy(value).into_owned();
            self.heard.lock().push(format!("application_name={value}"));
        }
    }
}

/// What the direct server says to SQL that it cannot parse must be what the proxy says to the same
/// messages with a forbidden word in its place, save the error's text.
async fn same_as_a_server_that_refuses(script: impl Fn(&str) -> (Vec<u8>, usize)) -> Vec<String> {
    let direct = Direct::start();
    let marker = Marker::default();
    let heard = Arc::clone(&marker.heard);
    let (_proxy, port) = proxy_guarded(&direct, Arc::new(OneLease::on(&direct)), marker).await;
    let setup = query("CREATE TABLE IF NOT EXISTS t (a int); TRUNCATE t");
    let plain = |events: Vec<String>, code: &str| -> Vec<String> {
        let shorten = |event: String| {
            if event.starts_with(&format!("E ERROR {code}")) {
                "E refused".to_owned()
            } else {
                event
            }
        };
        events.into_iter().map(shorten).collect()
    };
    let (bytes, ready) = script("selec");
    let mut raw = Raw::connect(direct.port);
    raw.ask(&setup, 1);
    let expected = plain(raw.ask(&bytes, ready), "42601 syntax error");
    let (bytes, _) = script("forbidden");
    // In one write, and in bits that cut every frame.
    for bits in [bytes.len(), 7] {
        let mut raw = Raw::connect(port);
        raw.ask(&setup, 1);
        heard.lock().clear();
        for bit in bytes.chunks(bits) {
            raw.send(bit);
            if bits < bytes.len() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let got = raw.until(b'Z', ready);
        assert!(got.iter().any(|event| event == "E ERROR 42501 refused by the marker"), "{got:?}");
        assert_eq!(plain(got, "42501 refused by the marker"), expected);
        let after = raw.ask(&query("SELECT 'after'"), 1);
        assert!(
            after.contains(&"D after".to_owned()) || after.contains(&"Z E".to_owned()),
            "{after:?}"
        );
    }
    // Of the second play, without the question after it.
    let mut heard = heard.lock().clone();
    let after = heard.len() - 2;
    heard.truncate(after);
    heard
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_simple_protocol() {
    let heard = same_as_a_server_that_refuses(|bad| {
        let all = [
            query("SELECT 1"),
            query(&format!("{bad} 2")),
            query(&format!("INSERT INTO t VALUES (1); {bad} 3")),
            query("SELECT count(*) FROM t"),
        ];
        (all.concat(), 4)
    })
    .await;
    let expected = [
        "1 complete SELECT 1 rows=1",
        "1 ready I",
        "2 failed 42501 refused=true",
        "2 ready I",
        "3 failed 42501 refused=true",
        "3 ready I",
        "4 complete SELECT 1 rows=1",
        "4 ready I",
    ];
    assert_eq!(heard, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_pipeline_of_the_extended_protocol() {
    let heard = same_as_a_server_that_refuses(|bad| {
        let all = [
            run("INSERT INTO t VALUES (1)"),
            parse("named", &format!("{bad} 1")),
            bind("named", &[]),
            execute(0),
            query("SELECT 'skipped'"),
            run(&format!("{bad} 2")),
            sync(),
            // Nothing is left of the refused statement or of the insert.
            bind("named", &[]),
            sync(),
            query("SELECT count(*) FROM t"),
            sync(),
        ];
        (all.concat(), 4)
    })
    .await;
    let expected = [
        "1 done",
        "2 done",
        "3 complete INSERT 0 1 rows=0",
        "4 failed 42501 refused=true",
        "5 skipped",
        "6 skipped",
        "7 skipped",
        "8 skipped",
        "9 skipped",
        "10 skipped",
        "11 ready I",
        "12 failed 26000 refused=false",
        "13 ready I",
        "14 complete SELECT 1 rows=1",
        "14 ready I",
        "15 ready I",
    ];
    // Cut in bits, messages after the error are told as skipped when they come: same order.
    assert_eq!(heard, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn inside_a_transaction_and_a_failed_one() {
    same_as_a_server_that_refuses(|bad| {
        let all = [
            query("BEGIN; INSERT INTO t VALUES (1)"),
            query(&format!("{bad} 1")),
            query("SELECT 2"),
            query(&format!("{bad} 3")),
            run(&format!("{bad} 4")),
            sync(),
            query("ROLLBACK"),
            query("SELECT count(*) FROM t"),
        ];
        (all.concat(), 7)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn around_copies() {
    let heard = same_as_a_server_that_refuses(|bad| {
        let all = [
            // A refused copy: the data that was sent along is ignored.
            query(&format!("COPY t FROM STDIN; {bad}")),
            msg(b'd', b"1\n"),
            msg(b'c', b""),
            // A copy, and a refusal right behind it.
            query("COPY t FROM STDIN"),
            msg(b'd', b"2\n3\n"),
            sync(),
            msg(b'c', b""),
            query(&format!("{bad} 2")),
            query("COPY t TO STDOUT"),
            run(&format!("{bad} 3")),
            sync(),
        ];
        (all.concat(), 5)
    })
    .await;
    let copied: Vec<_> = heard.iter().filter(|line| line.contains("COPY")).collect();
    assert_eq!(copied, ["4 complete COPY 2 rows=0 copied", "9 complete COPY 2 rows=0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_that_end_several_batches_are_each_at_their_place() {
    same_as_a_server_that_refuses(|bad| {
        let one = [run("SELECT 'a'"), run(&format!("{bad} 1")), run("SELECT 'b'"), sync()].concat();
        (one.repeat(300), 300)
    })
    .await;
}

async fn guarded() -> (Direct, postern::session::Proxy<OneLease, Marker>, u16, Marker) {
    let direct = Direct::start();
    let marker = Marker::default();
    let copy = Marker { heard: Arc::clone(&marker.heard), broken: Arc::clone(&marker.broken) };
    let (proxy, port) = proxy_guarded(&direct, Arc::new(OneLease::on(&direct)), marker).await;
    (direct, proxy, port, copy)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_call_is_refused_with_one_ready_for_query() {
    let (_direct, _proxy, port, _) = guarded().await;
    let mut raw = Raw::connect(port);
    let call = msg(b'F', &[&1598_u32.to_be_bytes()[..], &[0, 0, 0, 0, 0, 0]].concat());
    let got = raw.ask(&[call.clone(), query("SELECT 1")].concat(), 2);
    assert_eq!(
        got,
        ["E ERROR 42501 refused by the marker", "Z I", "T", "D 1", "C SELECT 1", "Z I"]
    );
    let got = raw.ask(&[query("BEGIN"), call, query("ROLLBACK")].concat(), 3);
    assert_eq!(
        got,
        ["C BEGIN", "Z T", "E ERROR 42501 refused by the marker", "Z E", "C ROLLBACK", "Z I"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bind_is_refused_without_harm_to_the_statement_and_its_value_is_thrown_away() {
    let (_direct, _proxy, port, _) = guarded().await;
    let mut raw = Raw::connect(port);
    let mut value = b"forbidden".to_vec();
    value.resize(20 << 20, b'x');
    let got = raw
        .ask(&[parse("", "SELECT $1::text"), bind("", &[&value]), execute(0), sync()].concat(), 1);
    assert_eq!(got, ["1", "E ERROR 42501 refused by the marker", "Z I"]);
    let got = raw.ask(&[bind("", &[b"fine"]), execute(0), sync()].concat(), 1);
    assert_eq!(got, ["2", "D fine", "C SELECT 1", "Z I"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_sql_is_read_whole_and_too_long_sql_is_refused_in_place() {
    let (_direct, _proxy, port, _) = guarded().await;
    let mut raw = Raw::connect(port);
    let long = format!("SELECT length('{}')", "x".repeat(3 << 20));
    let got = raw.ask(&[query("SELECT 0"), query(&long), query("SELECT 1")].concat(), 3);
    assert!(got.contains(&"D 3145728".to_owned()), "{got:?}");
    let got = raw.ask(&query(&format!("{long} -- forbidden")), 1);
    assert_eq!(got, ["E ERROR 42501 refused by the marker", "Z I"]);
    let too_long = format!("SELECT length('{}')", "x".repeat(65 << 20));
    let got = raw.ask(&[parse("p", &too_long), sync(), query("SELECT 1")].concat(), 2);
    assert!(got[0].starts_with("E ERROR 54000 a message of "), "{got:?}");
    assert_eq!(got[1..], ["Z I", "T", "D 1", "C SELECT 1", "Z I"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_startup_parameter_can_be_refused_before_the_server_is_reached() {
    let (_direct, proxy, port, _) = guarded().await;
    let mut raw = Raw::dial(port);
    let got = raw.login(&[("options", "-c search_path=forbidden")]);
    assert_eq!(got, ["E FATAL 42501 refused by the marker"]);
    assert_eq!(raw.rest(), ["end"]);
    assert!(proxy.sessions().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn notices_can_be_withheld_and_settings_are_heard() {
    let (_direct, _proxy, port, marker) = guarded().await;
    let mut raw = Raw::connect(port);
    marker.heard.lock().clear();
    let sql = "DO $$ BEGIN RAISE NOTICE 'one'; RAISE NOTICE 'withhold'; RAISE NOTICE 'two';
         RAISE NOTICE '%', 'withhold' || repeat('x', 200000); RAISE NOTICE '%', repeat('y', 200000); END $$";
    let got = raw.ask(&[query(sql), query("SET application_name = 'x'")].concat(), 2);
    let yy = format!("N 00000 {}", "y".repeat(60));
    assert_eq!(got, ["N 00000 one", "N 00000 two", &yy, "C DO", "Z I", "C SET", "S", "Z I"]);
    assert!(marker.heard.lock().contains(&"application_name=x".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_cannot_be_committed_is_not_sent() {
    let (direct, _proxy, port, marker) = guarded().await;
    let mut raw = Raw::connect(port);
    raw.ask(&query("CREATE TABLE t (a int)"), 1);
    *marker.broken.lock() = true;
    raw.send(&[run("INSERT INTO t VALUES (1)"), sync()].concat());
    assert_eq!(raw.rest(), ["E FATAL 58030 evidence cannot be written", "end"]);
    assert_eq!(direct.sql(common::direct::DATABASE, "SELECT count(*) FROM t"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_imitated_error_of_the_client_is_not_replaced() {
    let (_direct, _proxy, port, _) = guarded().await;
    let mut raw = Raw::connect(port);
    let imitation =
        "DO $$ BEGIN RAISE EXCEPTION 'syntax error at or near \"postern_refused_0\"'; END $$";
    let got = raw.ask(&[query(imitation), query("SELECT forbidden")].concat(), 2);
    assert!(got[0].starts_with("E ERROR P0001 syntax error"), "{got:?}");
    assert_eq!(got[1..], ["Z I", "E ERROR 42501 refused by the marker", "Z I"]);
    // Without a guard nothing is refused.
    let direct = Direct::start();
    let (_proxy, port) = proxy(&direct, Arc::new(OneLease::on(&direct)), false).await;
    let got = Raw::connect(port).ask(&query("SELECT 'forbidden'"), 1);
    assert_eq!(got, ["T", "D forbidden", "C SELECT 1", "Z I"]);
}
