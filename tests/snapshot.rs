//! Importing databases: every kind of source, every way to fail, and nothing left behind.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a step that fails fails its test")]

mod common;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use common::cluster::{Sweep, account, fill, initdb, install, spec, temp_dir};
use common::mount::Tmpfs;
use common::sealing::Sealing;
use postern::branch::server::{Server, Stop};
use postern::branch::snapshot::{ImportRequest, ImportSource, Progress, SnapshotError, SourceUrl};
use postern::error::{SqlState, UserFacingError as _};
use tokio_util::sync::CancellationToken;

const SHOP: &str = "
CREATE TABLE item (id int PRIMARY KEY, name text);
INSERT INTO item SELECT i, 'item ' || i FROM generate_series(1, 1000) i;
";

fn none() -> Vec<String> {
    Vec::new()
}

async fn items(sealing: &Sealing, snapshot: &str) -> i64 {
    let id = sealing.branch(snapshot, true).await;
    let count = sealing.world.items(&id).await;
    sealing.world.branches.destroy(&id).await.unwrap();
    count
}

#[tokio::test]
async fn a_script_becomes_a_sealed_snapshot() {
    use std::os::unix::fs::PermissionsExt as _;
    let sealing = Sealing::new().await;
    let mut request =
        ImportRequest::new("first", ImportSource::Sql { path: sealing.file("shop.sql", SHOP) });
    request.database = Some("shop".to_owned());
    request.sanitize =
        vec![sealing.file("mask.sql", "UPDATE item SET name = 'masked' WHERE id <= 10;")];
    let phases = Mutex::new(Vec::new());
    let told = |progress: Progress| phases.lock().unwrap().push(progress.phase);
    let snapshot = sealing.snapshots.import(request, told, CancellationToken::new()).await.unwrap();
    let mut phases = phases.into_inner().unwrap();
    phases.dedup();
    assert_eq!(phases, ["prepare", "restore", "sanitize", "wall", "seal"]);

    let json = serde_json::to_value(&snapshot).unwrap();
    assert_eq!(json["name"], "first");
    assert_eq!(json["database"], "shop");
    assert_eq!(json["pgVersion"], install().version);
    assert_eq!(json["provider"], "copy");
    assert_eq!(json["sanitizedBy"][0], "mask.sql");
    assert!(json["bytes"].as_u64().unwrap() > 1 << 20 && json["files"].as_u64().unwrap() > 500);
    assert_eq!(sealing.snapshots.show("first").await.unwrap(), snapshot);
    assert_eq!(sealing.snapshots.list().await.unwrap(), [snapshot.clone()]);

    // Sealed, with one segment of WAL and no server, socket or log.
    let data = sealing.root().join("snapshots").join(&snapshot.id).join("data");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&data), mode(&data.join("PG_VERSION"))), (0o500, 0o400));
    let wal = std::fs::read_dir(data.join("pg_wal")).unwrap();
    assert_eq!(wal.filter(|e| e.as_ref().unwrap().file_type().unwrap().is_file()).count(), 1);
    std::fs::remove_file(sealing.root().join("log/shop.sql")).unwrap();
    std::fs::remove_file(sealing.root().join("log/mask.sql")).unwrap();
    assert_eq!(sealing.leftovers().await, none());

    // A standby for a reader, which can be promoted for a writer.
    let id = sealing.branch("first", true).await;
    assert_eq!(sealing.world.items(&id).await, 1000);
    let write = sealing.world.connect(&id, "postern_write", true).await;
    let masked = write.execute("DELETE FROM item WHERE name = 'masked'", &[]).await.unwrap();
    assert_eq!(masked, 10);
    drop(write);

    // No statistics are missing, nothing is left to freeze, and nobody gets into the other databases.
    let admin = sealing.world.connect(&id, "postern", true).await;
    let sql = "SELECT count(*) FROM pg_catalog.pg_statistic s JOIN pg_catalog.pg_class c ON c.oid = s.starelid WHERE c.relname = 'item'";
    assert_eq!(admin.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 2);
    let sql = "SELECT count(*) FROM pg_catalog.pg_roles WHERE rolname = 'postern_import'";
    assert_eq!(admin.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 0);
    drop(admin);

    // Not while there are branches; then whole.
    let error = sealing.snapshots.remove("first").await.unwrap_err();
    assert_eq!(error.sqlstate(), SqlState::OBJECT_IN_USE, "{error}");
    sealing.world.branches.destroy(&id).await.unwrap();
    assert_eq!(sealing.snapshots.remove("first").await.unwrap().id, snapshot.id);
    assert!(sealing.snapshots.list().await.unwrap().is_empty());
    assert!(!data.exists());
}

