//! A server's and a branch's life, on real PostgreSQL.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a step that fails fails its test")]

mod common;

use std::time::Instant;

use common::cluster::{Sweep, initdb, sealed, spec, temp_dir};
use common::mount::Mount;
use common::world::{self, leftovers, orphan_segments};
use postern::branch::account::Walls;
use postern::branch::pidfile;
use postern::branch::process::{Process, postmasters_below, working_in};
use postern::branch::server::{Server, ServerError, Stop};
use postern::branch::{BranchError, BranchSpec};
use postern::error::{SqlState, UserFacingError as _};
use postern::state::StateError;
use std::path::Path;
use std::time::Duration;

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
        ("synchronous_commit", "on"),
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
        client.batch_execute("CREATE TABLE public.seen (line text)").await.unwrap();
        let program =
            "COPY public.seen FROM PROGRAM 'cat /proc/net/dev /proc/net/route; env; id -u'";
        client.batch_execute(program).await.unwrap();
        let rows = client.query("SELECT line FROM public.seen", &[]).await.unwrap();
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
    let error = client.batch_execute("DELETE FROM public.item").await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "25006", "{error}");

    let begun = Instant::now();
    server.promote().await.unwrap();
    eprintln!("promotion: {:?}", begun.elapsed());
    server.promote().await.unwrap();
    assert_eq!(client.execute("DELETE FROM public.item WHERE id <= 10", &[]).await.unwrap(), 10);
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

