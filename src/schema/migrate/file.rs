//! Migration files and their order.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use super::super::fact::Digest;
use super::super::split::{self, Statement};

/// The largest file that is read, in bytes.
const LARGEST: u64 = 64 << 20;

/// A comment line that makes a file run statement by statement, each committed on its own.
const NO_TRANSACTION: &str = "-- postern: no-transaction";

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationFile {
    /// Its name in the directory.
    pub name: String,
    /// Its content.
    pub sql: String,
    /// The SHA-256 of its content.
    pub checksum: Digest,
}

impl MigrationFile {
    /// A file of this name and content.
    pub fn new(name: String, sql: String) -> Self {
        let checksum = Digest::of(sql.as_bytes());
        Self { name, sql, checksum }
    }

    /// Does it run in one transaction? It does unless a line among the blank and comment lines at
    /// its head says `-- postern: no-transaction`.
    pub fn in_transaction(&self) -> bool {
        !self
            .sql
            .lines()
            .map(str::trim)
            .take_while(|line| line.is_empty() || line.starts_with("--"))
            .any(|line| line.eq_ignore_ascii_case(NO_TRANSACTION))
    }

    /// The line, counted from 1, that a byte of the file is on.
    pub(super) fn line(&self, byte: usize) -> usize {
        1 + self.sql.bytes().take(byte).filter(|b| *b == b'\n').count()
    }

    /// Its statements, if they can be sent one by one.
    pub(super) fn statements(&self) -> Result<Vec<Statement<'_>>, BadFile> {
        let statements = split::split(&self.sql).map_err(|unterminated| BadFile::Unterminated {
            file: self.name.clone(),
            what: unterminated.what,
            line: self.line(unterminated.start),
        })?;
        for statement in &statements {
            let words = split::words(statement.text, usize::MAX);
            let refused = match words.first().map(String::as_str) {
                _ if statement.text.starts_with('\\') => "a psql command",
                Some("BEGIN" | "COMMIT" | "END" | "ROLLBACK" | "ABORT" | "START")
                    if !(words[0] == "ROLLBACK" && words.iter().any(|w| w == "TO")) =>
                {
                    "transaction control"
                }
                Some("PREPARE") if words.get(1).is_some_and(|w| w == "TRANSACTION") => {
                    "transaction control"
                }
                Some("COPY") if words.iter().any(|w| w == "STDIN" || w == "STDOUT") => {
                    "COPY with rows from or to the client"
                }
                _ => continue,
            };
            return Err(BadFile::Refused {
                file: self.name.clone(),
                line: self.line(statement.start),
                what: refused,
            });
        }
        Ok(statements)
    }
}

/// The files `*.sql` of a directory in the order they are applied: by the number their names begin
/// with, then by name, byte by byte. Names that begin with a dot are left out.
pub fn load(dir: &Path) -> Result<Vec<MigrationFile>, BadFile> {
    let unreadable = |error| BadFile::Unreadable { path: dir.to_owned(), error };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_none_or(|extension| extension != "sql") {
            continue;
        }
        let Some(name) = path.file_name().and_then(|name| name.to_str()).map(str::to_owned) else {
            return Err(BadFile::NotText(path));
        };
        if !name.starts_with('.') {
            let sql = read(&path)?;
            files.push(MigrationFile::new(name, sql));
        }
    }
    files.sort_by(|a, b| in_order(&a.name, &b.name));
    Ok(files)
}

fn read(path: &Path) -> Result<String, BadFile> {
    let unreadable = |error| BadFile::Unreadable { path: path.to_owned(), error };
    // A pipe or a device would be read for ever.
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(BadFile::NotAFile(path.to_owned()));
    }
    if metadata.len() > LARGEST {
        return Err(BadFile::TooLarge(path.to_owned()));
    }
    let text = String::from_utf8(std::fs::read(path).map_err(unreadable)?)
        .map_err(|_| BadFile::NotText(path.to_owned()))?;
    // The server cannot receive a zero byte.
    if text.contains('\0') { Err(BadFile::NotText(path.to_owned())) } else { Ok(text) }
}

/// The order of files.
pub(super) fn in_order(a: &str, b: &str) -> Ordering {
    let number = |name: &str| {
        let digits = name.len() - name.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number = name[..digits].trim_start_matches('0');
        // Of numbers without leading zeros, the longer one is larger.
        (digits == 0, number.len(), number.to_owned())
    };
    number(a).cmp(&number(b)).then_with(|| a.cmp(b))
}

/// A migration directory or file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadFile {
    /// It cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// Not UTF-8, or with a zero byte.
    #[error("the migration file {} is not UTF-8 text", .0.display())]
    NotText(PathBuf),
    /// A directory, pipe or device.
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// Larger than 64 MiB.
    #[error("the migration file {} is larger than 64 MiB", .0.display())]
    TooLarge(PathBuf),
    /// It ends inside a string, quoted name or comment.
    #[error("{file}:{line}: the {what} that begins here does not end")]
    Unterminated {
        /// The file.
        file: String,
        /// What does not end.
        what: &'static str,
        /// Where it begins.
        line: usize,
    },
    /// It has a statement that a migration file cannot have.
    #[error("{file}:{line}: {what} is not possible in a migration file")]
    Refused {
        /// The file.
        file: String,
        /// The line of the statement.
        line: usize,
        /// What it is.
        what: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_in_their_order() {
        let mut names =
            ["b.sql", "10_x.sql", "9_x.sql", "0002_y.sql", "2_z.sql", "a.sql", "20260101.sql"];
        names.sort_by(|a, b| in_order(a, b));
        assert_eq!(
            names,
            ["0002_y.sql", "2_z.sql", "9_x.sql", "10_x.sql", "20260101.sql", "a.sql", "b.sql"]
        );
    }

    #[test]
    fn only_the_head_of_a_file_can_end_its_transaction() {
        let file = |sql: &str| MigrationFile::new("a.sql".to_owned(), sql.to_owned());
        assert!(!file("-- why\n\n  -- Postern: no-transaction\nselect 1").in_transaction());
        assert!(file("select 1;\n-- postern: no-transaction").in_transaction());
        assert!(file("select '\n-- postern: no-transaction'").in_transaction());
    }

    #[test]
    fn what_cannot_be_sent_is_refused_with_its_line() {
        let said = |sql: &str| {
            let file = MigrationFile::new("a.sql".to_owned(), sql.to_owned());
            file.statements().map(|s| s.len()).map_err(|error| error.to_string())
        };
        assert_eq!(
            said("select 1;\n\ncommit"),
            Err("a.sql:3: transaction control is not possible in a migration file".to_owned())
        );
        assert!(said("\\d").unwrap_err().contains("psql command"));
        assert!(said("copy t from stdin").unwrap_err().contains("COPY"));
        assert!(said("prepare transaction 'x'").is_err());
        assert!(said("select 1;\n select 'x").unwrap_err().starts_with("a.sql:2: the string"));
        assert_eq!(said("savepoint a; rollback to a; prepare p as select 1"), Ok(3));
    }
}
