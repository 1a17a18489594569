//! The evidence log as others see it: complete, in order, and nothing changed unseen.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a step that fails fails its test")]

use std::fs;
use std::path::{Path, PathBuf};

use postern::evidence::{
    Completion, Event, EventCode, Evidence, Facts, Outcome, Parameter, Protocol, PublicKey, Range,
    Reason, Report, SessionContext, SessionLog, SessionStart, Settings, StatementText, verify,
};
use proptest::prelude::*;

fn context(number: u64) -> SessionContext<'static> {
    SessionContext {
        number,
        lease: "lease_1",
        run: "run \"1\"",
        revision: "abc123",
        branch: "branch_1",
        snapshot: "shop",
        database: "shop",
    }
}

fn session(log: &Evidence, number: u64) -> SessionLog {
    log.session(&context(number), &SessionStart::default()).unwrap()
}

fn facts() -> Facts<'static> {
    Facts {
        operation: "SELECT",
        classes: &["read"],
        tables: &["public.orders"],
        rule: "read.select",
        ..Facts::default()
    }
}

fn commit(session: &mut SessionLog) -> Result<(), postern::evidence::EvidenceError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(std::future::poll_fn(|cx| session.poll_commit(cx)))
}

fn run(log: &Evidence, session: &mut SessionLog, sql: &str) {
    let text = StatementText::new(log, sql.as_bytes(), &facts());
    let id = session.intend(&text, Protocol::Simple, &[]);
    commit(session).unwrap();
    session.complete(id, &Completion { tag: b"SELECT 1", rows: 1, ..Completion::new(Outcome::Ok) });
}

fn check(dir: &Path) -> Report {
    verify(dir, PublicKey::beside(dir).unwrap(), Range::ALL).unwrap()
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

fn segment(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:010}.jsonl"))
}

#[test]
fn what_is_recorded_can_be_read_and_verified() {
    let dir = tempfile::tempdir().unwrap();
    let log = Evidence::open(dir.path(), Settings::default()).unwrap();
    let mut session = session(&log, 1);
    run(&log, &mut session, "SELECT 'it''s' /*step='1'*/");
    let text = StatementText::new(&log, b"SELECT $1, $2, $3", &facts());
    let parameter = |value, binary| Parameter { value, binary, type_oid: 25, length: 0 };
    let values = [
        parameter(Some(&b"text"[..]), false),
        parameter(None, false),
        parameter(Some(&[0, 255]), true),
    ];
    let id = session.intend(&text, Protocol::Extended, &values);
    session.deny(&text, Protocol::Simple, &[], "42501", "lease has read");
    commit(&mut session).unwrap();
    session.complete(
        id,
        &Completion {
            sqlstate: b"22012",
            message: b"division by zero",
            ..Completion::new(Outcome::Error)
        },
    );
    session.end("closed", &[]);
    log.record_blocking(&Event::new(EventCode::LeaseRevoked).lease("lease_1")).unwrap();
    log.close();

    let report = check(dir.path());
    assert!(report.ok, "{report:?}");
    let records: Vec<serde_json::Value> = lines(&segment(dir.path(), 1))
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let events: Vec<_> = records.iter().map(|r| r["event"].as_str().unwrap()).collect();
    assert_eq!(
        events,
        [
            "log.segment",
            "log.opened",
            "session.start",
            "statement",
            "statement.end",
            "statement",
            "denial",
            "statement.end",
            "session.end",
            "lease.revoked",
            "log.closed"
        ]
    );
    assert_eq!(report.records, 11);
    assert_eq!(records[3]["db.query.text"], "SELECT 'it''s' /*step='1'*/");
    assert_eq!(records[3]["postern.tags"]["step"], "1");
    assert_eq!(records[3]["postern.run"], "run \"1\"");
    assert_eq!(records[5]["db.query.parameter.0"], "text");
    assert!(records[5]["db.query.parameter.1"].is_null());
    assert_eq!(records[5]["db.query.parameter.2"]["base64"], "AP8=");
    assert_eq!(records[6]["db.response.status_code"], "42501");
    assert_eq!(records[7]["postern.statement"], records[5]["postern.statement"]);
}

#[test]
fn a_log_goes_on_where_it_was_left() {
    let dir = tempfile::tempdir().unwrap();
    for round in 1..=3_u64 {
        let log = Evidence::open(dir.path(), Settings::default()).unwrap();
        assert!(Evidence::open(dir.path(), Settings::default()).is_err(), "two writers");
        let mut session = session(&log, round);
        run(&log, &mut session, "SELECT 1");
    }
    let report = check(dir.path());
    assert!(report.ok && report.segments == 1, "{report:?}");
    assert_eq!(
        lines(&segment(dir.path(), 1)).iter().filter(|l| l.contains("log.closed")).count(),
        3
    );
}

