//! Postern is killed at every marked point and at random instants: whoever starts next must find
//! nothing that the state does not know, and nothing dead that the state calls live.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a step that fails fails its test")]

mod common;

use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

use common::cluster::temp_dir;
use common::mount::Mount;
use common::world::{self, World, leftovers};
use postern::branch::failpoint;
use postern::branch::process::postmasters_below;

/// Where the process that gets killed finds the data directory.
const ROOT: &str = "POSTERN_TEST_ROOT";
const PROVIDER: &str = "POSTERN_TEST_PROVIDER";

/// Not a test of its own: the life of a branch again and again, in a process that gets killed.
#[tokio::test(flavor = "multi_thread")]
async fn child() {
    let Ok(root) = std::env::var(ROOT) else { return };
    let provider = std::env::var(PROVIDER).unwrap();
    let world = world::open(Path::new(&root), &provider).await.unwrap();
    let world = std::sync::Arc::new(world);
    let rounds = (0..2).map(|_| {
        let world = world.clone();
        tokio::spawn(async move {
            loop {
                let id = world.branch(true).await;
                assert_eq!(world.items(&id).await, 1000);
                let client = world.connect(&id, "postern_write", true).await;
                client.execute("DELETE FROM item WHERE id = 1", &[]).await.unwrap();
                drop(client);
                world.branches.stop(&id).await.unwrap();
                assert_eq!(world.items(&id).await, 999);
                world.branches.destroy(&id).await.unwrap();
            }
        })
    });
    futures_util::future::join_all(rounds).await;
}

fn start_child(root: &Path, provider: &str, failpoint: Option<&str>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "child", "--nocapture"])
        .env(ROOT, root)
        .env(PROVIDER, provider)
        .env_remove("POSTERN_FAILPOINT")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true);
    if let Some(name) = failpoint {
        command.env("POSTERN_FAILPOINT", name);
    }
    command.spawn().unwrap()
}

/// What must hold after a restart, and after everything was destroyed.
async fn check(root: &Path, provider: &str, when: &str) -> World {
    let world = world::open(root, provider).await.unwrap();
    let branches = world.branches.list().await.unwrap();
    let known: HashSet<_> = branches.iter().map(|b| b.id.clone()).collect();

    let servers = postmasters_below(&world.data.branches()).unwrap();
    let running = branches.iter().filter(|b| b.state == "running").count();
    assert_eq!(servers.len(), running, "{when}: {branches:?} {servers:?}");
    for part in leftovers(root) {
        let id = part.rsplit('/').next().unwrap().trim_end_matches(".log").to_owned();
        let fine = known.contains(&id)
            || known.iter().any(|id| part.starts_with("process") && part.contains(id.as_str()));
        assert!(fine, "{when}: {part} is not known");
    }
    for branch in &branches {
        assert!(matches!(branch.state.as_str(), "running" | "stopped"), "{when}: {branch:?}");
        let items = world.items(&branch.id).await;
        // Each check and each life deletes one.
        assert!((998..=1000).contains(&items), "{when}: {items}");
        let client = world.connect(&branch.id, "postern_write", true).await;
        client.execute("DELETE FROM item WHERE id = 2", &[]).await.unwrap();
    }
    world
}

async fn clear(root: &Path, world: World, when: &str) {
    for branch in world.branches.list().await.unwrap() {
        world.branches.destroy(&branch.id).await.unwrap();
    }
    world.branches.reconcile().await.unwrap();
    assert_eq!(leftovers(root), [""; 0], "{when}");
}