/// A server with a database to dump.
struct Source {
    server: Server,
    dir: tempfile::TempDir,
    _sweep: Sweep,
}

async fn source() -> Source {
    let dir = temp_dir(None);
    let sweep = Sweep(dir.path().canonicalize().unwrap());
    initdb(dir.path()).await;
    fill(dir.path()).await;
    let server = Server::start(spec(dir.path(), false)).await.unwrap();
    let source = Source { server, dir, _sweep: sweep };
    source.make().await;
    source
}

impl Source {
    async fn make(&self) {
        let client = self.server.connect("postern", "shop").await.unwrap();
        for sql in [
            "CREATE ROLE \"App Owner\" LOGIN SUPERUSER PASSWORD 'hunter2'",
            "CREATE ROLE reporter",
            "CREATE SCHEMA sales AUTHORIZATION \"App Owner\"",
            "CREATE TABLE sales.sold (id serial PRIMARY KEY, what text)",
            "ALTER TABLE sales.sold OWNER TO \"App Owner\"",
            "GRANT SELECT ON sales.sold TO reporter",
            "INSERT INTO sales.sold (what) SELECT 'x' FROM generate_series(1, 100)",
            "CREATE FUNCTION public.onddl() RETURNS event_trigger LANGUAGE plpgsql AS 'begin end'",
            "CREATE EVENT TRIGGER watch ON ddl_command_start EXECUTE FUNCTION public.onddl()",
            "ALTER EVENT TRIGGER watch OWNER TO \"App Owner\"",
            "ALTER DATABASE shop SET search_path = public, sales",
            "SELECT lo_from_bytea(77, 'seed')",
            "ALTER SYSTEM SET random_page_cost = 1.5",
            "SELECT pg_reload_conf()",
        ] {
            client.batch_execute(sql).await.unwrap();
        }
    }

