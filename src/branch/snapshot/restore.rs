//! From a source to a database on the import's server.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio_postgres::Client;

use super::super::account::Account;
use super::super::config::{CARRIED, PORT};
use super::super::pg::{Install, Installs};
use super::program::{self, command};
use super::script::{self, Named};
use super::url::{split_password, with_password};
use super::{ImportSource, SnapshotError, SourceUrl};

/// The superuser that restores. Not the bootstrap one: what that one owns could not be given away.
pub(super) const RESTORER: &str = "postern_import";

/// Where the superuser works while databases are made: nothing is restored into it.
pub(super) const MAINTENANCE: &str = "template1";

/// How a database is made whose source tells nothing of its locale.
const UNTOLD: &str = "WITH TEMPLATE = template0";

/// How often the place in a script is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Hears how far a step is: what is done, and of how much when that is known.
pub(super) type Heard<'a> = &'a (dyn Fn(u64, Option<u64>) + Send + Sync);

/// What is known of a source before it is restored.
pub(super) struct Plan {
    /// The server to restore with.
    pub(super) install: Install,
    /// For people, without a password.
    pub(super) told: String,
    /// The source's settings that matter for plans.
    pub(super) settings: BTreeMap<String, String>,
    /// The roles it has.
    pub(super) roles: BTreeSet<String>,
    /// The databases it makes, each with what follows its name in CREATE DATABASE.
    pub(super) databases: Vec<(String, String)>,
    /// What it sets for its database.
    pub(super) database_settings: Vec<String>,
}

impl Plan {
    fn of(install: Install, told: String, named: Named) -> Self {
        Self {
            install,
            told,
            settings: BTreeMap::new(),
            roles: named.roles,
            databases: named.databases,
            database_settings: named.settings,
        }
    }

    /// The source's only database, when it tells.
    pub(super) fn database(&self) -> Option<&str> {
        match self.databases.as_slice() {
            [(name, _)] => Some(name),
            _ => None,
        }
    }
}

/// Where and how a source is restored.
pub(super) struct Target<'a> {
    /// As whom scripts run.
    pub(super) account: &'a Account,
    /// The server's programs.
    pub(super) install: &'a Install,
    /// The import's server.
    pub(super) socket_dir: &'a Path,
    /// A superuser's client in the maintenance database.
    pub(super) admin: &'a Client,
    /// The name the database is to have.
    pub(super) wanted: &'a str,
    /// The name the request asks for.
    pub(super) asked: Option<&'a str>,
    /// How many jobs at once.
    pub(super) jobs: u32,
    /// A directory for the dump.
    pub(super) scratch: &'a Path,
}

/// Looks at a source.
pub(super) async fn plan(
    source: &ImportSource,
    installs: &Installs,
) -> Result<Plan, SnapshotError> {
    let newest = installs.newest()?.clone();
    match source {
        ImportSource::Sql { path } => {
            let told = format!("sql {}", path.display());
            let path = path.clone();
            let named = blocking(move || {
                let file = open_script(&path)?;
                script::named_in(BufReader::new(file)).map_err(SnapshotError::io(&path))
            });
            Ok(Plan::of(newest, told, named.await?))
        }
        ImportSource::Dump { path } => {
            std::fs::metadata(path).map_err(SnapshotError::io(path))?;
            let named = named_in_archive(&newest, path).await?;
            Ok(Plan::of(newest, format!("dump {}", path.display()), named))
        }
        ImportSource::Url { url } => look_at_server(url, installs).await,
    }
}

/// Opens a script and refuses what is none.
fn open_script(path: &Path) -> Result<File, SnapshotError> {
    let meta = std::fs::metadata(path).map_err(SnapshotError::io(path))?;
    let refuse = |why: &str| Err(SnapshotError::Invalid(format!("{} {why}", path.display())));
    if !meta.is_file() {
        return refuse("is not a file");
    }
    let mut file = File::open(path).map_err(SnapshotError::io(path))?;
    let mut magic = [0; 5];
    let read = file.read(&mut magic).map_err(SnapshotError::io(path))?;
    match &magic[..read] {
        b"PGDMP" => return refuse("is a dump in custom format: use --from-dump"),
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            return refuse("is compressed: unpack it first");
        }
        _ => {}
    }
    file.rewind().map_err(SnapshotError::io(path))?;
    Ok(file)
}

async fn named_in_archive(install: &Install, archive: &Path) -> Result<Named, SnapshotError> {
    let mut pg_restore = command(install, "pg_restore");
    pg_restore.args(["--create", "--schema-only", "--no-tablespaces", "--file=-"]).arg(archive);
    let schema = program::output(&mut pg_restore, "pg_restore").await?;
    script::named_in(schema.as_bytes()).map_err(SnapshotError::io(archive))
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
        // The dump tells the rest.
        databases: vec![(database, UNTOLD.to_owned())],
        database_settings: Vec::new(),
    })
}