async fn every_failpoint(root: &Path, provider: &str) {
    let (world, _sweep) = world::make(root, provider).await;
    drop(world);
    for name in failpoint::ALL {
        let mut child = start_child(root, provider, Some(name));
        let status = tokio::time::timeout(Duration::from_mins(1), child.wait()).await;
        let status = status.unwrap_or_else(|_| panic!("{name} was not reached")).unwrap();
        assert_eq!(status.signal(), Some(9), "{name}: {status}");
        let world = check(root, provider, name).await;
        clear(root, world, name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_every_failpoint_copy() {
    let dir = temp_dir(Path::new("/dev/shm").is_dir().then_some(Path::new("/dev/shm")));
    every_failpoint(dir.path(), "copy").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_every_failpoint_btrfs() {
    let Some(mount) = Mount::new("btrfs", 600) else { return };
    every_failpoint(&mount.path(), "btrfs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_instant() {
    let rounds = std::env::var("POSTERN_TEST_ROUNDS").ok().and_then(|n| n.parse().ok());
    let dir = temp_dir(Path::new("/dev/shm").is_dir().then_some(Path::new("/dev/shm")));
    let root = dir.path();
    let (world, _sweep) = world::make(root, "copy").await;
    drop(world);
    for round in 0..rounds.unwrap_or(12u64) {
        let mut child = start_child(root, "copy", None);
        // Any instant will do; these spread over a branch's life.
        tokio::time::sleep(Duration::from_millis(100 + round * 37 % 500)).await;
        child.kill().await.unwrap();
        let world = check(root, "copy", &format!("round {round}")).await;
        // Branches are kept for some rounds: a restart has to cope with many.
        if round % 4 == 3 {
            clear(root, world, &format!("round {round}")).await;
        } else {
            drop(world);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_server_is_taken_over_with_its_sessions() {
    let dir = temp_dir(None);
    let (world, _sweep) = world::make(dir.path(), "copy").await;
    let id = world.branch(false).await;
    let client = world.connect(&id, "postern_write", true).await;
    client.batch_execute("BEGIN; DELETE FROM item WHERE id = 1").await.unwrap();
    let before = postmasters_below(&world.data.branches()).unwrap();
    drop(world);

    let world = world::open(dir.path(), "copy").await.unwrap();
    assert_eq!(postmasters_below(&world.data.branches()).unwrap(), before);
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(world.items(&id).await, 999);

    // Killed while nobody looks: the next postern starts it again.
    drop((client, world));
    let pid = rustix::process::Pid::from_raw(before[0].pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let world = check(dir.path(), "copy", "killed").await;
    assert_eq!(world.items(&id).await, 998);
    clear(dir.path(), world, "killed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_files_and_servers_are_removed_and_a_lost_machine_is_told() {
    let dir = temp_dir(None);
    let (world, _sweep) = world::make(dir.path(), "copy").await;
    let (one, two) = (world.branch(false).await, world.branch(false).await);
    assert_eq!(world.items(&one).await, 1000);
    assert_eq!(world.items(&two).await, 1000);
    // The state forgets one branch; the other's server is one of an earlier boot.
    let (forgotten, lost) = (one.clone(), two.clone());
    world
        .state
        .call(move |tx| {
            tx.execute("DELETE FROM branch WHERE id = ?1", [forgotten])?;
            tx.execute("UPDATE branch SET boot_id = 'other' WHERE id = ?1", [lost])?;
            Ok(())
        })
        .await
        .unwrap();
    let emptied = world.branch(false).await;
    std::fs::remove_dir_all(world.data.branch(&emptied)).unwrap();
    std::fs::create_dir_all(dir.path().join("branches/br_stranger/data")).unwrap();
    std::fs::create_dir_all(dir.path().join("trash/old/data")).unwrap();
    drop(world);

    let world = world::open(dir.path(), "copy").await.unwrap();
    assert!(postmasters_below(&world.data.branches()).unwrap().is_empty());
    let left = world.branches.list().await.unwrap();
    assert_eq!(left.iter().map(|b| b.state.as_str()).collect::<Vec<_>>(), ["failed", "failed"]);
    let error = world.branches.ensure_started(&emptied, false).await.unwrap_err();
    assert!(error.to_string().contains("its files are gone"), "{error}");
    let error = world.branches.ensure_started(&two, false).await.unwrap_err();
    assert!(error.to_string().contains("the machine went down"), "{error}");
    clear(dir.path(), world, "strangers").await;
}
