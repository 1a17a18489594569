//! `postern log` and `postern runs`: the evidence, read from its files.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use regex::Regex;

use super::{CliError, Global, Output};
use crate::evidence::{
    self, Filter, Head, LogEvent, PublicKey, Range, Reader, Report, RunSummary, verify,
};

/// How often a log that is followed is looked at.
const FOLLOW_EVERY: Duration = Duration::from_millis(100);

/// Read, check and export the evidence
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  postern log --run R1 --since 10m\n  postern log --verdict denied --follow\n  postern log --lease L --sql > replay.sql"
)]
pub struct LogArgs {
    #[command(subcommand)]
    command: Option<LogCommand>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Go on with what is recorded from now on
    #[arg(long, short)]
    follow: bool,
    /// Print the SQL only
    #[arg(long)]
    sql: bool,
    /// Print so many events at most
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

#[derive(Debug, Subcommand)]
enum LogCommand {
    /// Check that no record was edited, moved, removed or cut off
    #[command(
        after_help = "Example:\n  postern log verify --public-key $(cat /safe/place/postern.pub)"
    )]
    Verify {
        /// The first record [default: the first of the log]
        #[arg(long, value_name = "SEQ")]
        from: Option<u64>,
        /// The last record [default: the log's end]
        #[arg(long, value_name = "SEQ")]
        to: Option<u64>,
        /// The key to check signatures with [default: the one beside the log, which who can change
        /// the log can change too]
        #[arg(long, value_name = "HEX")]
        public_key: Option<PublicKey>,
        /// The log's directory [default: `DATA_DIR/evidence`]
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Print the key that signatures are checked with; keep it elsewhere
    #[command(after_help = "Example:\n  postern log public-key > /safe/place/postern.pub")]
    PublicKey,
    /// Print the signed end of the log; one that is kept elsewhere proves later what was there
    #[command(after_help = "Example:\n  postern log head --json >> /safe/place/heads.jsonl")]
    Head,
    /// Write events to a file, one JSON object a line
    #[command(after_help = "Example:\n  postern log export --jsonl --run R1 --to-file R1.jsonl")]
    Export {
        #[command(flatten)]
        filter: FilterArgs,
        /// One JSON object a line; the only format so far
        #[arg(long, required = true)]
        jsonl: bool,
        /// The file [default: standard output]
        #[arg(long, value_name = "FILE")]
        to_file: Option<PathBuf>,
    },
}

/// Look at what a run did
#[derive(Debug, Subcommand)]
pub enum RunsCommand {
    /// Show a run: its figures and everything it did, in order
    #[command(after_help = "Example:\n  postern runs show R1")]
    Show {
        /// The run's id
        run: String,
    },
}

/// Which events.
#[derive(Debug, Args)]
struct FilterArgs {
    /// Of this run
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Of this lease
    #[arg(long, value_name = "LEASE")]
    lease: Option<String>,
    /// Of this session
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Of this branch
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,
    /// Statements that were allowed or denied
    #[arg(long, value_parser = ["allowed", "denied"])]
    verdict: Option<String>,
    /// Statements that ended so
    #[arg(long, value_parser = ["ok", "error", "skipped", "suspended", "lost", "unanswered"])]
    outcome: Option<String>,
    /// Begun since then: a time (2026-12-01T12:00:00Z) or so long ago (10m)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<jiff::Timestamp>,
    /// Begun until then
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<jiff::Timestamp>,
    /// Statements that name this table
    #[arg(long, value_name = "TABLE")]
    table: Option<String>,
    /// Statements whose text or error this regular expression finds
    #[arg(long, value_name = "REGEX")]
    grep: Option<Regex>,
    /// The log's directory [default: `DATA_DIR/evidence`]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl FilterArgs {
    fn filter(&self) -> Filter {
        Filter {
            run: self.run.clone(),
            lease: self.lease.clone(),
            session: self.session.clone(),
            branch: self.branch.clone(),
            verdict: self.verdict.clone(),
            outcome: self.outcome.clone(),
            since: self.since,
            until: self.until,
            table: self.table.clone(),
            grep: self.grep.clone(),
        }
    }
}

fn moment(text: &str) -> Result<jiff::Timestamp, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let ago = humantime::parse_duration(text)
        .map_err(|_| "neither a time (2026-12-01T12:00:00Z) nor a duration (10m)".to_owned())?;
    let time = SystemTime::now().checked_sub(ago).ok_or("so long ago there was no time")?;
    jiff::Timestamp::try_from(time).map_err(|error| error.to_string())
}

/// Runs `postern log …`.
pub async fn run(global: &Global, args: LogArgs, output: Output) -> Result<ExitCode, CliError> {
    let place = directory(global)?;
    tokio::task::spawn_blocking(move || dispatch(&place, args, output))
        .await
        .map_err(CliError::broken)?
}

/// Runs `postern runs …`.
pub async fn runs(global: &Global, command: RunsCommand, output: Output) -> Result<(), CliError> {
    let place = directory(global)?;
    let RunsCommand::Show { run } = command;
    tokio::task::spawn_blocking(move || show(&place, &run, output))
        .await
        .map_err(CliError::broken)?
}

