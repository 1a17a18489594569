//! What the proxy costs: pgbench directly, through a relay that only copies, and through the
//! proxy. `cargo test --release --test pgbench -- --ignored --nocapture` prints a table.

mod common;

use std::process::Command;
use std::sync::Arc;

use common::direct::{DATABASE, Direct, OneLease, PASSWORD, USER, proxy};
use common::served::free_port;

/// CPU time of this process so far, in seconds: user and system (proc(5), `/proc/self/stat`).
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    #[expect(clippy::cast_precision_loss, reason = "a hundred or so")]
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    ticks / per_second
}

async fn byte_relay(to: u16) -> u16 {
    let port = free_port();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut server = tokio::net::TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    port
}

/// Transactions per second and CPU µs of this process for each.
async fn bench(port: u16, arguments: &[&str]) -> (f64, f64) {
    let before = cpu();
    let mut command = tokio::process::Command::new("pgbench");
    command
        .args(["-n", "-c", "8", "-j", "2", "-T"])
        .arg(seconds())
        .args(arguments)
        .arg(format!("postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/{DATABASE}?sslmode=disable"));
    let output = command.output().await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    assert!(text.contains("number of failed transactions: 0 "), "{text}");
    let number = |after: &str| -> f64 {
        let rest = text.split_once(after).unwrap().1;
        rest.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap().parse().unwrap()
    };
    let count = number("number of transactions actually processed: ");
    (number("tps = "), (cpu() - before) / count * 1e6)
}

fn seconds() -> String {
    std::env::var("POSTERN_BENCH_SECONDS").unwrap_or_else(|_| "5".to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes, and wants a quiet machine"]
async fn compare() {
    let direct = Direct::start();
    let (_proxy, port) = proxy(&direct, Arc::new(OneLease::on(&direct)), false).await;
    let relay = byte_relay(direct.port).await;
    let initialised = Command::new("pgbench")
        .args(["-i", "-q", "-s", "5"])
        .arg(format!("postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/{DATABASE}"))
        .output()
        .unwrap();
    assert!(initialised.status.success(), "{}", String::from_utf8_lossy(&initialised.stderr));
    println!(
        "{:<28} {:>16} {:>22} {:>22}",
        "", "direct tps", "relay tps (µs/tx)", "postern tps (µs/tx)"
    );
    for arguments in [
        &["-S", "-M", "prepared"][..],
        &["-S", "-M", "extended"],
        &["-S", "-M", "simple"],
        &["-M", "prepared"],
        &["-M", "extended"],
        &["-M", "simple"],
        &["-S", "-C"],
    ] {
        let (plain, _) = bench(direct.port, arguments).await;
        let (copied, copied_cpu) = bench(relay, arguments).await;
        let (ours, ours_cpu) = bench(port, arguments).await;
        println!(
            "{:<28} {plain:>16.0} {copied:>12.0} ({copied_cpu:>5.1}) {ours:>14.0} ({ours_cpu:>5.1})",
            arguments.join(" ")
        );
    }
}
