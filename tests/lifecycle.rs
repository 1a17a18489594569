//! A server's and a branch's life, on real PostgreSQL.

mod common;

use std::time::Instant;

use common::cluster::{Sweep, initdb, sealed, spec, temp_dir};
use postern::branch::process::{postmasters_below, working_in};
use postern::branch::server::{Server, ServerError, Stop};

#[tokio::test]
async fn a_server_starts_answers_and_leaves_nothing() {
    let dir = temp_dir(None);
    let _sweep = Sweep(dir.path().to_owned());
    initdb(dir.path()).await;

    let begun = Instant::now();
    let server = Server::start(spec(dir.path(), false)).await.unwrap();
    eprintln!("first start: {:?}", begun.elapsed());
    let client = server.connect("postern", "postgres").await.unwrap();
    for (setting, value) in [
        ("listen_addresses", ""),
        ("dynamic_shared_memory_type", "mmap"),
        ("fsync", "off"),
        ("max_wal_senders", "0"),
        ("archive_mode", "off"),
        ("cluster_name", "test"),
    ] {
        let row = client.query_one("SELECT current_setting($1)", &[&setting]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), value, "{setting}");
    }
    let invalid = client
        .query("SELECT error FROM pg_file_settings WHERE error IS NOT NULL AND error !~ 'not be applied|restart'", &[])
        .await
        .unwrap();
    assert!(invalid.is_empty(), "{invalid:?}");
    assert!(matches!(
        Server::start(spec(dir.path(), false)).await,
        Err(ServerError::Running { .. })
    ));
    assert_eq!(postmasters_below(dir.path()).unwrap().len(), 1);

    server.stop(Stop::Fast).await;
    assert!(working_in(dir.path()).is_empty());
    assert_eq!(std::fs::read_dir(dir.path().join("s")).unwrap().count(), 0);

    let begun = Instant::now();
    let server = Server::start(spec(dir.path(), false)).await.unwrap();
    eprintln!("second start: {:?}", begun.elapsed());
    server.stop(Stop::Immediate).await;
    assert!(working_in(dir.path()).is_empty());
    assert!(!dir.path().join("data/postmaster.pid").exists());
}

#[tokio::test]
async fn what_alter_system_set_does_not_survive() {
    let dir = temp_dir(None);
    let _sweep = Sweep(dir.path().to_owned());
    let data = initdb(dir.path()).await;
    std::fs::write(
        data.join("postgresql.auto.conf"),
        "listen_addresses = '*'\nprimary_conninfo = 'host=prod'\nwork_mem = '7MB'\n",
    )
    .unwrap();
    let server = Server::start(spec(dir.path(), false)).await.unwrap();
    let client = server.connect("postern", "postgres").await.unwrap();
    for (setting, value) in
        [("listen_addresses", ""), ("primary_conninfo", ""), ("work_mem", "4MB")]
    {
        let row = client.query_one("SELECT current_setting($1)", &[&setting]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), value, "{setting}");
    }
    // Even set while it runs, what matters stays as it is.
    let _ = client.batch_execute("ALTER SYSTEM SET hba_file = '/tmp/mine'").await;
    let _ = client.batch_execute("ALTER SYSTEM SET archive_command = 'curl evil'").await;
    client.query_one("SELECT pg_reload_conf()", &[]).await.unwrap();
    let row = client.query_one("SELECT current_setting('archive_command')", &[]).await.unwrap();
    assert_ne!(row.get::<_, &str>(0), "curl evil");
    server.stop(Stop::Fast).await;
}

