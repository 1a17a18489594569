//! From a source to a database on the import's server.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::Stdio;

use secrecy::{ExposeSecret, SecretString};
use tokio::process::Command;
use tokio_postgres::Client;

use super::super::config::{CARRIED, PORT};
use super::super::pg::{Install, Installs};
use super::super::server::Server;
use super::program::{self, command};
use super::{ImportSource, SnapshotError, SourceUrl, roles};

/// The superuser that restores. Not the bootstrap one: what that one owns could not be given away.
pub const RESTORER: &str = "postern_import";

/// What is known of a source before it is restored.
pub struct Plan {
    /// The server to restore with.
    pub install: Install,
    /// For people, without a password.
    pub told: String,
    /// The source's settings that matter for plans.
    pub settings: BTreeMap<String, String>,
    /// The roles it has.
    pub roles: BTreeSet<String>,
    /// The source's database, when it tells it beforehand.
    pub database: Option<String>,
}

/// Looks at a source.
pub async fn plan(source: &ImportSource, installs: &Installs) -> Result<Plan, SnapshotError> {
    let newest = installs.newest()?.clone();
    match source {
        ImportSource::Sql { path } => {
            let file = File::open(path).map_err(SnapshotError::io(path))?;
            let roles = roles::named_in(BufReader::new(file)).map_err(SnapshotError::io(path))?;
            let told = format!("sql {}", path.display());
            Ok(Plan { install: newest, told, settings: BTreeMap::new(), roles, database: None })
        }
        ImportSource::Dump { path } => {
            std::fs::metadata(path).map_err(SnapshotError::io(path))?;
            let list = program::output(
                command(&newest, "pg_restore").arg("--list").arg(path),
                "pg_restore",
            )
            .await?;
            let database = list
                .lines()
                .find_map(|line| line.strip_prefix(";     dbname: "))
                .map(str::to_owned);
            let schema = program::output(
                command(&newest, "pg_restore").args(["--schema-only", "--file=-"]).arg(path),
                "pg_restore",
            )
            .await?;
            let roles = roles::named_in(schema.as_bytes()).map_err(SnapshotError::io(path))?;
            let told = format!("dump {}", path.display());
            Ok(Plan { install: newest, told, settings: BTreeMap::new(), roles, database })
        }
        ImportSource::Url { url } => look_at_server(url, installs).await,
    }
}

async fn look_at_server(url: &SourceUrl, installs: &Installs) -> Result<Plan, SnapshotError> {
    let (bare, password) = split_password(url.expose())?;
    let newest = installs.newest()?;
    let ask = async |sql: &str| {
        let mut psql = command(newest, "psql");
        with_password(&mut psql, password.as_ref());
        psql.args(["-XAt", "-F", "\t", "-d", &bare, "-c", sql]);
        program::output(&mut psql, "psql").await
    };
    let version = ask("SELECT current_setting('server_version_num')::int / 10000").await?;
    let major: u32 = version.trim().parse().map_err(|_| {
        SnapshotError::Invalid(format!("the source told no version but `{}`", version.trim()))
    })?;
    // The same major version when it is there, else the next newer one.
    let install = installs
        .iter()
        .find(|install| install.major >= major)
        .ok_or_else(|| {
            SnapshotError::Invalid(format!(
                "the source is PostgreSQL {major}, newer than all that are installed here"
            ))
        })?
        .clone();
    let names: Vec<String> = CARRIED.iter().map(|name| format!("'{name}'")).collect();
    let settings = ask(&format!(
        "SELECT name, CASE WHEN unit IN ('8kB', 'kB', 'MB') THEN current_setting(name) ELSE setting END \
         FROM pg_settings WHERE name IN ({}) AND source NOT IN ('default', 'client', 'session')",
        names.join(", ")
    ))
    .await?;
    let settings = settings
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let roles = ask("SELECT rolname FROM pg_roles WHERE rolname !~ '^(pg_|postern)'").await?;
    let database = ask("SELECT current_database()").await?.trim_end_matches('\n').to_owned();
    Ok(Plan {
        install,
        told: format!("url {bare}"),
        settings,
        roles: roles.lines().map(str::to_owned).collect(),
        database: Some(database),
    })
}

