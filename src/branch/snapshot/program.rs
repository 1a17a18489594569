//! Running PostgreSQL's client programs for an import.

use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Command;

use super::super::account::{Account, Walls};
use super::super::pg::Install;
use super::SnapshotError;

/// How much of what a program says on standard error is kept: its beginning, where the first
/// error is, and its end.
const KEPT: usize = 64 * 1024;
/// How much of a statement an error repeats.
const STATEMENT: usize = 400;

/// A client program with postern's own rights, which ends with us: by the kernel when postern is
/// killed, else when dropped.
pub(super) fn command(install: &Install, program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(install.program(program));
    command.env("LC_ALL", "C.UTF-8").env("PGAPPNAME", "postern").stdin(Stdio::null());
    quiet(&mut command);
    command
}

/// A client program behind the walls that servers run behind, with an empty environment.
pub(super) fn walled(account: &Account, install: &Install, program: &str) -> Command {
    let program = install.program(program);
    let mut command = if account.walls == Walls::None {
        account.walled(&program)
    } else {
        let mut command = account.walled(Path::new("setpriv"));
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command
    };
    quiet(&mut command);
    command
}

fn quiet(command: &mut Command) {
    command.stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true).process_group(0);
}

/// Ends a program and those it has started: `pg_dump` and `pg_restore` work with several.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Runs a program; what it said when it failed. `heard` gets each line it says.
pub(super) async fn run(command: &mut Command, mut heard: impl FnMut(&str)) -> Result<(), String> {
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let mut group =
        Group(child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw));
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        // A line is bounded: a statement that failed may be of any length.
        let mut stderr = BufReader::new(stderr);
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut bounded = (&mut stderr).take(KEPT as u64);
            match bounded.read_until(b'\n', &mut line).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {
                    heard(&String::from_utf8_lossy(&line));
                    said.extend_from_slice(&line);
                    if said.len() > 3 * KEPT {
                        said.drain(KEPT..said.len() - KEPT);
                    }
                }
            }
        }
    }
    let status = child.wait().await.map_err(|e| e.to_string())?;
    // Its number may be another's from now on.
    group.0 = None;
    if status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said).trim().to_owned()) }
}

/// What a verbose program said without what it was about to do.
pub(super) fn without_progress(said: &str) -> String {
    let mut kept = Vec::new();
    let mut keeping = false;
    for line in said.lines() {
        let of_program = ["pg_dump: ", "pg_restore: "].iter().find_map(|p| line.strip_prefix(p));
        if let Some(rest) = of_program {
            let marks = ["error: ", "detail: ", "hint: ", "from TOC entry ", "fatal: "];
            keeping = marks.iter().any(|mark| rest.starts_with(mark));
        }
        if keeping {
            kept.push(line);
        }
    }
    if kept.is_empty() {
        said.lines().last().unwrap_or_default().to_owned()
    } else {
        kept.join("\n")
    }
}

/// Kills whatever works in a directory: programs that a postern which was killed had started.
/// Blocks while it walks `/proc`.
pub(super) fn kill_in(dir: &Path) {
    let Ok(entries) = std::fs::read_dir("/proc") else { return };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else {
            continue;
        };
        let works_in = std::fs::read_link(entry.path().join("cwd"));
        if works_in.is_ok_and(|cwd| cwd.starts_with(dir))
            && let Some(pid) = Pid::from_raw(pid)
        {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

/// Runs a program and gives what it printed.
pub(super) async fn output(command: &mut Command, program: &str) -> Result<String, SnapshotError> {
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
pub(super) fn psql_error(phase: &'static str, file: &Path, said: &str) -> SnapshotError {
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
    let after = lines[at + 1..].join("\n");
    let statement = after.split_once("STATEMENT:  ").map(|(_, statement)| statement.to_owned());
    let message = message.to_owned();
    SnapshotError::Statement { phase, place, message, statement: statement.map(|s| shorten(&s)) }
}

/// What `pg_restore` says of the entry that failed.
pub(super) fn restore_error(file: &Path, said: &str) -> SnapshotError {
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
                    psql:/x/f.sql:7: STATEMENT:  insert into nowhere\nvalues (1);";
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