#[tokio::test]
async fn nobody_but_postern_logs_in_and_nothing_goes_out() {
    let dir = temp_dir(None);
    let _sweep = Sweep(dir.path().to_owned());
    sealed(dir.path()).await;
    let spec = spec(dir.path(), false);
    let account = spec.account.clone();
    let server = Server::start(spec).await.unwrap();
    for role in ["postern", "postern_read", "postern_write", "postern_migrate"] {
        server.connect(role, "shop").await.unwrap();
    }
    assert!(server.connect("stranger", "shop").await.is_err());

    if account.switches_user() {
        // The servers' own user, which a broken-out agent would be, gets no session.
        let output = account
            .plain(&common::cluster::install().program("psql"))
            .args(["-w", "-h"])
            .arg(dir.path().join("s"))
            .args(["-U", "postern", "-d", "shop", "-c", "SELECT 1"])
            .current_dir("/")
            .output()
            .await
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("Peer authentication failed"), "{text}");
    }
    if account.walls.network() {
        let client = server.connect("postern", "shop").await.unwrap();
        client.batch_execute("CREATE TABLE seen (line text)").await.unwrap();
        let program = r#"COPY seen FROM PROGRAM 'cat /proc/net/dev /proc/net/route; env; id -u'"#;
        client.batch_execute(program).await.unwrap();
        let rows = client.query("SELECT line FROM seen", &[]).await.unwrap();
        let text: Vec<&str> = rows.iter().map(|r| r.get(0)).collect();
        let text = text.join("\n");
        assert!(!text.contains("eth") && !text.contains("CARGO"), "{text}");
        assert!(text.ends_with(&format!("\n{}", account.uid)), "{text}");
    }
    server.stop(Stop::Fast).await;
}

#[tokio::test]
async fn a_standby_refuses_writes_until_promoted_and_sessions_go_on() {
    let dir = temp_dir(None);
    let _sweep = Sweep(dir.path().to_owned());
    sealed(dir.path()).await;
    let begun = Instant::now();
    let server = Server::start(spec(dir.path(), true)).await.unwrap();
    eprintln!("standby start: {:?}", begun.elapsed());
    let client = server.connect("postern", "shop").await.unwrap();
    let error = client.batch_execute("DELETE FROM item").await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "25006", "{error}");

    let begun = Instant::now();
    server.promote().await.unwrap();
    eprintln!("promotion: {:?}", begun.elapsed());
    server.promote().await.unwrap();
    assert_eq!(client.execute("DELETE FROM item WHERE id <= 10", &[]).await.unwrap(), 10);
    server.stop(Stop::Fast).await;

    let server = Server::start(spec(dir.path(), false)).await.unwrap();
    let client = server.connect("postern_read", "shop").await.unwrap();
    let row = client.query_one("SELECT count(*) FROM item", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 990);
    server.stop(Stop::Fast).await;
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why() {
    let dir = temp_dir(None);
    let _sweep = Sweep(dir.path().to_owned());
    let data = initdb(dir.path()).await;
    std::fs::remove_file(data.join("global/pg_control")).unwrap();
    let error = Server::start(spec(dir.path(), false)).await.unwrap_err();
    let ServerError::Died { log } = &error else { panic!("{error}") };
    assert!(log.contains("control file") || log.contains("pg_control"), "{log}");
    assert!(working_in(dir.path()).is_empty());
}

#[tokio::test]
async fn a_running_server_is_taken_over_but_no_other() {
    let dir = temp_dir(None);
    let _sweep = Sweep(dir.path().to_owned());
    initdb(dir.path()).await;
    let server = Server::start(spec(dir.path(), false)).await.unwrap();
    let (pid, start) = (server.process().pid(), server.process().start());
    drop(server);

    let other = Server::adopt(spec(dir.path(), false), pid, Some(start + 1)).await.unwrap();
    assert!(other.is_none());
    let me = Server::adopt(spec(dir.path(), false), std::process::id(), None).await.unwrap();
    assert!(me.is_none());
    let server = Server::adopt(spec(dir.path(), false), pid, Some(start)).await.unwrap().unwrap();
    server.connect("postern", "postgres").await.unwrap();
    server.stop(Stop::Immediate).await;
    server.ended().await;
    assert!(working_in(dir.path()).is_empty());
    assert!(Server::adopt(spec(dir.path(), false), pid, Some(start)).await.unwrap().is_none());
}
