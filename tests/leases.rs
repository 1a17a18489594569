//! Leases from creation to their end, on real branches, through ordinary drivers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper that fails fails its test")]

mod common;

use std::time::{Duration, Instant};

use common::served::{Postern, SMALL, connect, wait_for};
use tokio_postgres::error::SqlState;

async fn count(client: &tokio_postgres::Client, table: &str) -> i64 {
    client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.unwrap().get(0)
}

fn code(error: &tokio_postgres::Error) -> (SqlState, String, Option<String>) {
    let db = error.as_db_error().unwrap_or_else(|| panic!("no error of the server: {error}"));
    (db.code().clone(), db.message().to_owned(), db.hint().map(str::to_owned))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_lease_is_alone_on_its_branch_and_does_what_it_may() {
    let postern = Postern::start("");
    let snapshot = postern.import("shop", SMALL);
    assert_eq!(snapshot["database"], "shop");
    let (read, write, migrate) = (
        postern.lease("shop", "read"),
        postern.lease("shop", "read,write"),
        postern.lease("shop", "read,write,migrate"),
    );

    // The contract's keys.
    for key in
        ["runId", "revision", "databaseUrlSecretRef", "snapshotId", "capabilities", "expiresAt"]
    {
        assert!(!read.json[key].is_null(), "{key} is missing");
    }
    assert_eq!(write.json["capabilities"], serde_json::json!(["read", "write"]));
    assert_eq!(read.json["snapshotId"], snapshot["id"]);
    let shown = postern.json(&["lease", "show", &read.id]);
    assert!(shown.get("databaseUrl").is_none(), "the URL is in the lease");
    assert_eq!(postern.json(&["lease", "url", &read.id])["databaseUrl"], read.url.as_str());

    let (r, w, m) = (
        postern.connect(&read).await,
        postern.connect(&write).await,
        postern.connect(&migrate).await,
    );
    for client in [&r, &w, &m] {
        let name: String =
            client.query_one("SELECT current_database()::text", &[]).await.unwrap().get(0);
        assert_eq!(name, "shop");
        assert_eq!(count(client, "account").await, 1000);
    }
    let refused = r.execute("DELETE FROM invoice", &[]).await.unwrap_err();
    assert!(
        [SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::INSUFFICIENT_PRIVILEGE]
            .contains(&code(&refused).0),
        "{refused}"
    );
    assert_eq!(w.execute("DELETE FROM invoice", &[]).await.unwrap(), 5000);
    w.execute("INSERT INTO account (email) VALUES ('new@example.test')", &[]).await.unwrap();
    let refused = w.batch_execute("ALTER TABLE account ADD COLUMN x int").await.unwrap_err();
    assert_eq!(code(&refused).0, SqlState::INSUFFICIENT_PRIVILEGE);
    m.batch_execute("ALTER TABLE account ADD COLUMN x int; CREATE TABLE made (id int); INSERT INTO made VALUES (1)")
        .await
        .unwrap();
    assert_eq!(count(&r, "invoice").await, 5000);
    assert_eq!(count(&m, "invoice").await, 5000);
    assert!(r.query("SELECT x FROM account", &[]).await.is_err());

    // A branch made afterwards sees the snapshot as it was sealed.
    let later = postern.connect(&postern.lease("shop", "read")).await;
    assert_eq!(count(&later, "invoice").await, 5000);
    assert_eq!(count(&later, "account").await, 1000);

    // A second lease with more, on the first one's branch: the standby promotes, both go on.
    let more = postern.lease_with(&["--branch", &read.branch, "--cap", "read,write"]);
    let more = postern.connect(&more).await;
    assert_eq!(more.execute("DELETE FROM invoice WHERE id <= 10", &[]).await.unwrap(), 10);
    let r = postern.connect(&read).await;
    assert_eq!(count(&r, "invoice").await, 4990);
    // The read-only default is a courtesy; without it the role still may not.
    r.batch_execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE").await.unwrap();
    let refused = r.execute("DELETE FROM invoice", &[]).await.unwrap_err();
    assert_eq!(code(&refused).0, SqlState::INSUFFICIENT_PRIVILEGE);

    // Snapshots cannot go while branches are made of them.
    let output = postern.run(&["snapshot", "rm", "shop"]);
    assert_eq!(output.status.code(), Some(1));
    postern.json(&["lease", "revoke", "--all"]);
    postern.wait_for_no_leftovers();
    postern.json(&["snapshot", "rm", "shop"]);
    assert_eq!(postern.json(&["snapshot", "list"]), serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_leases_at_once_are_usable_and_leave_nothing() {
    let postern = Postern::start("");
    postern.import("shop", SMALL);
    let leases: Vec<_> = std::thread::scope(|scope| {
        let makers: Vec<_> = (0..50)
            .map(|i| {
                let capabilities = if i % 2 == 0 { "read" } else { "read,write" };
                let postern = &postern;
                scope.spawn(move || postern.lease("shop", capabilities))
            })
            .collect();
        makers.into_iter().map(|maker| maker.join().unwrap()).collect()
    });
    for lease in &leases {
        assert_eq!(count(&postern.connect(lease).await, "invoice").await, 5000);
    }
    postern.json(&["lease", "revoke", "--all"]);
    postern.wait_for_no_leftovers();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_in_the_middle_of_creation_leaks_nothing() {
    let mut postern = Postern::start("");
    postern.import("shop", SMALL);
    let kept = postern.lease("shop", "read,write");
    let client = postern.connect(&kept).await;
    client.execute("DELETE FROM invoice WHERE id > 100", &[]).await.unwrap();
    for pause in [20, 60, 110, 170, 260] {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let postern = &postern;
                scope.spawn(|| {
                    postern.run(&[
                        "lease",
                        "create",
                        "--run",
                        "x",
                        "--revision",
                        "r",
                        "--snapshot",
                        "shop",
                    ])
                });
            }
            std::thread::sleep(Duration::from_millis(pause));
            common::served::signal(postern.pid(), rustix::process::Signal::KILL);
        });
        postern.kill();
        postern.serve();
        // What the state calls a lease works; nothing else is there.
        let leases = postern.json(&["lease", "list"]);
        let leases = leases.as_array().unwrap();
        assert!(leases.iter().any(|lease| lease["leaseId"] == kept.id.as_str()));
        let mut branches: Vec<_> =
            leases.iter().map(|lease| lease["branchId"].as_str().unwrap().to_owned()).collect();
        for lease in leases {
            let url = postern.json(&["lease", "url", lease["leaseId"].as_str().unwrap()]);
            let client = connect(url["databaseUrl"].as_str().unwrap()).await.unwrap();
            let kept = lease["leaseId"] == kept.id.as_str();
            assert_eq!(count(&client, "invoice").await, if kept { 100 } else { 5000 });
        }
        branches.sort();
        wait_for("only the leases' branches to be there", || {
            let mut there: Vec<_> = std::fs::read_dir(postern.data.join("branches"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            there.sort();
            there == branches
        });
    }
    postern.json(&["lease", "revoke", "--all"]);
    postern.wait_for_no_leftovers();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_over_ends_its_sessions_and_refuses_new_ones() {
    let postern = Postern::start("");
    postern.import("shop", SMALL);

    // Revoked in the middle of a statement.
    let lease = postern.lease("shop", "read,write");
    let client = postern.connect(&lease).await;
    let sleeping = tokio::spawn(async move { client.simple_query("SELECT pg_sleep(60)").await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let began = Instant::now();
    postern.json(&["lease", "revoke", &lease.id]);
    let error = sleeping.await.unwrap().unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let (sqlstate, message, _) = code(&error);
    assert_eq!(sqlstate, SqlState::ADMIN_SHUTDOWN);
    assert!(message.contains("revoked"), "{message}");
    let (sqlstate, message, hint) = code(&connect(&lease.url).await.err().unwrap());
    assert_eq!(sqlstate, SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
    assert!(message.contains("revoked") && hint.is_some(), "{message} {hint:?}");
    assert_eq!(postern.run(&["lease", "url", &lease.id]).status.code(), Some(1));

    // Without the token nobody learns that it ever was.
    let wrong = format!("postgresql://{}:wrong@127.0.0.1:{}/shop", lease.id, postern.port);
    assert_eq!(code(&connect(&wrong).await.err().unwrap()).0, SqlState::INVALID_PASSWORD);

    // Expired while idle.
    let lease = postern.lease_with(&["--snapshot", "shop", "--cap", "read", "--ttl", "2s"]);
    let (client, connection) =
        tokio_postgres::connect(&lease.url, tokio_postgres::NoTls).await.unwrap();
    let error = tokio::time::timeout(Duration::from_secs(4), connection).await.unwrap();
    let (sqlstate, message, hint) = code(&error.unwrap_err());
    assert_eq!(sqlstate, SqlState::ADMIN_SHUTDOWN);
    assert!(message.contains("expired") && hint.is_some(), "{message}");
    drop(client);
    let (sqlstate, message, _) = code(&connect(&lease.url).await.err().unwrap());
    assert_eq!(sqlstate, SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
    assert!(message.contains("expired"), "{message}");

    // Renewed in time.
    let lease = postern.lease_with(&["--snapshot", "shop", "--cap", "read", "--ttl", "2s"]);
    postern.json(&["lease", "renew", &lease.id, "--ttl", "1h"]);
    tokio::time::sleep(Duration::from_millis(2300)).await;
    assert_eq!(count(&postern.connect(&lease).await, "invoice").await, 5000);

    postern.json(&["lease", "revoke", "--all"]);
    postern.wait_for_no_leftovers();
}
