//! Running PostgreSQL's client programs for an import.

use std::path::Path;
use std::process::Stdio;

use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::super::pg::Install;
use super::SnapshotError;

/// How much of what a program says on standard error is kept: its beginning, where the first
/// error is, and its end.
const KEPT: usize = 64 * 1024;
/// How much of a statement an error repeats.
const STATEMENT: usize = 400;

/// A client program that ends with us: by the kernel when postern is killed, else when dropped.
pub fn command(install: &Install, program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(install.program(program));
    command
        .env("LC_ALL", "C.UTF-8")
        .env("PGAPPNAME", "postern")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Runs a program; what it said when it failed.
pub async fn run(command: &mut Command) -> Result<(), String> {
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let mut said = Vec::new();
    if let Some(mut stderr) = child.stderr.take() {
        let mut chunk = vec![0; 8192];
        loop {
            match stderr.read(&mut chunk).await {
                Ok(0) | Err(_) => break,
                Ok(n) => {
                    said.extend_from_slice(&chunk[..n]);
                    if said.len() > 2 * KEPT {
                        said.drain(KEPT..said.len() - KEPT);
                    }
                }
            }
        }
    }
    let status = child.wait().await.map_err(|e| e.to_string())?;
    if status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said).trim().to_owned()) }
}

/// Runs a program and gives what it printed.
pub async fn output(command: &mut Command, program: &str) -> Result<String, SnapshotError> {
    let failed = |message: String| SnapshotError::Program { program: program.to_owned(), message };
    let output =
        command.stdout(Stdio::piped()).output().await.map_err(|e| failed(e.to_string()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

/// What psql with `--echo-errors` says of the statement that failed.
pub fn psql_error(phase: &'static str, file: &Path, said: &str) -> SnapshotError {
    // psql:FILE:LINE: ERROR:  message … STATEMENT:  text
    let lines: Vec<&str> = said.lines().collect();
    let at = lines.iter().position(|line| line.contains("ERROR:  ") || line.contains("FATAL:  "));
    let Some(at) = at else {
        let message = lines.last().copied().unwrap_or("it said nothing").to_owned();
        return SnapshotError::Program { program: "psql".to_owned(), message };
    };
    let (place, message) = lines[at].split_once(": ERROR:  ").unwrap_or(("", lines[at]));
    let line = place.rsplit(':').next().filter(|n| n.parse::<u64>().is_ok());
    let place = match line {
        Some(line) => format!("{}:{line}", file.display()),
        None => file.display().to_string(),
    };
    let statement = lines[at + 1..]
        .iter()
        .position(|line| line.starts_with("STATEMENT:  "))
        .map(|n| lines[at + 1 + n..].join("\n")["STATEMENT:  ".len()..].to_owned());
    let message = message.to_owned();
    SnapshotError::Statement { phase, place, message, statement: statement.map(|s| shorten(&s)) }
}

/// What `pg_restore` says of the entry that failed.
pub fn restore_error(file: &Path, said: &str) -> SnapshotError {
    // pg_restore: from TOC entry 215; 1259 16384 TABLE name owner
    // pg_restore: error: could not execute query: ERROR:  message
    // Command was: text
    let lines: Vec<&str> = said.lines().collect();
    let find = |mark: &str| lines.iter().position(|line| line.contains(mark));
    let Some(at) = find("error: ") else {
        let message = lines.last().copied().unwrap_or("it said nothing").to_owned();
        return SnapshotError::Program { program: "pg_restore".to_owned(), message };
    };
    let message = lines[at].split("error: ").nth(1).unwrap_or(lines[at]);
    let message = message.strip_prefix("could not execute query: ERROR:  ").unwrap_or(message);
    let entry = lines[..at].iter().rev().find_map(|line| line.split_once("from TOC entry "));
    let place = match entry {
        Some((_, entry)) => format!("{}, entry {entry}", file.display()),
        None => file.display().to_string(),
    };
    let statement =
        find("Command was: ").map(|n| lines[n..].join("\n")["Command was: ".len()..].to_owned());
    SnapshotError::Statement {
        phase: "restore",
        place,
        message: message.to_owned(),
        statement: statement.map(|s| shorten(&s)),
    }
}

fn shorten(statement: &str) -> String {
    let statement = statement.trim();
    match statement.char_indices().nth(STATEMENT) {
        Some((end, _)) => format!("{} …", &statement[..end]),
        None => statement.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::UserFacingError;

    #[test]
    fn the_failing_statement_is_found_in_what_psql_says() {
        let said = "psql:/x/f.sql:2: NOTICE:  table \"t\" does not exist, skipping\n\
                    psql:/x/f.sql:7: ERROR:  relation \"nowhere\" does not exist\n\
                    LINE 1: insert into nowhere\n             ^\n\
                    STATEMENT:  insert into nowhere\nvalues (1);";
        let error = psql_error("restore", Path::new("/x/f.sql"), said);
        assert_eq!(
            error.to_string(),
            "restore failed at /x/f.sql:7: relation \"nowhere\" does not exist"
        );
        assert_eq!(error.detail().unwrap(), "The statement: insert into nowhere\nvalues (1);");
    }

    #[test]
    fn the_failing_entry_is_found_in_what_pg_restore_says() {
        let said = "pg_restore: while PROCESSING TOC:\n\
                    pg_restore: from TOC entry 3; 2615 2200 SCHEMA - public bob\n\
                    pg_restore: error: could not execute query: ERROR:  role \"bob\" does not exist\n\
                    Command was: ALTER SCHEMA public OWNER TO bob;";
        let error = restore_error(Path::new("d.dump"), said);
        let text = "restore failed at d.dump, entry 3; 2615 2200 SCHEMA - public bob: role \"bob\" does not exist";
        assert_eq!(error.to_string(), text);
        assert!(error.detail().unwrap().contains("OWNER TO bob"));
    }
}