/// Restores the source and gives the database's name.
pub(super) async fn restore(
    source: &ImportSource,
    plan: &Plan,
    target: &Target<'_>,
    heard: Heard<'_>,
) -> Result<String, SnapshotError> {
    // Superusers for now: the source's owners of event triggers and the like have to be.
    for role in &plan.roles {
        let sql = format!("CREATE ROLE {} NOLOGIN SUPERUSER", quote(role));
        target.admin.batch_execute(&sql).await?;
    }
    match source {
        ImportSource::Sql { path } => restore_script(path, plan, target, heard).await,
        ImportSource::Dump { path } => {
            make_database(target, plan.databases.first(), &plan.database_settings).await?;
            restore_archive(path, target, heard).await?;
            Ok(target.wanted.to_owned())
        }
        ImportSource::Url { url } => {
            let dump = target.scratch.join("dump");
            dump_server(url, target, &dump, heard).await?;
            let named = named_in_archive(target.install, &dump).await?;
            make_database(target, named.databases.first(), &named.settings).await?;
            restore_archive(&dump, target, heard).await?;
            std::fs::remove_dir_all(&dump).map_err(SnapshotError::io(&dump))?;
            Ok(target.wanted.to_owned())
        }
    }
}

/// Makes the database as its source made it.
async fn make_database(
    target: &Target<'_>,
    like: Option<&(String, String)>,
    settings: &[String],
) -> Result<(), SnapshotError> {
    let name = quote(target.wanted);
    if target.wanted == "postgres" {
        target.admin.batch_execute("DROP DATABASE postgres").await?;
    }
    let options = like.map_or(UNTOLD, |(_, options)| options.as_str());
    let made = target.admin.batch_execute(&format!("CREATE DATABASE {name} {options}")).await;
    made.map_err(|e| match e.as_db_error() {
        Some(db) if db.message().contains("locale") || db.message().contains("collation") => {
            SnapshotError::Locale(db.message().to_owned())
        }
        _ => e.into(),
    })?;
    for setting in settings {
        let set = target.admin.batch_execute(&format!("ALTER DATABASE {name} {setting}")).await;
        if let Err(e) = set {
            // A setting of a module that is not loaded here, or of another version.
            tracing::warn!(setting, error = %e, "a setting of the source's database is left out");
        }
    }
    Ok(())
}

async fn restore_script(
    path: &Path,
    plan: &Plan,
    target: &Target<'_>,
    heard: Heard<'_>,
) -> Result<String, SnapshotError> {
    if plan.databases.is_empty() {
        make_database(target, None, &[]).await?;
        let psql = psql(target, target.wanted);
        run_script(psql, "restore", path, false, heard).await?;
        return Ok(target.wanted.to_owned());
    }
    // The script makes its database and connects to it.
    if plan.databases.iter().any(|(name, _)| name == "postgres") {
        target.admin.batch_execute("DROP DATABASE postgres").await?;
    }
    run_script(psql(target, MAINTENANCE), "restore", path, false, heard).await?;
    let mut made = Vec::new();
    for (name, _) in &plan.databases {
        let there = "SELECT FROM pg_database WHERE datname = $1";
        if !target.admin.query(there, &[name]).await?.is_empty() {
            made.push(name.as_str());
        }
    }
    let asked = target.asked.filter(|asked| made.contains(asked));
    let kept = match (asked, made.as_slice()) {
        (Some(asked), _) => asked,
        (None, [only]) => only,
        _ => {
            return Err(SnapshotError::Invalid(format!(
                "the script makes the databases {}: name one with --database",
                made.join(", ")
            )));
        }
    };
    for other in made.iter().filter(|name| **name != kept) {
        target.admin.batch_execute(&format!("DROP DATABASE {}", quote(other))).await?;
    }
    if kept != target.wanted {
        let sql = format!("ALTER DATABASE {} RENAME TO {}", quote(kept), quote(target.wanted));
        target.admin.batch_execute(&sql).await?;
    }
    Ok(target.wanted.to_owned())
}

