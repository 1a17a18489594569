//! The fuzz targets, for a moment each, and whole sessions with nonsense in them.

mod common;

#[path = "../fuzz/bodies.rs"]
mod bodies;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::direct::{Direct, OneLease, proxy};
use common::raw::{Raw, bind, execute, msg, parse, query, run, startup, sync};
use common::served::wait_for;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

const SECONDS: u64 = 3;

/// Random bytes, and the seeds with a few bytes changed, cut off or repeated.
fn inputs(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let mutated = (
        prop::sample::select(seeds),
        prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        any::<prop::sample::Index>(),
        0_u8..4,
    )
        .prop_map(|(mut bytes, changes, cut, how)| {
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let cut = cut.index(bytes.len());
            match how {
                0 => bytes.truncate(cut),
                1 => bytes.extend_from_within(cut..),
                _ => {}
            }
            bytes
        });
    prop_oneof![1 => prop::collection::vec(any::<u8>(), 0..300), 4 => mutated]
}

fn for_a_moment(seeds: Vec<Vec<u8>>, mut body: impl FnMut(Vec<u8>)) -> u32 {
    let (mut runner, inputs) = (TestRunner::default(), inputs(seeds));
    let (until, mut count) = (Instant::now() + Duration::from_secs(SECONDS), 0);
    while Instant::now() < until {
        body(inputs.new_tree(&mut runner).unwrap().current());
        count += 1;
    }
    count
}

#[test]
fn framing() {
    let error = {
        let mut out = Vec::new();
        let fields = postern::wire::ErrorFields::new(postern::error::SqlState::IO_ERROR, "message");
        fields.hint("hint").encode(postern::wire::message::Severity::Fatal, &mut out);
        out
    };
    for_a_moment(vec![error, sync(), run("SELECT 1"), b"\0\0\0\0\0\0".to_vec()], |bytes| {
        bodies::framing(&bytes)
    });
}

#[test]
fn startups() {
    let seeds = vec![
        startup(0x0003_0000, &[("user", "app"), ("options", ""), ("_pq_.x", "1")]),
        startup(0x0003_0002, &[("user", "app"), ("database", "x")]),
        [&12_u32.to_be_bytes()[..], &80_877_102_u32.to_be_bytes(), &[0; 8]].concat(),
        [8_u32.to_be_bytes(), 80_877_103_u32.to_be_bytes()].concat(),
    ];
    for_a_moment(seeds, |bytes| bodies::startup(&bytes));
}

#[test]
fn scram() {
    let seeds = vec![
        b"n,,n=,r=abcdefgh\0c=biws,r=abcdefgh,p=AAAA".to_vec(),
        b"p=tls-server-end-point,,n=,r=abcdefgh\0c=cD10,r=x,p=AAAA".to_vec(),
        b"r=abcdefgh,s=AAAA,i=4096\0v=AAAA".to_vec(),
    ];
    for_a_moment(seeds, |bytes| bodies::scram(&bytes));
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions() {
    let panics = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&panics);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        count.fetch_add(1, Ordering::SeqCst);
        hook(info);
    }));
    let direct = Direct::start();
    let (proxy, port) = proxy(&direct, Arc::new(OneLease::on(&direct)), false).await;
    let mut good = Raw::connect(port);
    let seeds = vec![
        [run("SELECT 1"), sync(), query("SELECT 2")].concat(),
        [parse("s", "SELECT $1::int"), bind("s", &[b"1"]), execute(1), sync()].concat(),
        [query("COPY pg_class TO STDOUT"), query("BEGIN"), msg(b'X', b"")].concat(),
        [
            query("CREATE TEMP TABLE t (a int); COPY t FROM STDIN"),
            msg(b'd', b"1\n"),
            sync(),
            msg(b'c', b""),
        ]
        .concat(),
        [
            msg(b'F', &[0; 12]),
            msg(b'H', b""),
            msg(b'f', b"why\0"),
            msg(b'C', b"Sx\0"),
            msg(b'D', b"P\0"),
        ]
        .concat(),
    ];
    let sessions = for_a_moment(seeds, |bytes| {
        let mut raw = Raw::connect(port);
        let _ = std::io::Write::write_all(&mut raw.stream, &bytes);
        raw.half_close();
        raw.stream.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
        let _ = std::io::copy(&mut &raw.stream, &mut std::io::sink());
    });
    assert!(sessions > 20, "{sessions}");
    assert_eq!(good.ask(&query("SELECT 1"), 1).last().unwrap(), "Z I");
    drop(good);
    wait_for("the sessions to be gone", || proxy.sessions().is_empty());
    assert_eq!(panics.load(Ordering::SeqCst), 0);
}