#[test]
fn full_segments_are_packed_and_still_verify() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings { segment_bytes: 300_000, ..Settings::default() };
    let log = Evidence::open(dir.path(), settings).unwrap();
    let mut session = session(&log, 1);
    for i in 0..2000 {
        run(&log, &mut session, &format!("SELECT {i}"));
    }
    drop(session);
    log.close();
    let packed = fs::read_dir(dir.path())
        .unwrap()
        .filter(|e| e.as_ref().unwrap().file_name().to_str().unwrap().ends_with(".jsonl.zst"));
    assert!(packed.count() >= 2);
    let report = check(dir.path());
    assert!(report.ok && report.records > 4000, "{report:?}");
    let part = verify(dir.path(), log.public_key(), Range { from: 1000, to: 1500 }).unwrap();
    assert!(part.ok && part.records == 501 && (part.first, part.last) == (1000, 1500), "{part:?}");
}

/// A log of about 10,000 records in several plain segments.
fn big(dir: &Path) -> Vec<PathBuf> {
    let settings = Settings { segment_bytes: 1 << 20, pack: false, ..Settings::default() };
    let log = Evidence::open(dir, settings).unwrap();
    let mut session = session(&log, 1);
    let text = StatementText::new(&log, b"SELECT * FROM orders WHERE id = $1", &facts());
    for _ in 0..500 {
        let ids: Vec<_> = (0..10).map(|_| session.intend(&text, Protocol::Extended, &[])).collect();
        commit(&mut session).unwrap();
        for id in ids {
            session.complete(id, &Completion::new(Outcome::Ok));
        }
    }
    drop(session);
    log.close();
    let report = check(dir);
    assert!(report.ok && report.records > 10_000, "{report:?}");
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "jsonl"));
    files.sort();
    files
}

#[test]
fn any_edit_deletion_or_swap_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let files = big(dir.path());
    let whole: Vec<Vec<u8>> = files.iter().map(|path| fs::read(path).unwrap()).collect();
    let found = |reasons: &[Reason], what: &str| {
        let report = check(dir.path());
        let finding = report.finding.unwrap_or_else(|| panic!("not found: {what}"));
        assert!(reasons.contains(&finding.reason), "{what}: {finding:?}");
        finding
    };
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(24));
    let place =
        (0..files.len(), any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1_u8..=255);
    runner
        .run(&place, |(file, at, other, flip)| {
            let (path, bytes) = (&files[file], &whole[file]);
            let restore = || fs::write(path, bytes).unwrap();
            let any = [Reason::Edited, Reason::Missing, Reason::Truncated, Reason::Unsigned];

            let i = at.index(bytes.len());
            let mut edited = bytes.clone();
            edited[i] ^= flip;
            fs::write(path, &edited).unwrap();
            found(&any, &format!("byte {i} of {}", path.display()));
            let mut shorter = bytes.clone();
            shorter.remove(i);
            fs::write(path, &shorter).unwrap();
            found(&any, &format!("byte {i} of {} removed", path.display()));

            let lines: Vec<_> = bytes.split_inclusive(|b| *b == b'\n').collect();
            let (a, b) = (at.index(lines.len()), other.index(lines.len()));
            let mut fewer = lines.clone();
            fewer.remove(a);
            fs::write(path, fewer.concat()).unwrap();
            let last = file + 1 == files.len() && a + 1 == lines.len();
            let reason = if last {
                Reason::Truncated
            } else if a == 0 {
                Reason::Unsigned
            } else {
                Reason::Missing
            };
            found(&[reason, Reason::Missing], &format!("line {a} of {} removed", path.display()));
            if a != b {
                let mut swapped = lines.clone();
                swapped.swap(a, b);
                fs::write(path, swapped.concat()).unwrap();
                let reasons = [Reason::Reordered, Reason::Unsigned, Reason::Missing];
                found(&reasons, &format!("lines {a} and {b} of {} swapped", path.display()));
            }
            restore();
            Ok(())
        })
        .unwrap();
    assert!(check(dir.path()).ok);

    // Cutting off the end, anywhere.
    let last = files.last().unwrap();
    let bytes = whole.last().unwrap();
    for keep in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        fs::write(last, &bytes[..keep]).unwrap();
        found(&[Reason::Truncated], &format!("cut to {keep}"));
    }
    fs::remove_file(last).unwrap();
    found(&[Reason::Truncated], "the last segment removed");
    fs::write(last, bytes).unwrap();

    fs::remove_file(&files[1]).unwrap();
    let finding = found(&[Reason::Missing], "a segment removed");
    assert_eq!(finding.segment, 2);
    fs::write(&files[1], &whole[1]).unwrap();
    fs::remove_file(&files[0]).unwrap();
    found(&[Reason::Missing], "the first segment removed");
    fs::write(&files[0], &whole[0]).unwrap();
    fs::rename(&files[0], dir.path().join("x")).unwrap();
    fs::rename(&files[1], &files[0]).unwrap();
    fs::rename(dir.path().join("x"), &files[1]).unwrap();
    found(&[Reason::Reordered, Reason::Missing], "two segments swapped");
}
