//! The raw protocol, byte by byte: what a client sees through the proxy is what the server says.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper that fails fails its test")]

mod common;

use std::sync::Arc;

use common::direct::{DATABASE, Direct, OneLease, PASSWORD, USER, proxy};

async fn play(tls: bool) {
    let direct = Direct::start();
    let (_proxy, port) = proxy(&direct, Arc::new(OneLease::on(&direct)), tls).await;
    let spec =
        |place: &str, port, user: &str| format!("{place}:{port}:{user}:{PASSWORD}:{DATABASE}");
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wirecheck");
    let mut command = tokio::process::Command::new("python3");
    command
        .arg(format!("{here}/wirecheck.py"))
        .args(["--direct", &spec("127.0.0.1", direct.port, USER)])
        .args(["--proxy", &spec("127.0.0.1", port, USER)])
        .args(["--admin", &spec(direct.dir.path().to_str().unwrap(), direct.port, "postgres")])
        .arg(format!("{here}/scenarios"))
        .arg(format!("{here}/more"));
    if tls {
        command.arg("--tls").arg(direct.cert());
    }
    let output = command.output().await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
    assert!(text.contains(" passed, 0 failed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_scenario_is_the_same_as_direct() {
    play(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_scenario_is_the_same_as_direct_over_tls() {
    play(true).await;
}
