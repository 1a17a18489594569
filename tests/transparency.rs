//! A driver, a tool or a dump sees through a lease what it sees on the branch's own socket.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper that fails fails its test")]

mod common;

use std::process::{Command, Output};

use common::cluster::install;
use common::served::{Postern, SMALL, TestLease};

/// A URL straight to the branch's server, as the role of a lease with all capabilities. Works
/// because the test runs as postern's own user.
fn direct_url(postern: &Postern, lease: &TestLease) -> String {
    let branch = postern.json(&["branch", "show", &lease.branch]);
    let dir = branch["socketDir"].as_str().unwrap().replace('/', "%2F");
    format!("postgresql://postern_migrate@/shop?host={dir}&port={}", branch["port"])
}

fn checked(what: &str, output: &Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what}: {err}\n{out}");
    out.into_owned()
}

/// Runs a driver's cases on a lease and on its branch's socket and compares what was printed.
fn same(program: &str, script: &str) {
    let Some(drivers) = common::drivers() else { return };
    let postern = Postern::start("");
    postern.import("shop", SMALL);
    let lease = postern.lease("shop", "read,write,migrate");
    drop(lease_is_up(&lease));
    let run = |url: &str| {
        let path = format!("{}/tests/drivers/{script}", env!("CARGO_MANIFEST_DIR"));
        let output = Command::new(program)
            .arg(path)
            .env("DATABASE_URL", url)
            .env("PYTHONPATH", drivers.join("python"))
            .env("NODE_PATH", drivers.join("node/node_modules"))
            .output()
            .unwrap();
        checked(script, &output)
    };
    let proxied = run(&lease.url);
    let direct = run(&direct_url(&postern, &lease));
    assert!(direct.lines().count() > 10, "{direct}");
    assert_eq!(proxied, direct);
}

/// Has the branch's server started by a first connection.
fn lease_is_up(lease: &TestLease) -> Output {
    Command::new(install().program("psql")).args(["-Xc", "SELECT 1", &lease.url]).output().unwrap()
}

#[test]
fn psycopg_sees_the_same() {
    same("python3", "psycopg_cases.py");
}

#[test]
fn asyncpg_sees_the_same() {
    same("python3", "asyncpg_cases.py");
}

#[test]
fn node_postgres_sees_the_same() {
    same("node", "node_cases.js");
}

#[test]
fn pgbench_runs_without_a_failure_in_every_mode() {
    let postern = Postern::start("");
    postern.import("shop", SMALL);
    let lease = postern.lease("shop", "read,write,migrate");
    let pgbench = |args: &[&str]| {
        let mut command = Command::new(install().program("pgbench"));
        checked("pgbench", &command.args(args).arg(&lease.url).output().unwrap())
    };
    pgbench(&["-q", "-i", "-s", "2"]);
    for mode in ["simple", "extended", "prepared"] {
        for extra in [&[][..], &["-C"], &["-S"]] {
            let base = ["-n", "-c", "8", "-j", "2", "-T", "2", "-M", mode];
            let report = pgbench(&[&base[..], extra].concat());
            assert!(report.contains("number of failed transactions: 0 (0.000%)"), "{report}");
        }
    }
}

#[test]
fn a_dump_through_the_proxy_is_the_direct_one_and_restores_through_another_lease() {
    let postern = Postern::start("");
    postern.import("shop", SMALL);
    let lease = postern.lease("shop", "read,write,migrate");
    lease_is_up(&lease);
    let dump = |args: &[&str], url: &str| {
        let mut command = Command::new(install().program("pg_dump"));
        let output = command.args(args).args(["-d", url]).output().unwrap();
        let text = checked("pg_dump", &output);
        // Newer versions print a random key in these two lines.
        let varies =
            |line: &&str| line.starts_with("\\restrict") || line.starts_with("\\unrestrict");
        text.lines().filter(|line| !varies(line)).collect::<Vec<_>>().join("\n")
    };
    let proxied = dump(&[], &lease.url);
    assert!(proxied.lines().count() > 6000, "{proxied}");
    same_lines(&proxied, &dump(&[], &direct_url(&postern, &lease)));

    postern.import("empty", "SELECT 1;");
    let other = postern.lease_with(&["--snapshot", "empty", "--cap", "read,write,migrate"]);
    let file = postern.scratch().join("dump.sql");
    std::fs::write(&file, &proxied).unwrap();
    let restored = Command::new(install().program("psql"))
        .args(["-Xq", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null", "-d", &other.url, "-f"])
        .arg(&file)
        .output()
        .unwrap();
    checked("psql", &restored);
    // What is made on a branch gets the branch's default privileges on top of its own.
    same_lines(&dump(&["--no-acl"], &other.url), &dump(&["--no-acl"], &lease.url));
}

fn same_lines(left: &str, right: &str) {
    for (n, (left, right)) in left.lines().zip(right.lines()).enumerate() {
        assert_eq!(left, right, "line {}", n + 1);
    }
    assert_eq!(left.lines().count(), right.lines().count());
}