    fn socket_dir(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    fn url(&self) -> String {
        format!("postgresql://postern@/shop?host={}&port=5432", self.socket_dir().display())
    }

    /// Dumps as an operator would.
    async fn dump(&self, program: &str, arguments: &[&str], to: &Path) {
        let output = tokio::process::Command::new(install().program(program))
            .args(["-h", self.socket_dir().to_str().unwrap(), "-U", "postern", "-f"])
            .arg(to)
            .args(arguments)
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

async fn check_sales(sealing: &Sealing, snapshot: &str) {
    assert_eq!(items(sealing, snapshot).await, 1000, "{snapshot}");
    let id = sealing.branch(snapshot, false).await;
    let read = sealing.world.connect(&id, "postern_read", true).await;
    let sql =
        "SELECT count(*), current_database()::text, current_setting('search_path') FROM sales.sold";
    let row = read.query_one(sql, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 100, "{snapshot}");
    assert_eq!(row.get::<_, String>(1), sealing.snapshots.show(snapshot).await.unwrap().database);
    let roles = "SELECT pg_get_userbyid(relowner)::text, rolsuper OR rolcanlogin FROM pg_class JOIN pg_roles r ON r.oid = relowner WHERE relname = 'sold'";
    let owner = read.query_one(roles, &[]).await.unwrap();
    assert_eq!((owner.get(0), owner.get(1)), ("App Owner".to_owned(), false), "{snapshot}");
    // An owner's object, a superuser's before, is a migration's to change.
    let migrate = sealing.world.connect(&id, "postern_migrate", true).await;
    migrate.batch_execute("ALTER TABLE sales.sold ADD more int").await.unwrap();
    drop((read, migrate));
    sealing.world.branches.destroy(&id).await.unwrap();
}

#[tokio::test]
async fn every_kind_of_source_becomes_the_same_snapshot() {
    let source = source().await;
    let sealing = Sealing::new().await;
    let dumps = temp_dir(None);
    let at = |name: &str| dumps.path().join(name);
    source.dump("pg_dump", &["-Fc", "shop"], &at("custom")).await;
    source.dump("pg_dump", &["-Fd", "-j", "2", "shop"], &at("directory")).await;
    source.dump("pg_dump", &["-Ft", "shop"], &at("tar")).await;
    source.dump("pg_dump", &["-Fp", "--create", "shop"], &at("create.sql")).await;
    source.dump("pg_dump", &["-Fp", "shop"], &at("plain.sql")).await;
    source.dump("pg_dumpall", &[], &at("all.sql")).await;

    for name in ["custom", "directory", "tar"] {
        let request = ImportRequest::new(name, ImportSource::Dump { path: at(name) });
        let snapshot = sealing.import(request).await.unwrap();
        assert_eq!(snapshot.database, "shop", "the database keeps its name");
        check_sales(&sealing, name).await;
    }
    // Named as the database, which the script makes itself.
    let request = ImportRequest::new("shop", ImportSource::Sql { path: at("create.sql") });
    assert_eq!(sealing.import(request).await.unwrap().database, "shop");
    check_sales(&sealing, "shop").await;
    let mut request = ImportRequest::new("plain", ImportSource::Sql { path: at("plain.sql") });
    request.database = Some("postgres".to_owned());
    assert_eq!(sealing.import(request).await.unwrap().database, "postgres");
    check_sales(&sealing, "plain").await;
    let request = ImportRequest::new("all", ImportSource::Sql { path: at("all.sql") });
    let error = sealing.import(request).await;
    if let Err(error) = &error {
        // The whole cluster's script makes roles that are there already: ours.
        assert!(error.to_string().contains("role \"postern\" already exists"), "{error}");
    }

    let url = SourceUrl::new(source.url());
    let mut request = ImportRequest::new("live", ImportSource::Url { url });
    request.jobs = Some(2);
    let snapshot = sealing.import(request).await.unwrap();
    assert_eq!(snapshot.database, "shop");
    assert!(snapshot.source.starts_with("url postgresql://postern@"), "{}", snapshot.source);
    assert_eq!(snapshot.settings["random_page_cost"], "1.5");
    check_sales(&sealing, "live").await;
    let id = sealing.branch("live", false).await;
    let read = sealing.world.connect(&id, "postern_read", true).await;
    let row = read
        .query_one(
            "SELECT current_setting('search_path'), current_setting('random_page_cost')",
            &[],
        )
        .await
        .unwrap();
    assert_eq!((row.get(0), row.get(1)), ("public, sales".to_owned(), "1.5".to_owned()));
    sealing.world.branches.destroy(&id).await.unwrap();
    assert_eq!(sealing.leftovers().await, none());
    source.server.stop(Stop::Immediate).await;
}

#[tokio::test]
async fn a_failing_statement_is_named_and_nothing_is_left() {
    let sealing = Sealing::new().await;
    let sql = "CREATE TABLE a (b int);\n\nINSERT INTO a\n  SELECT 1 / 0;\nCREATE TABLE c ();\n";
    let error = sealing.sql("broken", sql).await.unwrap_err();
    assert!(error.to_string().ends_with("broken.sql:4: division by zero"), "{error}");
    assert!(error.detail().unwrap().contains("INSERT INTO a\n  SELECT 1 / 0;"), "{error:?}");

    let mut request =
        ImportRequest::new("shop", ImportSource::Sql { path: sealing.file("shop.sql", SHOP) });
    request.sanitize =
        vec![sealing.file("mask.sql", "UPDATE item SET name = '';\nDROP TABLE nowhere;")];
    let error = sealing.import(request).await.unwrap_err();
    assert!(error.to_string().ends_with("mask.sql:2: table \"nowhere\" does not exist"), "{error}");
    assert!(error.to_string().starts_with("sanitize failed"), "{error}");

    for name in ["shop.sql", "mask.sql"] {
        std::fs::remove_file(sealing.root().join("log").join(name)).unwrap();
    }
    assert_eq!(sealing.leftovers().await, none());
    assert!(sealing.snapshots.list().await.unwrap().is_empty());
    // The name is free again.
    sealing.sql("broken", SHOP).await.unwrap();
    let error = sealing.sql("broken", SHOP).await.unwrap_err();
    assert_eq!(error.sqlstate(), SqlState::OBJECT_IN_USE, "{error}");
}

#[tokio::test]
async fn what_is_no_script_is_refused_with_the_right_word() {
    let sealing = Sealing::new().await;
    for (text, word) in [("PGDMP\u{1}\u{e}", "--from-dump"), ("", "")] {
        let result = sealing.sql("odd", text).await;
        match result {
            Ok(empty) => assert!(text.is_empty() && empty.database == "odd"),
            Err(error) => assert!(error.to_string().contains(word), "{error}"),
        }
    }
    for name in ["", "-x", "a/b", "sn_1", "a b", "ü", &"x".repeat(64)] {
        let source = ImportSource::Sql { path: "/dev/null".into() };
        let error = sealing.import(ImportRequest::new(name, source)).await.unwrap_err();
        assert!(matches!(error, SnapshotError::Invalid(_)), "{name}: {error}");
    }
    let missing = ImportSource::Dump { path: "/nowhere/dump".into() };
    let error = sealing.import(ImportRequest::new("x", missing)).await.unwrap_err();
    assert!(error.to_string().contains("/nowhere/dump"), "{error}");
    let unreachable = "postgresql://u:hunter2@127.0.0.1:1/x?password=hunter2";
    let source = ImportSource::Url { url: SourceUrl::new(unreachable.to_owned()) };
    let error = sealing.import(ImportRequest::new("x", source)).await.unwrap_err();
    let text = format!("{error} {error:?} {:?}", error.message());
    assert!(!text.contains("hunter2") && text.contains("127.0.0.1"), "{text}");
    assert_eq!(sealing.leftovers().await, none());
}

#[tokio::test]
async fn secrets_ways_out_and_power_do_not_come_along() {
    let sealing = Sealing::new().await;
    let sql = "
        CREATE ROLE app SUPERUSER LOGIN PASSWORD 'open-sesame';
        ALTER ROLE app SET role = 'postern';
        CREATE EXTENSION postgres_fdw;
        CREATE SERVER prod FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host 'prod');
        CREATE USER MAPPING FOR app SERVER prod OPTIONS (user 'a', password 'open-sesame');
        CREATE USER MAPPING FOR public SERVER prod OPTIONS (user 'b', password 'open-sesame');
        CREATE SUBSCRIPTION s CONNECTION 'host=prod password=open-sesame' PUBLICATION p WITH (connect = false);
        ALTER DATABASE secrets SET session_preload_libraries = 'auto_explain';
        ALTER DATABASE secrets SET \"plperl.on_init\" = 'die';
        ALTER DATABASE secrets SET \"app.tenant\" = 'kept';
        ALTER DATABASE secrets SET work_mem = '7MB';
        ALTER DATABASE secrets CONNECTION LIMIT 0;
        ALTER SYSTEM SET archive_command = 'curl open-sesame';
        CREATE TABLE item (id int);
    ";
    let snapshot = sealing.sql("secrets", sql).await.unwrap();
    let id = sealing.branch("secrets", false).await;
    let admin = sealing.world.connect(&id, "postern", true).await;
    let text = |sql: &'static str| async {
        admin.query_one(sql, &[]).await.unwrap().get::<_, Option<String>>(0)
    };
    let mappings =
        "SELECT string_agg(umoptions::text, ';' ORDER BY umoptions::text) FROM pg_user_mapping";
    assert_eq!(text(mappings).await.unwrap(), "{user=a};{user=b}");
    assert_eq!(text("SELECT string_agg(subname, ',') FROM pg_subscription").await, None);
    let powers = "SELECT string_agg(rolname, ',') FROM pg_authid WHERE rolpassword IS NOT NULL OR (rolsuper AND rolname <> 'postern')";
    assert_eq!(text(powers).await, None);
    let settings =
        "SELECT string_agg(setconfig::text, ';') FROM pg_db_role_setting WHERE setrole = 0";
    assert_eq!(text(settings).await.unwrap(), "{app.tenant=kept,work_mem=7MB}");
    drop(admin);
    sealing.world.branches.destroy(&id).await.unwrap();
    // Not on any page either.
    let found = tokio::process::Command::new("grep")
        .args(["-r", "-l", "-a", "open-sesame"])
        .arg(sealing.root().join("snapshots").join(snapshot.id))
        .output()
        .await
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
}

#[tokio::test]
async fn a_script_does_not_run_with_posterns_rights() {
    let sealing = Sealing::new().await;
    let out = temp_dir(None);
    std::fs::set_permissions(out.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .unwrap();
    let file = out.path().join("out");
    let secret = sealing.root().join("secrets/x");
    std::fs::write(&secret, "top").unwrap();
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let sql = format!(
        "\\! (id -u; cat {}; cat /proc/net/dev) > {} 2>/dev/null\n{SHOP}",
        secret.display(),
        file.display()
    );
    sealing.sql("shell", &sql).await.unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with(&format!("{}\n", account().uid)), "{text}");
    if account().switches_user() {
        assert!(!text.contains("top") && !text.contains("eth"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_or_dropped_import_leaves_nothing() {
    let sealing = Sealing::new().await;
    let slow = sealing.file("slow.sql", &format!("{SHOP} SELECT pg_sleep(600);"));
    let request = || ImportRequest::new("slow", ImportSource::Sql { path: slow.clone() });
    let cancel = CancellationToken::new();
    let seen = cancel.clone();
    let restoring = move |progress: Progress| {
        if progress.phase == "restore" && progress.done.is_some() {
            seen.cancel();
        }
    };
    let result = sealing.snapshots.import(request(), restoring, cancel).await;
    assert!(matches!(result, Err(SnapshotError::Cancelled)), "{result:?}");
    std::fs::rename(&slow, sealing.root().join("slow.sql")).unwrap();
    assert_eq!(sealing.leftovers().await, none());
    std::fs::rename(sealing.root().join("slow.sql"), &slow).unwrap();

    let started = tokio::sync::Notify::new();
    let restoring = |progress: Progress| {
        if progress.phase == "restore" && progress.done.is_some() {
            started.notify_one();
        }
    };
    tokio::select! {
        result = sealing.snapshots.import(request(), restoring, CancellationToken::new()) => panic!("{result:?}"),
        () = started.notified() => {}
    }
    std::fs::remove_file(&slow).unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(30);
    while !sealing.leftovers().await.is_empty() && std::time::Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(sealing.leftovers().await, none());
    // The row goes last.
    while sealing.sql("slow", SHOP).await.is_err() && std::time::Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(items(&sealing, "slow").await, 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_and_nothing_is_left() {
    let Some(small) = Tmpfs::new(96) else { return };
    let sealing = Sealing::open(&small.path().join("d")).await;
    let sql = "CREATE TABLE big AS SELECT i, repeat(md5(i::text), 20) t FROM generate_series(1, 400000) i;";
    let error = sealing.sql("big", sql).await.unwrap_err();
    assert_eq!(error.sqlstate(), SqlState::DISK_FULL, "{error}");
    assert!(error.hint().unwrap().contains("Free space"), "{error}");
    assert_eq!(sealing.leftovers().await, none());
    sealing.sql("small", SHOP).await.unwrap();
}

/// Where the process that gets killed finds the data directory.
const ROOT: &str = "POSTERN_TEST_ROOT";

/// Not a test of its own: an import in a process that gets killed.
#[tokio::test(flavor = "multi_thread")]
async fn child() {
    let Ok(root) = std::env::var(ROOT) else { return };
    let sealing = Sealing::open(Path::new(&root)).await;
    let path = Path::new(&root).join("slow.sql");
    let told = |progress: Progress| {
        if progress.done.is_some() {
            std::fs::write(Path::new(&root).join("restoring"), "").unwrap();
        }
    };
    let request = ImportRequest::new("slow", ImportSource::Sql { path });
    let _ = sealing.snapshots.import(request, told, CancellationToken::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_postern_leaves_nothing_that_the_next_one_does_not_remove() {
    let dir = temp_dir(None);
    let root = dir.path().join("d");
    drop(Sealing::open(&root).await);
    std::fs::write(root.join("slow.sql"), format!("{SHOP} SELECT pg_sleep(600);")).unwrap();
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(ROOT, &root)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while !root.join("restoring").exists() {
        assert!(std::time::Instant::now() < until, "the import did not begin");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    child.kill().await.unwrap();
    let sealing = Sealing::open(&root).await;
    assert_eq!(sealing.leftovers().await, none());
    assert!(sealing.snapshots.list().await.unwrap().is_empty());
    sealing.sql("slow", SHOP).await.unwrap();
    assert_eq!(items(&sealing, "slow").await, 1000);
}