fn directory(global: &Global) -> Result<PathBuf, CliError> {
    Ok(global.config(&[])?.data_dir.join(evidence::DIRECTORY))
}

fn dispatch(place: &Path, args: LogArgs, output: Output) -> Result<ExitCode, CliError> {
    match args.command {
        None => print(args.filter.dir.as_deref().unwrap_or(place), &args, output)?,
        Some(LogCommand::Verify { from, to, public_key, dir }) => {
            let dir = dir.as_deref().unwrap_or(place);
            let range = Range { from: from.unwrap_or(1), to: to.unwrap_or(u64::MAX) };
            return check(dir, public_key, range, output);
        }
        Some(LogCommand::PublicKey) => {
            let key = PublicKey::beside(place)?.to_string();
            output.print(&key, Clone::clone)?;
        }
        Some(LogCommand::Head) => {
            let head = Head::read(place)?
                .ok_or_else(|| evidence::LogError::NoLog(place.to_owned()))?
                .map_err(CliError::Broken)?;
            output.print(&head, |head| {
                format!(
                    "{} {}\nsigned {} by {}",
                    head.seq, head.record_hash, head.time, head.public_key
                )
            })?;
        }
        Some(LogCommand::Export { filter, jsonl: _, to_file }) => {
            let dir = filter.dir.as_deref().unwrap_or(place);
            export(dir, &filter.filter(), to_file.as_deref())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes to a sink until it is closed by whoever reads it (`… | head`), which is no error.
struct Lines<W: Write> {
    out: BufWriter<W>,
    error: Option<io::Error>,
}

impl<W: Write> Lines<W> {
    fn new(out: W) -> Self {
        Self { out: BufWriter::new(out), error: None }
    }

    /// False when nobody wants more.
    fn line(&mut self, text: &str) -> bool {
        let result = self.out.write_all(text.as_bytes()).and_then(|()| self.out.write_all(b"\n"));
        self.error = result.err();
        self.error.is_none()
    }

    fn flush(&mut self) -> bool {
        self.error = self.error.take().or(self.out.flush().err());
        self.error.is_none()
    }

    fn finish(mut self) -> Result<(), CliError> {
        self.flush();
        match self.error {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(CliError::broken(error))
            }
            _ => Ok(()),
        }
    }
}

fn print(dir: &Path, args: &LogArgs, output: Output) -> Result<(), CliError> {
    let filter = args.filter.filter();
    let reader = Reader::open(dir)?;
    let mut lines = Lines::new(io::stdout().lock());
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut each = |event: LogEvent, lines: &mut Lines<_>| {
        let text = match output {
            _ if args.sql => sql(&event),
            Output::Json => serde_json::to_string(&event).ok(),
            Output::Text => Some(line(&event)),
        };
        let Some(text) = text else { return true };
        if left == 0 {
            return false;
        }
        left -= 1;
        lines.line(&text) && left > 0
    };
    // What is recorded between the two is in the second.
    let follow = args.follow.then(|| reader.follow(&filter)).transpose()?;
    let mut more = true;
    reader.read(&filter, &mut |event| {
        more = each(event, &mut lines);
        more
    })?;
    if let Some(mut follow) = follow {
        while more && lines.flush() {
            std::thread::sleep(FOLLOW_EVERY);
            more = follow.poll(&mut |event| each(event, &mut lines))?;
        }
    }
    lines.finish()
}

fn export(dir: &Path, filter: &Filter, file: Option<&Path>) -> Result<(), CliError> {
    let out: Box<dyn Write> = match file {
        Some(path) => Box::new(File::create(path).map_err(evidence::LogError::file(path))?),
        None => Box::new(io::stdout().lock()),
    };
    let mut lines = Lines::new(out);
    Reader::open(dir)?.read(filter, &mut |event| {
        serde_json::to_string(&event).is_ok_and(|text| lines.line(&text))
    })?;
    lines.finish()
}

fn check(
    dir: &Path,
    key: Option<PublicKey>,
    range: Range,
    output: Output,
) -> Result<ExitCode, CliError> {
    if key.is_none() {
        output.note(
            "note: checked with the key beside the log; --public-key takes one kept elsewhere",
        );
    }
    let key = key.map_or_else(|| PublicKey::beside(dir), Ok)?;
    let report = verify(dir, key, range)?;
    output.print(&report, verdict)?;
    Ok(if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn verdict(report: &Report) -> String {
    let mut text = match &report.finding {
        None => format!(
            "ok: {} records ({} to {}) in {} segments",
            report.records, report.first, report.last, report.segments
        ),
        Some(finding) => {
            let reason = format!("{:?}", finding.reason).to_lowercase();
            let place = match finding.line {
                0 => format!("segment {}", finding.segment),
                line => format!("segment {}, line {line}", finding.segment),
            };
            format!("record {} is {reason} ({place}): {}", finding.seq, finding.detail)
        }
    };
    for note in &report.notes {
        text.push_str("\nnote: ");
        text.push_str(note);
    }
    text
}

fn show(dir: &Path, run: &str, output: Output) -> Result<(), CliError> {
    let reader = Reader::open(dir)?;
    let filter = Filter { run: Some(run.to_owned()), ..Filter::default() };
    let mut summary = RunSummary::new(run);
    let mut found = false;
    reader.read(&filter, &mut |event| {
        found = true;
        summary.add(&event);
        true
    })?;
    if !found {
        return Err(
            evidence::LogError::BadFilter(format!("the evidence knows no run `{run}`")).into()
        );
    }
    let mut lines = Lines::new(io::stdout().lock());
    let head = match output {
        // One object, written in pieces: a run may have more events than memory.
        Output::Json => {
            let summary = serde_json::to_string(&summary).map_err(CliError::broken)?;
            format!("{{\"summary\":{summary},\"events\":[")
        }
        Output::Text => figures(&summary),
    };
    let mut go_on = lines.line(&head);
    let mut first = true;
    if go_on {
        reader.read(&filter, &mut |event| {
            let text = match output {
                Output::Json => {
                    let comma = if std::mem::take(&mut first) { "" } else { "," };
                    serde_json::to_string(&event)
                        .map_or_else(|_| String::new(), |t| comma.to_owned() + &t)
                }
                Output::Text => line(&event),
            };
            go_on = lines.line(&text);
            go_on
        })?;
    }
    if output == Output::Json {
        lines.line("]}");
    }
    lines.finish()
}

fn figures(run: &RunSummary) -> String {
    let list = |set: &std::collections::BTreeSet<String>| {
        set.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
    };
    let mut text = format!(
        "run {} at {}, {} to {}\nleases {}; branches {}; {} sessions\n\
         {} statements, {} denied, {} failed, {} rows, {} took {}\n",
        run.run_id,
        list(&run.revisions),
        run.first,
        run.last,
        list(&run.leases),
        list(&run.branches),
        run.sessions.len(),
        run.statements,
        run.denied,
        run.failed,
        run.rows,
        super::output::bytes(run.bytes),
        time(run.duration_us),
    );
    for (step, count) in &run.steps {
        text.push_str(&format!("step {step}: {count} statements\n"));
    }
    text
}

/// A statement that can be sent again; events that are none have nothing.
fn sql(event: &LogEvent) -> Option<String> {
    if event.code() != "statement" && event.code() != "copy" {
        return None;
    }
    let text = event.text("db.query.text").trim_end();
    let end = if text.ends_with(';') { "" } else { ";" };
    // A comment at the end must not swallow the semicolon.
    let end =
        if text.rsplit('\n').next().is_some_and(|last| last.contains("--")) { "\n;" } else { end };
    Some(format!("{text}{end}"))
}

/// One line for a person.
fn line(event: &LogEvent) -> String {
    let when = event.text("time").replace('T', " ");
    let when = when.get(..23).unwrap_or(&when);
    if !event.is_statement() {
        let facts: Vec<_> = [
            "postern.session",
            "postern.lease",
            "postern.branch",
            "postern.run",
            "postern.user",
            "postern.reason",
            "client.address",
            "postern.checkpoint",
            "postern.file",
            "postern.message",
            "postern.plan",
        ]
        .iter()
        .filter_map(|key| {
            let value = event.text(key);
            let name = key.rsplit('.').next()?;
            (!value.is_empty()).then(|| format!("{name}={}", shown(value)))
        })
        .collect();
        return format!("{when}  {:<9} {}  {}", "", event.code(), facts.join(" "));
    }
    let outcome = match (event.code(), event.text("postern.outcome")) {
        ("denial", _) => "denied".to_owned(),
        (_, "error") => format!("error {}", event.text("db.response.status_code")),
        (_, outcome) => outcome.to_owned(),
    };
    let mut text = format!("{when}  {:<9} {outcome:<11}", event.text("postern.session"));
    let rows = event.number("db.response.returned_rows").filter(|rows| *rows > 0);
    if let Some(rows) = rows.or_else(|| event.number("postern.affected_rows")) {
        text.push_str(&format!(" {rows} rows"));
    }
    if let Some(took) = event.number("postern.duration_us") {
        text.push_str(&format!(" {}", time(took)));
    }
    text.push_str("  ");
    text.push_str(&shown(event.text("db.query.text")));
    let message = event.text("postern.message");
    if !message.is_empty() {
        text.push_str("  -- ");
        text.push_str(&shown(message));
    }
    text
}

/// On one line, and without anything that a terminal would obey: an agent wrote it.
fn shown(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn time(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100),
        _ => format!("{}.{} s", micros / 1_000_000, micros % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_times_or_durations() {
        assert_eq!(moment("2026-12-01T12:00:00Z").unwrap().as_second(), 1_796_126_400);
        let ago = moment("10m").unwrap();
        let passed = jiff::Timestamp::now().as_second() - ago.as_second();
        assert!((599..=602).contains(&passed));
        assert!(moment("yesterday").is_err());
    }

    #[test]
    fn what_an_agent_wrote_does_not_command_the_terminal() {
        assert_eq!(shown("SELECT\n  '\u{1b}[2J'"), "SELECT '\u{fffd}[2J'");
        assert_eq!(time(1_500), "1.5 ms");
    }
}
