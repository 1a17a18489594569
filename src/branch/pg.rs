//! Where PostgreSQL is installed, and in which versions.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{ErrorKind, SqlState, UserFacingError};

/// The major versions that are supported.
pub const SUPPORTED: std::ops::RangeInclusive<u32> = 13..=18;

/// Where Debian and its kin keep one directory per major version.
const DEBIAN_ROOT: &str = "/usr/lib/postgresql";

/// Programs without which an installation is of no use for branches.
const NEEDED: [&str; 2] = ["postgres", "initdb"];

/// One directory of PostgreSQL server programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Install {
    /// The directory with `postgres`, `initdb`, `pg_dump` …
    pub bin_dir: PathBuf,
    /// The version as the server tells it, for example `15.18`.
    pub version: String,
    /// The major version, for example 15.
    pub major: u32,
}

impl Install {
    /// Asks the `postgres` in `bin_dir` for its version.
    pub fn at(bin_dir: &Path) -> Result<Self, PgError> {
        for program in NEEDED {
            if !bin_dir.join(program).is_file() {
                return Err(PgError::Incomplete { bin_dir: bin_dir.to_owned(), program });
            }
        }
        let program = bin_dir.join("postgres");
        let failed = |why: String| PgError::Version { program: program.clone(), why };
        let output = Command::new(&program)
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_err(|e| failed(e.to_string()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let (version, major) =
            parse_version(&text).ok_or_else(|| failed(format!("it says `{}`", text.trim())))?;
        if !SUPPORTED.contains(&major) {
            return Err(PgError::Unsupported { bin_dir: bin_dir.to_owned(), version });
        }
        Ok(Self { bin_dir: bin_dir.to_owned(), version, major })
    }

    /// The path of one of its programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin_dir.join(name)
    }
}

impl fmt::Display for Install {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgreSQL {} in {}", self.version, self.bin_dir.display())
    }
}

/// All installations found, the preferred one of each major version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installs {
    by_major: BTreeMap<u32, Install>,
}

impl Installs {
    /// Looks in `explicit`, then where `pg_config` points, then in `/usr/lib/postgresql/*/bin`,
    /// then in `PATH`. The first found of each major version wins. An explicit directory must hold
    /// a usable PostgreSQL; the other places may be empty. Blocks while it asks for versions.
    pub fn find(explicit: Option<&Path>) -> Result<Self, PgError> {
        let mut found = Self::default();
        if let Some(bin_dir) = explicit {
            found.add(Install::at(bin_dir)?);
        }
        for bin_dir in places() {
            // What lies around on the machine may be old or half removed; only what was asked for
            // by name must be right.
            if let Ok(install) = Install::at(&bin_dir) {
                found.add(install);
            }
        }
        if found.by_major.is_empty() { Err(PgError::NotFound) } else { Ok(found) }
    }

    /// The installation of that major version.
    pub fn major(&self, major: u32) -> Result<&Install, PgError> {
        self.by_major.get(&major).ok_or_else(|| PgError::NoSuchMajor {
            major,
            found: self.iter().map(|i| i.version.clone()).collect::<Vec<_>>().join(", "),
        })
    }

    /// The newest one.
    pub fn newest(&self) -> Result<&Install, PgError> {
        self.by_major.values().next_back().ok_or(PgError::NotFound)
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Install> {
        self.by_major.values()
    }

    fn add(&mut self, install: Install) {
        self.by_major.entry(install.major).or_insert(install);
    }
}

/// Why PostgreSQL cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PgError {
    /// There is none.
    #[error("no PostgreSQL server was found on this machine")]
    NotFound,
    /// A program is missing.
    #[error("{} has no `{program}`", bin_dir.display())]
    Incomplete {
        /// Where it was looked for.
        bin_dir: PathBuf,
        /// What is missing.
        program: &'static str,
    },
    /// It does not tell its version.
    #[error("cannot tell the version of {}: {why}", program.display())]
    Version {
        /// The `postgres` program.
        program: PathBuf,
        /// What went wrong.
        why: String,
    },
    /// It is too old or too new.
    #[error("PostgreSQL {version} in {} is not supported", bin_dir.display())]
    Unsupported {
        /// Where it is.
        bin_dir: PathBuf,
        /// Its version.
        version: String,
    },
    /// The snapshot's version is not installed.
    #[error("PostgreSQL {major} is not installed (found: {found})")]
    NoSuchMajor {
        /// The version that is needed.
        major: u32,
        /// The versions that are there.
        found: String,
    },
}

impl UserFacingError for PgError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::ControlPlane
    }

    fn sqlstate(&self) -> SqlState {
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoSuchMajor { major, .. } => {
                format!("Install it (Debian: `apt-get install postgresql-{major}`) or give its programs' directory with --pg-bin.")
            }
            Self::Unsupported { .. } => format!(
                "Versions {} to {} are supported.",
                SUPPORTED.start(),
                SUPPORTED.end()
            ),
            _ => "Install one (Debian: `apt-get install postgresql`) or give its programs' directory with --pg-bin.".to_owned(),
        })
    }
}

/// The directories worth a look, best first.
fn places() -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Ok(output) = Command::new("pg_config").arg("--bindir").stdin(Stdio::null()).output()
        && output.status.success()
    {
        places.push(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    if let Ok(versions) = std::fs::read_dir(DEBIAN_ROOT) {
        let mut dirs: Vec<_> = versions.flatten().map(|v| v.path().join("bin")).collect();
        dirs.sort();
        places.extend(dirs);
    }
    if let Some(path) = std::env::var_os("PATH") {
        places.extend(std::env::split_paths(&path));
    }
    places
}

/// Reads `postgres (PostgreSQL) 15.18 (Debian …)`; also `16beta1` and `18devel`.
fn parse_version(text: &str) -> Option<(String, u32)> {
    let version = text.split_once("(PostgreSQL) ")?.1.split_whitespace().next()?;
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    Some((version.to_owned(), version[..digits].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_distributions_print_them() {
        let debian = "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n";
        assert_eq!(parse_version(debian), Some(("15.18".into(), 15)));
        assert_eq!(parse_version("postgres (PostgreSQL) 18beta1"), Some(("18beta1".into(), 18)));
        assert_eq!(parse_version("postgres (EnterpriseDB)"), None);
        assert_eq!(parse_version(""), None);
    }

    #[test]
    fn an_explicit_directory_must_hold_a_server() {
        let dir = tempfile::tempdir().unwrap();
        let error = Installs::find(Some(dir.path())).unwrap_err();
        assert!(matches!(error, PgError::Incomplete { program: "postgres", .. }), "{error}");
        assert!(error.hint().unwrap().contains("--pg-bin"));
    }

    #[test]
    fn a_missing_major_names_what_is_there() {
        let mut installs = Installs::default();
        installs.add(Install { bin_dir: "/a".into(), version: "15.1".into(), major: 15 });
        installs.add(Install { bin_dir: "/b".into(), version: "15.2".into(), major: 15 });
        assert_eq!(installs.major(15).unwrap().bin_dir, Path::new("/a"));
        let error = installs.major(17).unwrap_err().to_string();
        assert_eq!(error, "PostgreSQL 17 is not installed (found: 15.1)");
    }
}
