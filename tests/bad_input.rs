//! Garbage, limits and faults: whoever causes them is told or dropped, nobody else notices.

mod common;

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::direct::{DATABASE, Direct, OneLease, PASSWORD, USER, proxy, proxy_with, settings};
use common::raw::{Raw, bind, execute, msg, parse, query, run, startup, sync};
use common::served::{rss, signal, wait_for};
use postern::session::{
    Authority, Backend, Grant, LeaseEnd, Open, Proxy, ProxySettings, ReachError,
};

async fn start() -> (Direct, Proxy<OneLease>, u16) {
    let direct = Direct::start();
    let (proxy, port) = proxy(&direct, Arc::new(OneLease::on(&direct)), false).await;
    (direct, proxy, port)
}

/// Sends bytes and sees that the connection ends soon, with an error or nothing.
fn is_refused(port: u16, bytes: &[u8]) {
    let mut raw = Raw::dial(port);
    let began = Instant::now();
    let _ = raw.stream.write_all(bytes);
    let got = raw.rest();
    assert!(began.elapsed() < Duration::from_secs(2), "{bytes:?}: {:?}", began.elapsed());
    assert!(got.iter().all(|e| e.starts_with("E FATAL") || e == "end"), "{bytes:?}: {got:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_before_the_login_ends_the_connection_and_harms_nobody() {
    let (_direct, _proxy, port) = start().await;
    let mut good = Raw::connect(port);
    let version = 0x0003_0000_u32.to_be_bytes();
    for length in [0_u32, 1, 2, 3, 4, 7, 10_001, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        is_refused(port, &[&length.to_be_bytes()[..], &version, b"user\0app\0\0"].concat());
    }
    is_refused(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    is_refused(port, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03");
    is_refused(port, &startup(0x0003_0000, &[]));
    is_refused(port, &startup(0x0003_0000, &[("user", "")]));
    is_refused(port, &startup(0x0009_0000, &[("user", "app")]));
    is_refused(port, &startup(80_877_103, &[]));
    // Anything but a password message where one is due, or one that is none.
    let begin = startup(0x0003_0000, &[("user", USER)]);
    for answer in [
        query("SELECT 1"),
        msg(b'p', b""),
        msg(b'p', b"SCRAM-SHA-256\0\0\0\0\x7f"),
        msg(b'p', b"PLAIN\0\0\0\0\x01x"),
        msg(b'p', &[b'x'; 2000]),
        b"p\x7f\xff\xff\xff".to_vec(),
        b"p\0\0\0\x03".to_vec(),
    ] {
        let mut raw = Raw::dial(port);
        raw.send(&[begin.clone(), answer].concat());
        let got = raw.rest();
        let told = got.iter().any(|event| event.starts_with("E FATAL 08P01"));
        assert!(told && got.last().unwrap() == "end", "{got:?}");
    }
    assert_eq!(good.ask(&query("SELECT 1"), 1).last().unwrap(), "Z I");
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_lengths_after_the_login_end_the_session_with_a_word() {
    let (direct, proxy, port) = start().await;
    for length in [0_u32, 1, 3, 0x4000_0000, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        for before in [Vec::new(), query("SELECT 1")] {
            let mut raw = Raw::connect(port);
            let bad = [&b"Q"[..], &length.to_be_bytes(), b"more"].concat();
            raw.send(&[before, bad].concat());
            let got = raw.rest();
            let fatal: Vec<_> = got.iter().filter(|event| event.starts_with("E FATAL")).collect();
            assert_eq!(fatal, [&format!("E FATAL 08P01 invalid message length {length}")]);
            assert_eq!(got.last().unwrap(), "end");
        }
    }
    wait_for("the sessions to be gone", || proxy.sessions().is_empty());
    let left = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'";
    wait_for("the servers' ends", || direct.sql("postgres", left) == "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_asked_for_at_startup_is_refused_with_a_reason() {
    let (_direct, _proxy, port) = start().await;
    let refused = |more: &[(&str, &str)]| Raw::dial(port).login(more);
    assert_eq!(
        refused(&[("database", "other")]),
        ["E FATAL 3D000 database \"other\" does not exist"]
    );
    for value in ["true", "database", "1", "on"] {
        let got = refused(&[("replication", value)]);
        assert_eq!(got, ["E FATAL 0A000 replication connections are not supported"]);
    }
    for value in ["false", "off", "f", "no", "0"] {
        assert_eq!(*refused(&[("replication", value)]).last().unwrap(), "Z I");
    }
    // Without the right token nobody learns whether a database or lease is there.
    let who = |user, password| {
        Raw::dial(port).login_as(user, password, 0x0003_0000, &[("database", "other")])
    };
    assert_eq!(
        who(USER, "wrong"),
        ["E FATAL 28P01 password authentication failed for user \"app\""]
    );
    assert_eq!(who("x", "wrong"), ["E FATAL 28P01 password authentication failed for user \"x\""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_on_connections_are_told_and_places_come_free() {
    let direct = Direct::start();
    let lease = Arc::new(OneLease::with(&direct, 3));
    let settings = ProxySettings { max_connections: 2, ..settings(false) };
    let (proxy, port) = proxy_with(&direct, lease, Open, settings.clone()).await;
    let (one, _two) = (Raw::connect(port), Raw::connect(port));
    assert_eq!(Raw::dial(port).login(&[]), ["E FATAL 53300 sorry, too many clients already"]);
    drop(one);
    wait_for("a place", || proxy.sessions().len() == 1);
    proxy.set_settings(ProxySettings { max_connections: 100, ..settings });
    let _more = [Raw::connect(port), Raw::connect(port)];
    let got = Raw::dial(port).login(&[]);
    assert_eq!(got, ["E FATAL 53300 too many connections for lease app"]);
    assert_eq!(proxy.sessions().len(), 3);
}

/// Never reaches its branch.
struct Unreachable(OneLease);

impl Authority for Unreachable {
    fn find(&self, user: &str) -> Option<Arc<Grant>> {
        self.0.find(user)
    }
    async fn reach(&self, _grant: &Arc<Grant>) -> Result<Backend, ReachError> {
        std::future::pending().await
    }
    fn left(&self, _grant: &Arc<Grant>) {
        panic!("left a branch that was never reached");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_startup_that_takes_too_long_is_ended_at_the_deadline() {
    let direct = Direct::start();
    let settings = ProxySettings { startup_timeout: Duration::from_secs(1), ..settings(false) };
    let lease = Arc::new(Unreachable(OneLease::on(&direct)));
    let (_proxy, port) = proxy_with(&direct, Arc::clone(&lease), Open, settings).await;
    let began = Instant::now();
    let mut silent = Raw::dial(port);
    let mut started = Raw::dial(port);
    started.send(&startup(0x0003_0000, &[("user", USER)]));
    let mut drip = Raw::dial(port);
    let told = std::thread::spawn(move || Raw::dial(port).login(&[]));
    for byte in startup(0x0003_0000, &[("user", USER), ("options", &"x".repeat(200))]) {
        if drip.stream.write_all(&[byte]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(silent.rest(), ["end"]);
    assert_eq!(drip.rest(), ["end"]);
    let canceled = "E FATAL 57014 canceling authentication due to timeout";
    assert_eq!(started.rest()[1..], [canceled, "end"]);
    assert_eq!(told.join().unwrap(), [canceled]);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert_eq!(lease.0.grant().life.sessions(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_is_told_once() {
    let (direct, proxy, port) = start().await;
    // Ended by an administrator: the server's own word.
    let mut idle = Raw::connect(port);
    let mut busy = Raw::connect(port);
    busy.send(&query("SELECT pg_sleep(30)"));
    let ends =
        format!("SELECT pg_terminate_backend({}), pg_terminate_backend({})", idle.pid, busy.pid);
    direct.sql("postgres", &ends);
    for raw in [&mut idle, &mut busy] {
        let got = raw.rest();
        let fatal: Vec<_> = got.iter().filter(|event| event.starts_with('E')).collect();
        assert_eq!(fatal, ["E FATAL 57P01 terminating connection due to administrator command"]);
    }
    // Killed: nothing but the end of the connection, so the word is ours; the others get theirs.
    let mut killed = Raw::connect(port);
    let mut other = Raw::connect(port);
    killed.send(&query("SELECT pg_sleep(30)"));
    wait_for("it to run", || {
        direct.sql("postgres", "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%sleep(30)' AND state = 'active'") == "1"
    });
    signal(killed.pid, rustix::process::Signal::KILL);
    let lost = "E FATAL 08006 the branch's server closed the connection unexpectedly";
    assert_eq!(killed.rest(), [lost, "end"]);
    let got = other.rest();
    assert!(got[0].starts_with("N 57P02"), "{got:?}"); // a server in a hurry only warns
    assert_eq!(got[1..], [lost, "end"]);
    wait_for("the server to be back", || Raw::dial(port).login(&[]).last().unwrap() == "Z I");
    wait_for("the sessions to be gone", || proxy.sessions().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_lease_and_a_shutdown_are_told() {
    let direct = Direct::start();
    let lease = Arc::new(OneLease::on(&direct));
    let (proxy, port) = proxy(&direct, Arc::clone(&lease), false).await;
    let mut idle = Raw::connect(port);
    let mut open = Raw::connect(port);
    open.ask(&query("BEGIN"), 1);
    let stopping = tokio::spawn(async move {
        proxy.stop(Duration::from_secs(20), tokio_util::sync::CancellationToken::new()).await;
    });
    let down = "E FATAL 57P01 terminating connection because postern is shutting down";
    assert_eq!(idle.rest(), [down, "end"]);
    // Accepts no more, but a transaction goes on to its end.
    wait_for("no more to be accepted", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_err()
    });
    assert_eq!(open.ask(&query("SELECT 1"), 1), ["T", "D 1", "C SELECT 1", "Z T"]);
    assert_eq!(open.ask(&query("COMMIT"), 2), ["C COMMIT", "Z I", down, "end"]);
    stopping.await.unwrap();

    let (proxy, port) = common::direct::proxy(&direct, Arc::clone(&lease), false).await;
    let mut idle = Raw::connect(port);
    let mut busy = Raw::connect(port);
    busy.send(&query("SELECT pg_sleep(30), 'revoked'"));
    let running = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%revoked%' AND pid <> pg_backend_pid()";
    wait_for("it to run", || direct.sql("postgres", running) == "1");
    let began = Instant::now();
    lease.grant().life.end(LeaseEnd::Revoked);
    let over = "E FATAL 57P01 terminating connection because lease app is revoked";
    assert_eq!(idle.rest(), [over, "end"]);
    let got = busy.rest();
    assert_eq!(got[got.len() - 2..], [over, "end"]);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    wait_for("its statement to be cancelled", || direct.sql("postgres", running) == "0");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(Raw::dial(port).login(&[]), ["E FATAL 28000 lease app is revoked"]);
    wait_for("the sessions to be gone", || proxy.sessions().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_a_password_gets_it_and_must_know_it_too() {
    let direct = Direct::start();
    let login = async |lease| {
        let (proxy, port) = proxy(&direct, Arc::new(lease), false).await;
        let got = Raw::dial(port).login(&[]);
        drop(proxy);
        got
    };
    let got = login(OneLease::over_tcp(&direct, PASSWORD)).await;
    assert_eq!(got.last().unwrap(), "Z I");
    // The server's own word.
    let got = login(OneLease::over_tcp(&direct, "wrong")).await;
    assert_eq!(got, ["E FATAL 28P01 password authentication failed for user \"app\""]);
    // One that asks for none is not the one that was meant.
    let got = login(OneLease::with_unasked_password(&direct)).await;
    assert_eq!(got, ["E FATAL 08006 the branch's server did not accept postern's login"]);
}

/// Runs something and gives by how many bytes this process grew at most meanwhile.
fn growth(work: impl FnOnce() + Send) -> u64 {
    let me = std::process::id();
    let before = rss(me);
    let mut most = before;
    std::thread::scope(|scope| {
        let work = scope.spawn(work);
        while !work.is_finished() {
            most = most.max(rss(me));
            std::thread::sleep(Duration::from_millis(5));
        }
        work.join().unwrap();
    });
    most - before
}

/// Reads and throws away.
fn swallow(raw: &Raw, mut n: usize) {
    let mut chunk = vec![0; 65536];
    let mut stream = &raw.stream;
    while n > 0 {
        let got = stream.read(&mut chunk).unwrap();
        assert!(got > 0);
        n = n.saturating_sub(got);
    }
}

const BIG: usize = 200 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_value_of_200_megabytes_does_not_grow_memory() {
    let (_direct, _proxy, port) = start().await;
    let mut raw = Raw::connect(port);
    let mut warm = Raw::connect(port);
    warm.ask(&query("SELECT repeat('x', 1000000)"), 1);
    // As a result.
    let out = growth(|| {
        raw.send(&query(&format!("SELECT repeat('x', {BIG})")));
        swallow(&raw, BIG);
    });
    // As a parameter, in pieces, so that this side of the test holds none of it either.
    let mut raw = Raw::connect(port);
    let up = growth(|| {
        let head = bind("", &[b""]);
        let (start, end) = (head.len() - 6, head.len() - 2);
        let length = u32::try_from(head.len() - 1 + BIG).unwrap();
        raw.send(&parse("", "SELECT length($1)"));
        raw.send(&[&b"B"[..], &length.to_be_bytes(), &head[5..start]].concat());
        raw.send(&u32::try_from(BIG).unwrap().to_be_bytes());
        let piece = vec![b'x'; 1 << 16];
        for _ in 0..BIG >> 16 {
            raw.send(&piece);
        }
        let got = raw.ask(&[head[end..].to_vec(), execute(0), sync()].concat(), 1);
        assert!(got.contains(&format!("D {BIG}")), "{got:?}");
    });
    assert!(out < 16 << 20 && up < 16 << 20, "out {out}, up {up}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stops_reading_stalls_nobody_else_and_holds_little() {
    let (_direct, proxy, port) = start().await;
    let mut stalled: Vec<_> = (0..10).map(|_| Raw::connect(port)).collect();
    let mut other = Raw::connect(port);
    let grown = growth(|| {
        for raw in &mut stalled {
            raw.send(&query("SELECT repeat('x', 1000) FROM generate_series(1, 200000)"));
        }
        for _ in 0..200 {
            assert_eq!(other.ask(&[run("SELECT 1"), sync()].concat(), 1).last().unwrap(), "Z I");
        }
    });
    assert!(grown < 8 << 20, "{grown}");
    // One of them reads after all, and gets everything.
    let got = stalled[0].until(b'Z', 1);
    assert_eq!(got.len(), 200_003);
    drop(stalled);
    drop(other);
    wait_for("the sessions to be gone", || proxy.sessions().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_are_small() {
    let (_direct, proxy, port) = start().await;
    drop(Raw::connect(port));
    let mut sessions = Vec::new();
    let me = std::process::id();
    let before = rss(me);
    for _ in 0..150 {
        let mut raw = Raw::connect(port);
        raw.ask(&query("SELECT repeat('x', 100000)"), 1);
        raw.ask(&[run("SELECT 1"), sync()].concat(), 1);
        sessions.push(raw);
    }
    let each = rss(me).saturating_sub(before) / 150;
    assert_eq!(proxy.sessions().len(), 150);
    // 1,000 in 20 MB; the test's own ends are counted too, some 16 kB each for what they read.
    assert!(each < 20 * 1024 + 16 * 1024, "{each} bytes for each idle session");

    // Unauthenticated: 10,000 in 64 MB, as far as this process may open files (two for each).
    let most =
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1024);
    let count = 10_000.min(usize::try_from(most).unwrap() / 2 - 600);
    let before = rss(me);
    let begin = startup(0x0003_0000, &[("user", USER)]);
    let waiting: Vec<_> = (0..count)
        .map(|i| {
            let mut raw = Raw::dial(port);
            if i % 2 == 0 {
                raw.send(&begin); // as far as the password
            } else {
                raw.send(&begin[..9]);
            }
            raw
        })
        .collect();
    let mut one = Raw::connect(port);
    assert_eq!(one.ask(&query("SELECT 1"), 1).last().unwrap(), "Z I");
    let each = rss(me).saturating_sub(before) / count as u64;
    println!("{count} waiting, {each} bytes each");
    assert!(each < 6500, "{each} bytes for each of {count} that did not log in");
    drop(waiting);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_balancer_tells_the_clients_address_and_nobody_else_may() {
    let direct = Direct::start();
    let header = |address: [u8; 4]| {
        let mut out = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
        out.extend(address);
        out.extend([127, 0, 0, 1, 0x10, 0x20, 0x30, 0x40]);
        out
    };
    let trusted = ProxySettings {
        proxy_protocol_from: vec!["127.0.0.0/8".parse().unwrap()],
        ..settings(false)
    };
    let (proxy, port) = proxy_with(&direct, Arc::new(OneLease::on(&direct)), Open, trusted).await;
    let mut raw = Raw::dial(port);
    raw.send(&header([192, 0, 2, 7]));
    assert_eq!(raw.login(&[]).last().unwrap(), "Z I");
    assert_eq!(proxy.sessions()[0].client, "192.0.2.7");
    // The client has its answer before the session is in its steady state.
    common::served::wait_for("the session to be idle", || {
        proxy.sessions()[0].activity.as_str() == "idle"
    });
    raw.ask(&query("BEGIN"), 1);
    assert_eq!(proxy.sessions()[0].activity.as_str(), "idle in transaction");
    is_refused(port, &startup(0x0003_0000, &[("user", USER), ("database", DATABASE)]));

    let (_proxy, port) =
        common::direct::proxy(&direct, Arc::new(OneLease::on(&direct)), false).await;
    is_refused(port, &header([192, 0, 2, 7]));
}