/// Restores the source and gives the database's name.
pub async fn restore(
    source: &ImportSource,
    plan: &Plan,
    server: &Server,
    admin: &Client,
    wanted: &str,
    jobs: u32,
    scratch: &Path,
) -> Result<String, SnapshotError> {
    for role in &plan.roles {
        admin.batch_execute(&format!("CREATE ROLE {} NOLOGIN", quote(role))).await?;
    }
    let socket_dir = server.spec().config.socket_dir.clone();
    match source {
        ImportSource::Sql { path } => {
            admin.batch_execute(&format!("CREATE DATABASE {}", quote(wanted))).await?;
            let psql = psql(&plan.install, &socket_dir, wanted);
            run_script(psql, "restore", path, false).await?;
            // A dump made with --create connects to a database of its own.
            let others = "SELECT datname FROM pg_database WHERE NOT datistemplate AND datname NOT IN ('postgres', $1)";
            let others = admin.query(others, &[&wanted]).await?;
            match others.as_slice() {
                [] => Ok(wanted.to_owned()),
                [other] => {
                    admin.batch_execute(&format!("DROP DATABASE {}", quote(wanted))).await?;
                    Ok(other.get(0))
                }
                _ => Err(SnapshotError::Invalid(
                    "the script makes more than one database; a snapshot has one".to_owned(),
                )),
            }
        }
        ImportSource::Dump { path } => {
            restore_archive(plan, &socket_dir, path, jobs).await?;
            let made = plan.database.clone().unwrap_or_else(|| wanted.to_owned());
            rename(admin, made, wanted).await
        }
        ImportSource::Url { url } => {
            let (bare, password) = split_password(url.expose())?;
            let dump = scratch.join("dump");
            let mut pg_dump = command(&plan.install, "pg_dump");
            with_password(&mut pg_dump, password.as_ref());
            pg_dump
                .args(["--format=directory", "--no-sync", "--compress=0", "--jobs"])
                .arg(jobs.to_string())
                .arg("--file")
                .arg(&dump)
                .args(["--dbname", &bare]);
            program::run(&mut pg_dump).await.map_err(|message| SnapshotError::Program {
                program: "pg_dump".to_owned(),
                message,
            })?;
            restore_archive(plan, &socket_dir, &dump, jobs).await?;
            std::fs::remove_dir_all(&dump).map_err(SnapshotError::io(&dump))?;
            let made = plan.database.clone().unwrap_or_else(|| wanted.to_owned());
            rename(admin, made, wanted).await
        }
    }
}

async fn rename(admin: &Client, made: String, wanted: &str) -> Result<String, SnapshotError> {
    if made != wanted {
        let sql = format!("ALTER DATABASE {} RENAME TO {}", quote(&made), quote(wanted));
        admin.batch_execute(&sql).await?;
    }
    Ok(wanted.to_owned())
}

async fn restore_archive(
    plan: &Plan,
    socket_dir: &Path,
    archive: &Path,
    jobs: u32,
) -> Result<(), SnapshotError> {
    let mut pg_restore = command(&plan.install, "pg_restore");
    pg_restore
        .args(["--create", "--exit-on-error", "--no-tablespaces", "--username", RESTORER, "--host"])
        .arg(socket_dir)
        .args(["--port", &PORT.to_string(), "--dbname", "postgres"]);
    if !is_tar(archive) {
        pg_restore.args(["--jobs", &jobs.to_string()]);
    }
    pg_restore.arg(archive);
    program::run(&mut pg_restore).await.map_err(|said| program::restore_error(archive, &said))
}

/// Is it a dump in tar format, which cannot be restored by several jobs?
fn is_tar(archive: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0; 262];
    File::open(archive).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && &magic[257..] == b"ustar"
}

