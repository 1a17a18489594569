//! The command line and the admin API as people and programs use them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper that fails fails its test")]

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use common::served::{POSTERN, Postern, SMALL, free_port};
use serde_json::Value;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_command_has_help_with_an_example() {
    let commands: &[&[&str]] = &[
        &["demo"],
        &["serve"],
        &["doctor"],
        &["psql"],
        &["completions"],
        &["snapshot", "import"],
        &["snapshot", "list"],
        &["snapshot", "show"],
        &["snapshot", "rm"],
        &["lease", "create"],
        &["lease", "list"],
        &["lease", "show"],
        &["lease", "renew"],
        &["lease", "revoke"],
        &["lease", "url"],
        &["branch", "list"],
        &["branch", "show"],
    ];
    for command in commands {
        let output = Command::new(POSTERN).args(*command).arg("--help").output().unwrap();
        assert!(output.status.success(), "{command:?}");
        let help = text(&output.stdout);
        let example = format!("postern {}", command.join(" "));
        assert!(help.contains("Example:") && help.contains(&example), "{command:?}: {help}");
        assert!(help.contains("--json"), "{command:?}: {help}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let output = Command::new(POSTERN).args(["completions", shell]).output().unwrap();
        assert!(output.status.success() && text(&output.stdout).contains("postern"));
    }
    let wrong = Command::new(POSTERN).args(["lease", "create", "--cap", "drop"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("read, write and migrate"), "{}", text(&wrong.stderr));
}

#[test]
fn a_failing_import_names_the_statement_and_leaves_nothing() {
    let postern = Postern::start("");
    let script = postern.scratch().join("bad.sql");
    std::fs::write(&script, "CREATE TABLE t (id int);\n\nINSERT INTO nowhere VALUES (1);\n")
        .unwrap();
    let path = script.to_str().unwrap();
    let output = postern.run(&["snapshot", "import", "bad", "--from-sql", path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let said = text(&output.stderr);
    assert!(said.contains("bad.sql:3") && said.contains("nowhere"), "{said}");
    assert!(said.contains("INSERT INTO nowhere VALUES (1)") && said.contains("hint:"), "{said}");

    let good = postern.scratch().join("good.sql");
    std::fs::write(&good, SMALL).unwrap();
    let sanitize = postern.scratch().join("mask.sql");
    std::fs::write(&sanitize, "UPDATE account SET email = id || '@masked';\nSELECT 1 / 0;\n")
        .unwrap();
    let (good, mask) = (good.to_str().unwrap(), sanitize.to_str().unwrap());
    let import = ["snapshot", "import", "good", "--from-sql", good, "--sanitize", mask];
    let output = postern.run(&import);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("mask.sql:2") && said.contains("division by zero"), "{said}");

    assert_eq!(postern.json(&["snapshot", "list"]), serde_json::json!([]));
    assert_eq!(std::fs::read_dir(postern.data.join("snapshots")).unwrap().count(), 0);
    assert_eq!(postern.leftovers(), Vec::<String>::new());

    // Mended, it works, and what the script masked is masked.
    std::fs::write(&sanitize, "UPDATE account SET email = id || '@masked';\n").unwrap();
    let sealed = postern.json(&import);
    assert_eq!(sealed["sanitizedBy"], serde_json::json!(["mask.sql"]));
    let lease = postern.lease("good", "read");
    let query = [
        "psql",
        &lease.id,
        "--",
        "-XAtc",
        "SELECT count(*) FROM account WHERE email LIKE '%@masked'",
    ];
    let output = postern.run(&query);
    assert_eq!(text(&output.stdout).trim(), "1000", "{}", text(&output.stderr));
    let again = postern.run(&import);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("already"), "{}", text(&again.stderr));
}

#[test]
fn a_dump_and_a_running_database_are_imported_with_their_own_name() {
    let postern = Postern::start("");
    postern.import("shop", SMALL);
    let lease = postern.lease("shop", "read,write,migrate");
    let archive = postern.scratch().join("shop.dump");
    let pg_dump = common::cluster::install().program("pg_dump");
    let output = Command::new(&pg_dump)
        .args(["-Fc", "-d", &lease.url, "-f"])
        .arg(&archive)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let path = archive.to_str().unwrap();
    for (name, source) in [("archive", ["--from-dump", path]), ("live", ["--from-url", &lease.url])]
    {
        let sealed = postern.json(&[&["snapshot", "import", name][..], &source].concat());
        assert_eq!(sealed["database"], "shop", "{name}");
        assert!(!sealed.to_string().contains(secret(&lease.url)), "the source tells its password");
        let copy = postern.lease(name, "read");
        let query =
            ["psql", &copy.id, "--", "-XAtc", "SELECT count(*), current_database() FROM invoice"];
        assert_eq!(text(&postern.run(&query).stdout).trim(), "5000|shop", "{name}");
    }
}

fn secret(url: &str) -> &str {
    url.split(':').nth(2).unwrap().split('@').next().unwrap()
}

#[test]
fn the_admin_api_is_for_its_owner_and_for_holders_of_the_token() {
    let port = free_port();
    let dir = tempfile::Builder::new().prefix("postern-test.").tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "s3cret-token\n").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let extra = format!("[admin]\ntcp = '127.0.0.1:{port}'\ntoken_file = '{}'\n", token.display());
    let postern = Postern::start_in(dir, &extra);
    let socket = std::fs::metadata(postern.data.join("admin.sock")).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);

    let get = |path: &str, header: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].to_owned(), body.to_owned())
    };
    assert_eq!(get("/v1/leases", "").0, "401");
    assert_eq!(get("/v1/leases", "Authorization: Bearer s3cret-toke\r\n").0, "401");
    let (status, body) = get("/v1/leases", "Authorization: Bearer s3cret-token\r\n");
    assert_eq!((status.as_str(), body.trim()), ("200", "[]"));
    let (status, body) = get("/v1/nowhere", "Authorization: Bearer s3cret-token\r\n");
    assert_eq!(status, "404");
    assert!(body.contains("openapi"), "{body}");
    let (_, document) = get("/v1/openapi.json", "Authorization: Bearer s3cret-token\r\n");
    let document: Value = serde_json::from_str(&document).unwrap();
    for path in ["/v1/leases", "/v1/leases/{id}/url", "/v1/snapshots", "/v1/branches/{id}"] {
        assert!(document["paths"][path].is_object(), "{path} is not documented");
    }

    // The command line over TCP.
    let output = Command::new(POSTERN)
        .args(["lease", "list", "--json", "--admin-url", &format!("127.0.0.1:{port}")])
        .env("POSTERN_ADMIN_TOKEN", "s3cret-token")
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout).trim(), "[]", "{}", text(&output.stderr));
}

