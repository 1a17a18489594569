//! Holds the gate against PostgreSQL's own parser: every statement of a corpus, and mutations of
//! them for a bounded time. "Weaker" is a text for which the gate asks for less than it needs, or
//! counts another number of statements; there must be none.

// The rooms under test are compiled in from their sources: they need nothing above them, and the
// oracle then builds without the proxy's dependencies.
#[path = "../../../src/error.rs"]
#[allow(dead_code)]
pub mod error;
#[path = "../../../src/gate/mod.rs"]
#[allow(dead_code, unused_imports)]
pub mod gate;

mod corpus;
mod fuzz;
mod truth;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use gate::{Caps, Class, Classes, Encoding};

/// The lease kinds whose false denials are counted, by the classes they may use.
const LEASES: [(&str, &[Class]); 3] = [
    ("read", &[Class::Read, Class::Session]),
    ("write", &[Class::Read, Class::Write, Class::Session]),
    (
        "migrate",
        &[Class::Read, Class::Write, Class::Truncate, Class::Migrate, Class::Session],
    ),
];

fn main() -> ExitCode {
    let mut dirs = Vec::new();
    let mut seconds = 60;
    let mut kept = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--seconds" => seconds = args.next().and_then(|n| n.parse().ok()).unwrap_or(60),
            "--keep" => kept = args.next().map(PathBuf::from),
            _ => dirs.push(PathBuf::from(arg)),
        }
    }
    let mut statements = Vec::new();
    for dir in &dirs {
        if let Err(error) = corpus::read(dir, &mut statements) {
            eprintln!("{}: {error}", dir.display());
            return ExitCode::from(2);
        }
    }
    eprintln!("{} statements", statements.len());
    let verbose = std::env::var_os("ORACLE_VERBOSE").is_some();
    let mut weaker = 0;
    let mut denied = [0_usize; 3];
    let mut allowed = [0_usize; 3];
    for sql in &statements {
        let Some(truth) = truth::read(sql) else { continue };
        let read = gate::read(sql.as_bytes(), Encoding::Utf8, &Caps::default());
        if let Some(reason) = weaker_than(&truth, &read) {
            weaker += 1;
            println!("weaker: {reason}: {sql}");
        }
        let mut shown = false;
        for (i, (name, classes)) in LEASES.iter().enumerate() {
            let may: Classes = classes.iter().copied().collect();
            if !truth.classes.within(may) {
                continue;
            }
            allowed[i] += 1;
            if !read.as_ref().is_ok_and(|facts| facts.classes.within(may)) {
                denied[i] += 1;
                if verbose && !shown {
                    shown = true;
                    let found = read.as_ref().map(|f| f.classes);
                    println!("false denial ({name}): true {}, found {found:?}: {sql}", truth.classes);
                }
            }
        }
    }
    let fraction = |i: usize| denied[i] as f64 / (allowed[i].max(1)) as f64;
    for (i, (name, _)) in LEASES.iter().enumerate() {
        println!("{name}: {} of {} refused, {:.4} %", denied[i], allowed[i], fraction(i) * 100.0);
    }
    println!("weaker: {weaker} of {}", statements.len());
    let (iterations, fuzz_weaker) =
        fuzz::run(&statements, Duration::from_secs(seconds), kept.as_deref());
    println!(
        "{}",
        serde_json::json!({
            "statements": statements.len(),
            "weaker": weaker,
            "false_denials": {"read": fraction(0), "write": fraction(1), "migrate": fraction(2)},
            "client_false_denials": 0,
            "fuzz_iterations": iterations,
            "fuzz_weaker": fuzz_weaker,
        })
    );
    if weaker == 0 && fuzz_weaker == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How the gate's reading falls short of the truth, if it does. Refusing to read is never short.
fn weaker_than(
    truth: &truth::Truth,
    read: &Result<gate::Facts, gate::Unreadable>,
) -> Option<String> {
    let Ok(facts) = read else { return None };
    if facts.classes.has(Class::Admin) {
        return None;
    }
    if !truth.classes.within(facts.classes) {
        return Some(format!("true {}, found {}", truth.classes, facts.classes));
    }
    if truth.statements != facts.statements {
        return Some(format!("{} statements, found {}", truth.statements, facts.statements));
    }
    let each = truth.each.iter().zip(&facts.pieces);
    each.filter(|(truth, piece)| !truth.within(piece.classes))
        .map(|(truth, piece)| format!("piece: true {truth}, found {}", piece.classes))
        .next()
}
