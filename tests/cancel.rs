//! Cancelling: by key, by leaving, and never the wrong statement.

mod common;

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::direct::{DATABASE, Direct, OneLease, PASSWORD, USER, proxy};
use common::raw::{Raw, query, run, sync};
use common::served::{signal, wait_for};

/// Sends a `CancelRequest` and waits until the other side has closed. It must not answer.
fn cancel(port: u16, pid: u32, key: &[u8]) {
    let mut raw = Raw::dial(port);
    let length = u32::try_from(12 + key.len()).unwrap();
    raw.send(
        &[&length.to_be_bytes()[..], &80_877_102_u32.to_be_bytes(), &pid.to_be_bytes(), key]
            .concat(),
    );
    let mut answer = Vec::new();
    // A refused one may be reset.
    let _ = raw.stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || key.len() > 256 || key.is_empty(), "{answer:?}");
}

fn running(direct: &Direct, what: &str) -> bool {
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE $q$%{what}%$q$
         AND pid <> pg_backend_pid()"
    );
    direct.sql("postgres", &sql) != "0"
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_right_key_cancels_and_only_its_own_session() {
    let direct = Direct::start();
    let (_proxy, port) = proxy(&direct, Arc::new(OneLease::on(&direct)), false).await;
    for (version, length) in [(0x0003_0000, 4), (0x0003_0002, 32)] {
        let mut one = Raw::dial(port);
        assert_eq!(*one.login_as(USER, PASSWORD, version, &[]).last().unwrap(), "Z I");
        let mut other = Raw::connect(port);
        assert_eq!(one.key.len(), length);
        assert_ne!(one.pid, 0);
        one.send(&query("SELECT pg_sleep(20), 'one'"));
        other.send(&query("SELECT pg_sleep(2), 'other'"));
        wait_for("both to run", || running(&direct, "'one'") && running(&direct, "'other'"));
        let mut wrong = one.key.clone();
        wrong[0] ^= 1;
        cancel(port, one.pid, &wrong);
        cancel(port, one.pid, &one.key[..length - 1]);
        cancel(port, one.pid, &[]);
        cancel(port, one.pid, &[0; 300]);
        cancel(port, one.pid + 100_000, &one.key);
        cancel(port, one.pid, &other.key);
        assert!(running(&direct, "'one'"));
        cancel(port, one.pid, &one.key);
        let got = one.until(b'Z', 1);
        assert!(got.iter().any(|event| event.starts_with("E ERROR 57014")), "{got:?}");
        let got = other.until(b'Z', 1);
        assert!(got.contains(&"C SELECT 1".to_owned()), "{got:?}");
        // A key is worth nothing when its session is over.
        let (pid, key) = (other.pid, other.key.clone());
        drop(other);
        cancel(port, pid, &key);
        assert_eq!(one.ask(&query("SELECT 1"), 1).last().unwrap(), "Z I");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relayed_cancel_never_hits_the_next_statement() {
    let direct = Direct::start();
    let (_proxy, port) = proxy(&direct, Arc::new(OneLease::on(&direct)), false).await;
    let mut raw = Raw::connect(port);
    for round in 0..150_u64 {
        // Sometimes the statement is over before the cancel comes, sometimes not.
        let micros = (round % 15) * 200;
        raw.send(&query(&format!(
            "SELECT pg_sleep({})",
            f64::from(u32::try_from(micros).unwrap()) / 1e6
        )));
        cancel(port, raw.pid, &raw.key);
        let got = raw.until(b'Z', 1);
        let ended = got.iter().any(|e| e.starts_with("E ERROR 57014") || e == "C SELECT 1");
        assert!(ended, "{got:?}");
        let got = raw.ask(&query("SELECT pg_sleep(0.002)"), 1);
        assert!(got.contains(&"C SELECT 1".to_owned()), "round {round}: {got:?}");
    }
}

/// Begins a long statement, leaves in some way, and sees that the server stops running it.
fn leaves(direct: &Direct, port: u16, tag: &str, more: &[u8], leave: impl FnOnce(Raw)) {
    let mut raw = Raw::connect(port);
    raw.send(&[query(&format!("SELECT pg_sleep(30), '{tag}'")), more.to_vec()].concat());
    wait_for("it to run", || running(direct, tag));
    let began = Instant::now();
    leave(raw);
    wait_for("it to be stopped", || !running(direct, tag));
    assert!(began.elapsed() < Duration::from_secs(2), "{tag}: {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_vanished_client_left_running_is_stopped_within_two_seconds() {
    let direct = Direct::start();
    let (proxy, port) = proxy(&direct, Arc::new(OneLease::on(&direct)), false).await;
    let reset = |raw: Raw| {
        let socket = socket2::SockRef::from(&raw.stream);
        socket.set_linger(Some(Duration::ZERO)).unwrap();
    };
    leaves(&direct, port, "closed", &[], drop);
    leaves(&direct, port, "reset", &[], reset);
    let pipeline = [run("SELECT 1"), sync()].concat().repeat(100);
    leaves(&direct, port, "pipeline closed", &pipeline, drop);
    wait_for("the sessions to be gone", || proxy.sessions().is_empty());
    assert_eq!(
        direct.sql("postgres", "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'"),
        "0"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_vanishes_with_more_on_the_way_than_anyone_holds_is_noticed() {
    let direct = Direct::start();
    let (proxy, port) = proxy(&direct, Arc::new(OneLease::on(&direct)), false).await;
    for reset in [false, true] {
        let mut raw = Raw::connect(port);
        raw.send(&query("SELECT pg_sleep(30), 'stuffed'"));
        wait_for("it to run", || running(&direct, "stuffed"));
        // More than the proxy and the server take. When it is more than the kernel takes too, only
        // a reset gets through to the proxy: the end of the stream waits behind the data.
        let flood = query(&format!("SELECT '{}'", "x".repeat(60_000)));
        if reset {
            raw.stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
            while std::io::Write::write_all(&mut raw.stream, &flood).is_ok() {}
        } else {
            raw.send(&flood.repeat(5));
        }
        let began = Instant::now();
        if reset {
            socket2::SockRef::from(&raw.stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
        drop(raw);
        wait_for("it to be stopped", || !running(&direct, "stuffed"));
        assert!(
            began.elapsed() < Duration::from_millis(2500),
            "reset {reset}: {:?}",
            began.elapsed()
        );
        wait_for("the session to be gone", || proxy.sessions().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_in_psql_cancels() {
    let direct = Direct::start();
    let (_proxy, port) = proxy(&direct, Arc::new(OneLease::on(&direct)), false).await;
    let psql = std::process::Command::new("psql")
        .arg(format!("postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/{DATABASE}"))
        .args(["-XAt", "-c", "SELECT pg_sleep(30), 'psql'"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("it to run", || running(&direct, "'psql'"));
    signal(psql.id(), rustix::process::Signal::INT);
    let output = psql.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("canceling statement due to user request"), "{text}");
}