#[test]
fn a_secret_is_in_no_file_but_its_own_and_in_no_log() {
    let mut postern = Postern::start("[log]\nfilter = 'trace'\n");
    postern.import("shop", SMALL);
    let lease = postern.lease("shop", "read,write");
    let output = postern.run(&["psql", &lease.id, "--", "-XAtc", "SELECT 1"]);
    assert_eq!(text(&output.stdout).trim(), "1", "{}", text(&output.stderr));
    let wrong = format!("postgresql://{}:wr0ng-pass@127.0.0.1:{}/shop", lease.id, postern.port);
    let psql = common::cluster::install().program("psql");
    assert!(
        !Command::new(psql).args(["-c", "SELECT 1", &wrong]).output().unwrap().status.success()
    );
    postern.terminate();
    let token = secret(&lease.url);
    let own = postern.data.join("secrets").join(&lease.id);
    let mut files = vec![postern.scratch().to_owned()];
    let mut seen = 0;
    while let Some(path) = files.pop() {
        let meta = std::fs::symlink_metadata(&path).unwrap();
        if meta.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
        } else if meta.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
            assert_eq!(has(token), path == own, "{}", path.display());
            assert!(!has("wr0ng-pass"), "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 500, "only {seen} files were looked at");
}

#[test]
fn a_full_disk_fails_the_import_and_nothing_else() {
    let Some(disk) = common::mount::Tmpfs::new(240) else { return };
    let dir = tempfile::Builder::new().prefix("postern-test.").tempdir_in(disk.path()).unwrap();
    let postern = Postern::start_in(dir, "");
    let fill =
        "CREATE TABLE big AS SELECT i, repeat('x', 1000) AS t FROM generate_series(1, 400000) i;";
    let script = postern.scratch().join("big.sql");
    std::fs::write(&script, fill).unwrap();
    let output =
        postern.run(&["snapshot", "import", "big", "--from-sql", script.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("No space left on device"), "{said}");
    assert_eq!(postern.json(&["snapshot", "list"]), serde_json::json!([]));
    assert_eq!(std::fs::read_dir(postern.data.join("snapshots")).unwrap().count(), 0);
    // There is room again, and service goes on.
    let small = "CREATE TABLE t AS SELECT 1 AS id;";
    postern.import("small", small);
    let lease = postern.lease("small", "read");
    let output = postern.run(&["psql", &lease.id, "--", "-XAtc", "SELECT id FROM t"]);
    assert_eq!(text(&output.stdout).trim(), "1", "{}", text(&output.stderr));
}