/// psql as the restoring superuser.
pub fn psql(install: &Install, socket_dir: &Path, database: &str) -> Command {
    let mut psql = command(install, "psql");
    psql.args([
        "-X",
        "-q",
        "--echo-errors",
        "-v",
        "ON_ERROR_STOP=1",
        "-o",
        "/dev/null",
        "-U",
        RESTORER,
    ])
    .arg("-h")
    .arg(socket_dir)
    .args(["-p", &PORT.to_string(), "-d", database])
    .stdout(Stdio::null());
    psql
}

/// Runs a script to its end, in one transaction if so wished.
pub async fn run_script(
    mut psql: Command,
    phase: &'static str,
    path: &Path,
    one_transaction: bool,
) -> Result<(), SnapshotError> {
    if one_transaction {
        psql.arg("--single-transaction");
    }
    psql.arg("-f").arg(path);
    if let Some(dir) = path.parent().filter(|dir| dir.is_absolute()) {
        psql.current_dir(dir); // \i and \copy take paths from there
    }
    program::run(&mut psql).await.map_err(|said| program::psql_error(phase, path, &said))
}

/// An identifier in double quotes.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn with_password(command: &mut Command, password: Option<&SecretString>) {
    if let Some(password) = password {
        // By the environment: an argument would stand in the process list.
        command.env("PGPASSWORD", password.expose_secret());
    }
}

/// A URL without its password, and the password (PostgreSQL manual, "34.1.1.2. Connection URIs").
fn split_password(url: &str) -> Result<(String, Option<SecretString>), SnapshotError> {
    let scheme = ["postgresql://", "postgres://"].into_iter().find(|s| url.starts_with(s));
    let Some(scheme) = scheme else {
        return Err(SnapshotError::Invalid(
            "the source's URL must begin with postgresql://".to_owned(),
        ));
    };
    let rest = &url[scheme.len()..];
    let (authority, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (authority, mut password) = match authority.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((user, password)) => (format!("{user}@{host}"), Some(decode(password)?)),
            None => (authority.to_owned(), None),
        },
        None => (authority.to_owned(), None),
    };
    let tail = match tail.split_once('?') {
        None => tail.to_owned(),
        Some((path, query)) => {
            let mut kept = Vec::new();
            for pair in query.split('&') {
                match pair.strip_prefix("password=") {
                    Some(value) => password = Some(decode(value)?),
                    None => kept.push(pair),
                }
            }
            if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) }
        }
    };
    Ok((format!("{scheme}{authority}{tail}"), password))
}

fn decode(text: &str) -> Result<SecretString, SnapshotError> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digit = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16));
            match (digit(bytes.next()), digit(bytes.next())) {
                (Some(a), Some(b)) => out.push(u8::try_from(a * 16 + b).unwrap_or_default()),
                _ => return Err(not_encoded()),
            }
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).map(SecretString::from).map_err(|_| not_encoded())
}

fn not_encoded() -> SnapshotError {
    SnapshotError::Invalid("the password in the source's URL is not percent-encoded".to_owned())
}

/// Absolute paths of the request's files: relative ones would be taken from postern's own
/// directory, which is not the caller's.
pub fn check_path(path: &Path) -> Result<(), SnapshotError> {
    if path.is_absolute() {
        Ok(())
    } else {
        Err(SnapshotError::Invalid(format!("{} is not an absolute path", path.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_taken_out_of_a_url() {
        let split = |url: &str| {
            let (bare, password) = split_password(url).unwrap();
            (bare, password.map(|p| p.expose_secret().to_owned()))
        };
        assert_eq!(
            split("postgresql://u:p%40ss@h:1/db?sslmode=require"),
            ("postgresql://u@h:1/db?sslmode=require".into(), Some("p@ss".into()))
        );
        assert_eq!(
            split("postgres:///db?host=/tmp&password=x&user=u"),
            ("postgres:///db?host=/tmp&user=u".into(), Some("x".into()))
        );
        assert_eq!(split("postgresql://h/db"), ("postgresql://h/db".into(), None));
        let error = split_password("u:hunter2@h/db").err().unwrap();
        assert!(!error.to_string().contains("hunter2"));
    }
}