async fn dump_server(
    url: &SourceUrl,
    target: &Target<'_>,
    dump: &Path,
    heard: Heard<'_>,
) -> Result<(), SnapshotError> {
    let (bare, password) = split_password(url.expose())?;
    let mut pg_dump = command(target.install, "pg_dump");
    with_password(&mut pg_dump, password.as_ref());
    pg_dump
        .args(["--format=directory", "--no-sync", "--compress=0", "--verbose"])
        .args(["--no-subscriptions", "--no-security-labels"])
        .arg("--jobs")
        .arg(target.jobs.to_string())
        .arg("--file")
        .arg(dump)
        .args(["--dbname", &bare])
        .current_dir(target.scratch);
    let mut tables = 0;
    program::run(&mut pg_dump, |line| {
        if line.contains("dumping contents of table") {
            tables += 1;
            heard(tables, None);
        }
    })
    .await
    .map_err(|said| SnapshotError::Program {
        program: "pg_dump".to_owned(),
        message: program::without_progress(&said),
    })
}

async fn restore_archive(
    archive: &Path,
    target: &Target<'_>,
    heard: Heard<'_>,
) -> Result<(), SnapshotError> {
    let list = program::output(
        command(target.install, "pg_restore").arg("--list").arg(archive),
        "pg_restore",
    )
    .await?;
    let is_data = |line: &&str| !line.starts_with(';') && line.contains(" TABLE DATA ");
    let total = list.lines().filter(is_data).count() as u64;
    let mut pg_restore = command(target.install, "pg_restore");
    pg_restore
        .args(["--exit-on-error", "--no-tablespaces", "--no-security-labels", "--verbose"])
        .args(["--no-subscriptions", "--username", RESTORER, "--host"])
        .arg(target.socket_dir)
        .args(["--port", &PORT.to_string(), "--dbname"])
        .arg(connection_to(target.wanted))
        .current_dir(target.scratch);
    if !is_tar(archive) {
        pg_restore.args(["--jobs", &target.jobs.to_string()]);
    }
    pg_restore.arg(archive);
    let mut tables = 0;
    program::run(&mut pg_restore, |line| {
        if line.contains("processing data for table") {
            tables += 1;
            heard(tables, Some(total));
        }
    })
    .await
    .map_err(|said| program::restore_error(archive, &program::without_progress(&said)))
}

/// Is it a dump in tar format, which cannot be restored by several jobs?
fn is_tar(archive: &Path) -> bool {
    let mut magic = [0; 262];
    File::open(archive).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && &magic[257..] == b"ustar"
}

/// psql as the restoring superuser of the database, and as the servers' system user: a script may
/// hold commands for psql that run programs, and it is not postern's rights they are to run with.
pub(super) fn psql(target: &Target<'_>, database: &str) -> Command {
    let mut psql = program::walled(target.account, target.install, "psql");
    psql.args(["-X", "-q", "--echo-errors", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null"])
        .args(["-U", RESTORER, "-h"])
        .arg(target.socket_dir)
        .args(["-p", &PORT.to_string(), "-d"])
        .arg(connection_to(database));
    psql
}

/// Runs a script to its end, in one transaction if so wished.
pub(super) async fn run_script(
    mut psql: Command,
    phase: &'static str,
    path: &Path,
    one_transaction: bool,
    heard: Heard<'_>,
) -> Result<(), SnapshotError> {
    if one_transaction {
        psql.arg("--single-transaction");
    }
    let script = path.to_owned();
    let file = blocking(move || open_script(&script)).await?;
    let total = file.metadata().map_err(SnapshotError::io(path))?.len();
    // Both are one open file, so ours tells how far psql has read.
    let mut place = file.try_clone().map_err(SnapshotError::io(path))?;
    // As input, for the servers' user may not be able to open it.
    psql.args(["-f", "-"]).stdin(Stdio::from(file));
    if let Some(dir) = path.parent().filter(|dir| dir.is_absolute()) {
        psql.current_dir(dir); // \i and \copy take paths from there
    }
    let mut running = std::pin::pin!(program::run(&mut psql, |_| {}));
    loop {
        tokio::select! {
            ended = &mut running => {
                return ended.map_err(|said| program::psql_error(phase, path, &said));
            }
            () = tokio::time::sleep(LOOK) => {
                heard(place.stream_position().unwrap_or(0), Some(total));
            }
        }
    }
}

/// A database's name where libpq would take some for more than a name.
fn connection_to(database: &str) -> String {
    format!("dbname='{}'", database.replace('\\', "\\\\").replace('\'', "\\'"))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SnapshotError> + Send + 'static,
) -> Result<T, SnapshotError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| SnapshotError::Cancelled)?
}

/// An identifier in double quotes.
pub(super) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Absolute paths of the request's files: relative ones would be taken from postern's own
/// directory, which is not the caller's.
pub(super) fn check_path(path: &Path) -> Result<(), SnapshotError> {
    if path.is_absolute() {
        Ok(())
    } else {
        Err(SnapshotError::Invalid(format!("{} is not an absolute path", path.display())))
    }
}