/// What every provider has to do the same way.
async fn conformance(root: &Path, provider: &str) {
    let (world, _sweep) = world::make(root, provider).await;
    let branches = &world.branches;
    let mut clone_times = Vec::new();
    let mut start_times = Vec::new();
    for _ in 0..5 {
        let begun = Instant::now();
        let id = world.branch(false).await;
        clone_times.push(begun.elapsed());
        let begun = Instant::now();
        let client = world.connect(&id, "postern_write", true).await;
        client.query_one("SELECT 1", &[]).await.unwrap();
        start_times.push(begun.elapsed());
        drop(client);
        branches.destroy(&id).await.unwrap();
    }
    clone_times.sort();
    start_times.sort();
    eprintln!(
        "{provider}: create {:?}, start to first answer {:?}",
        clone_times[2], start_times[2]
    );

    // Two servers, so that what they share is not called private.
    let (one, two) = (world.branch(false).await, world.branch(false).await);
    assert_eq!(world.items(&one).await + world.items(&two).await, 2000);
    let data = world.data.branch(&one).join("data");
    let shown = branches.show(&one).await.unwrap();
    eprintln!(
        "{provider}: idle {:.1} MiB private; {:?}",
        world::private_memory(&data),
        shown.usage
    );
    assert!(world::private_memory(&data) < 24.0);
    for id in [&one, &two] {
        branches.destroy(id).await.unwrap();
    }

    // Two branches and their snapshot do not see each other's changes.
    let (one, two) = (world.branch(false).await, world.branch(false).await);
    let client = world.connect(&one, "postern_write", true).await;
    assert_eq!(client.execute("DELETE FROM item WHERE id > 10", &[]).await.unwrap(), 990);
    let row = client.query_one("SHOW work_mem", &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "7MB", "the snapshot's settings hold");
    assert_eq!(world.items(&two).await, 1000);
    assert_eq!(world.items(&one).await, 10);

    // A stopped branch keeps its changes, and comes back by itself.
    drop(client);
    branches.stop(&one).await.unwrap();
    branches.stop(&one).await.unwrap();
    assert_eq!(branches.show(&one).await.unwrap().state, "stopped");
    assert_eq!(world.items(&one).await, 10);
    let shown = branches.show(&one).await.unwrap();
    assert_eq!((shown.state.as_str(), shown.provider.as_str()), ("running", provider));
    let usage = shown.usage.unwrap();
    assert!(usage.files > 500 && usage.bytes > 5 << 20, "{usage:?}");
    if provider == "btrfs" {
        assert!(usage.own_bytes.unwrap() < usage.bytes / 2, "{usage:?}");
    }

    // A read-only branch cannot be written to by anybody, until somebody may.
    let three = world.branch(true).await;
    let client = world.connect(&three, "postern", false).await;
    let error = client.batch_execute("DELETE FROM public.item").await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "25006");
    assert!(branches.show(&three).await.unwrap().standby);
    let writer = world.connect(&three, "postern_write", true).await;
    assert_eq!(writer.execute("DELETE FROM item WHERE id = 1", &[]).await.unwrap(), 1);
    assert_eq!(client.query("SELECT 1 FROM item", &[]).await.unwrap().len(), 999);
    assert!(!branches.show(&three).await.unwrap().standby);
    drop((client, writer));

    assert_eq!(branches.list().await.unwrap().len(), 3);
    branches.reconcile().await.unwrap();
    assert_eq!(world.items(&two).await, 1000);
    for id in [&one, &two, &three] {
        branches.destroy(id).await.unwrap();
        let error = branches.ensure_started(id, false).await.unwrap_err();
        assert!(matches!(error, BranchError::State(StateError::NotFound { .. })), "{error}");
    }
    branches.reconcile().await.unwrap();
    assert_eq!(leftovers(root), [""; 0]);
    assert!(branches.list().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn branches_by_copy_on_memory() {
    let dir = temp_dir(Path::new("/dev/shm").is_dir().then_some(Path::new("/dev/shm")));
    conformance(dir.path(), "copy").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn branches_by_reflink_on_xfs() {
    let Some(mount) = Mount::new("xfs", 600) else { return };
    conformance(&mount.path(), "reflink").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn branches_by_snapshot_on_btrfs() {
    let Some(mount) = Mount::new("btrfs", 600) else { return };
    conformance(&mount.path(), "btrfs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_callers_start_a_branch_once_and_a_dead_server_is_replaced() {
    let dir = temp_dir(None);
    let (world, _sweep) = world::make(dir.path(), "copy").await;
    let id = world.branch(false).await;
    let calls = (0..20).map(|i| {
        let (branches, id) = (world.branches.clone(), id.clone());
        tokio::spawn(async move { branches.ensure_started(&id, i % 2 == 0).await })
    });
    let answers = futures_util::future::join_all(calls).await;
    assert!(answers.into_iter().all(|a| a.unwrap().is_ok()));
    let running = postmasters_below(&world.data.branches()).unwrap();
    assert_eq!(running.len(), 1);

    let segments = orphan_segments();
    // A backend at work does not notice that its postmaster is gone, and must not go on beside
    // the next server.
    let busy = world.connect(&id, "postern_write", true).await;
    let at_work = tokio::spawn(async move {
        busy.batch_execute("SELECT count(*) FROM generate_series(1, 4000000000)").await
    });
    let watch = world.connect(&id, "postern", true).await;
    while watch
        .query_one("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query ~ '^SELECT count.*series'", &[])
        .await
        .unwrap()
        .get::<_, i64>(0)
        < 2
    {
        tokio::task::yield_now().await;
    }
    let old = Process::hold(running[0].pid, None).unwrap().unwrap();
    old.signal(rustix::process::Signal::KILL);
    old.ended().await;
    assert_eq!(world.items(&id).await, 1000);
    assert!(at_work.await.unwrap().is_err());
    let again = postmasters_below(&world.data.branches()).unwrap();
    assert!(again.len() == 1 && again[0].pid != running[0].pid);
    assert_eq!(orphan_segments(), segments);
    world.branches.shutdown().await;
    assert!(working_in(&world.data.branches()).is_empty());
    let error = world.branches.ensure_started(&id, false).await.unwrap_err();
    assert!(matches!(error, BranchError::ShuttingDown));
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_branches_stop_and_used_ones_do_not() {
    let dir = temp_dir(None);
    let (world, _sweep) = world::make(dir.path(), "copy").await;
    let (used, idle) = (world.branch(false).await, world.branch(false).await);
    world.branches.enter(&used, false).await.unwrap();
    world.branches.ensure_started(&idle, false).await.unwrap();
    assert_eq!(world.branches.stop_idle(Duration::from_mins(1)).await, 0);
    assert_eq!(world.branches.stop_idle(Duration::ZERO).await, 1);
    assert_eq!(world.branches.show(&used).await.unwrap().state, "running");
    assert_eq!(world.branches.show(&idle).await.unwrap().state, "stopped");
    world.branches.leave(&used);
    world.branches.leave(&used);
    assert_eq!(world.branches.show(&used).await.unwrap().sessions, 0);
    assert_eq!(world.branches.stop_idle(Duration::ZERO).await, 1);
    world.branches.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_branches_at_once_and_none_left() {
    let Some(mount) = Mount::new("xfs", 2000) else { return };
    let (world, _sweep) = world::make(&mount.path(), "reflink").await;
    let world = std::sync::Arc::new(world);
    let begun = Instant::now();
    let making = (0..50).map(|_| {
        let world = world.clone();
        tokio::spawn(async move {
            let id = world.branch(false).await;
            assert_eq!(world.items(&id).await, 1000);
            id
        })
    });
    let ids: Vec<_> = futures_util::future::join_all(making).await;
    eprintln!("50 branches made and asked: {:?}", begun.elapsed());
    let begun = Instant::now();
    let ending = ids.into_iter().map(|id| {
        let branches = world.branches.clone();
        tokio::spawn(async move { branches.destroy(&id.unwrap()).await })
    });
    for end in futures_util::future::join_all(ending).await {
        end.unwrap().unwrap();
    }
    eprintln!("50 branches destroyed: {:?}", begun.elapsed());
    world.branches.reconcile().await.unwrap();
    assert_eq!(leftovers(&mount.path()), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_that_fails_or_is_given_up_leaves_nothing() {
    let dir = temp_dir(None);
    let (world, _sweep) = world::make(dir.path(), "copy").await;
    let branches = &world.branches;
    let unknown = branches.create("nope", BranchSpec::default(), |_, _| Ok(())).await;
    assert!(matches!(unknown, Err(BranchError::State(StateError::NotFound { .. }))));

    let refused = branches
        .create("shop", BranchSpec::default(), |_, _| Err(StateError::Conflict("no lease".into())))
        .await;
    assert!(matches!(refused, Err(BranchError::State(StateError::Conflict(_)))));
    branches.reconcile().await.unwrap();
    assert_eq!(leftovers(dir.path()), [""; 0]);

    // Whoever asked went away: the branch and what was to be written with it are both there.
    let given_up = branches.create("shop", BranchSpec::default(), |tx, row| {
        postern::state::outbox::intend(tx, "test", &row.id, &()).map(drop)
    });
    assert!(futures_util::FutureExt::now_or_never(given_up).is_none());
    let id = loop {
        let written =
            world.state.call(|tx| postern::state::outbox::pending(tx, Some("test"))).await.unwrap();
        match written.first() {
            Some(intent) => break intent.subject.clone(),
            None => tokio::task::yield_now().await,
        }
    };
    assert_eq!(world.items(&id).await, 1000);
    branches.destroy(&id).await.unwrap();

    // A snapshot's file that cannot be cloned.
    let link = world.data.snapshot(world::SNAPSHOT).join("data/base");
    std::fs::set_permissions(&link, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    std::os::unix::fs::symlink("/etc", link.join("link")).unwrap();
    let error = branches.create("shop", BranchSpec::default(), |_, _| Ok(())).await.unwrap_err();
    assert!(error.to_string().contains("neither a file nor a directory"), "{error}");
    branches.reconcile().await.unwrap();
    assert_eq!(leftovers(dir.path()), [""; 0]);
    assert!(branches.list().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_one_branch_and_harms_no_other() {
    let Some(mount) = Mount::new("xfs", 400) else { return };
    let (world, _sweep) = world::make(&mount.path(), "copy").await;
    let first = world.branch(false).await;
    assert_eq!(world.items(&first).await, 1000);
    // Copies where sharing is possible are shared by the kernel; real space is taken like this.
    let ballast = mount.path().join("ballast");
    let file = std::fs::File::create(&ballast).unwrap();
    while let Err(e) = rustix::fs::fallocate(
        &file,
        rustix::fs::FallocateFlags::empty(),
        0,
        free(&mount.path()).saturating_sub(256 << 10),
    ) {
        assert_eq!(e, rustix::io::Errno::NOSPC);
    }
    let mut error = None;
    // Anything from here on may meet the full disk.
    for _ in 0..50 {
        match world.branches.create("shop", BranchSpec::default(), |_, _| Ok(())).await {
            Ok(row) => drop(row),
            Err(e) => {
                error = Some(e);
                break;
            }
        }
    }
    let error = error.expect("the disk fills up");
    assert_eq!(error.sqlstate(), SqlState::DISK_FULL, "{error}");
    assert!(error.hint().is_some() || matches!(error, BranchError::State(_)));
    assert_eq!(world.items(&first).await, 1000);

    // Destroying is what makes space: it must not need any.
    let rest = std::fs::File::create(mount.path().join("rest")).unwrap();
    let mut size = 1 << 20;
    while size >= 512 {
        let at = rest.metadata().unwrap().len();
        if rustix::fs::fallocate(&rest, rustix::fs::FallocateFlags::empty(), at, size).is_err() {
            size /= 2;
        }
    }
    for branch in world.branches.list().await.unwrap() {
        // One that could not be undone for want of space is undone by the reconciler.
        match world.branches.destroy(&branch.id).await {
            Ok(()) | Err(BranchError::Gone { .. }) => {}
            Err(e) => panic!("{e}"),
        }
    }
    std::fs::remove_file(&ballast).unwrap();
    world.branches.reconcile().await.unwrap();
    world.branches.reconcile().await.unwrap();
    assert_eq!(leftovers(&mount.path()), [""; 0]);
    let again = world.branch(false).await;
    assert_eq!(world.items(&again).await, 1000);
    world.branches.shutdown().await;
}

fn free(path: &Path) -> u64 {
    let stat = rustix::fs::statvfs(path).unwrap();
    stat.f_bavail * stat.f_frsize
}

/// The same life, with postern an ordinary user: by running this test binary as one.
#[test]
fn branches_without_root() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let account = common::cluster::account();
    let binary = std::env::current_exe().unwrap();
    let output = std::process::Command::new("setpriv")
        .args([format!("--reuid={}", account.uid), format!("--regid={}", account.gid)])
        .args(["--init-groups", "--"])
        .arg(&binary)
        .args([
            "--exact",
            "branches_by_copy_on_memory",
            "nobody_but_postern_logs_in_and_nothing_goes_out",
        ])
        .args(["a_killed_server_leaves_no_segment", "--nocapture"])
        .current_dir("/")
        .output()
        .unwrap();
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if errors.contains("Permission denied") && errors.contains("failed to execute") {
        common::skip(&format!("{} cannot run {}", account.user, binary.display()));
        return;
    }
    assert!(text.contains("3 passed"), "{text}\n{errors}");
}

/// Only a server without an IPC namespace of its own can leave one, so this does something where
/// postern is not root: see `branches_without_root`.
#[tokio::test]
async fn a_killed_server_leaves_no_segment() {
    if rustix::process::geteuid().is_root() {
        return;
    }
    let dir = temp_dir(None);
    let _sweep = Sweep(dir.path().to_owned());
    let data = initdb(dir.path()).await;
    let mut spec = spec(dir.path(), false);
    spec.account.walls = Walls::NoNewPrivileges;
    let server = Server::start(spec.clone()).await.unwrap();
    let (_, id) = pidfile::shared_memory(&data).unwrap();
    server.process().signal(rustix::process::Signal::KILL);
    server.ended().await;
    assert!(segment(id), "a killed server leaves its segment");
    server.stop(Stop::Immediate).await;
    assert!(!segment(id));

    // The same when the next start finds it.
    let server = Server::start(spec.clone()).await.unwrap();
    let (_, id) = pidfile::shared_memory(&data).unwrap();
    server.process().signal(rustix::process::Signal::KILL);
    server.ended().await;
    let server = Server::start(spec).await.unwrap();
    let (_, next) = pidfile::shared_memory(&data).unwrap();
    assert!(next == id || !segment(id));
    server.stop(Stop::Fast).await;
    assert!(!segment(next));
}

fn segment(id: u32) -> bool {
    let table = std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
    table.lines().any(|line| line.split_ascii_whitespace().nth(1) == Some(&id.to_string()))
}
