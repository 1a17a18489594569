//! What a person or a program sees: data on standard output, messages on standard error.

use std::io::{self, Write};

use serde::Serialize;

use super::CliError;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Tables and sentences.
    Text,
    /// One JSON value.
    Json,
}

impl Output {
    /// Prints `value` as JSON, or calls `text` for a person's form of it.
    pub fn print<T: Serialize + ?Sized>(
        self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), CliError> {
        let mut out = match self {
            Self::Json => serde_json::to_string_pretty(value).map_err(CliError::broken)?,
            Self::Text => text(value),
        };
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        write_stdout(out.as_bytes())
    }

    /// Tells the person something that is no data.
    pub fn note(self, message: &str) {
        if self == Self::Text {
            eprintln!("{message}");
        }
    }
}

/// Writes to standard output; a closed pipe (`… | head`) is no error.
pub fn write_stdout(bytes: &[u8]) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CliError::broken(error)),
        _ => Ok(()),
    }
}

/// A table with a head line and columns as wide as their widest cell.
pub fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let mut out = String::new();
    let mut line = |cells: [&str; N]| {
        let mut text = String::new();
        for (cell, width) in cells.into_iter().zip(widths) {
            text.push_str(cell);
            text.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
        }
        out.push_str(text.trim_end());
        out.push('\n');
    };
    line(head);
    for row in rows {
        line(std::array::from_fn(|column| row[column].as_str()));
    }
    out
}

/// A number of bytes for a person: `1.5 GiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut scaled = count;
    while scaled >= 10 * 1024 && unit + 1 < UNITS.len() {
        scaled /= 1024;
        unit += 1;
    }
    format!("{scaled} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_aligns_its_columns() {
        let rows = [["shop".to_owned(), "1".to_owned()], ["ü".to_owned(), "22".to_owned()]];
        assert_eq!(table(["NAME", "N"], &rows), "NAME  N\nshop  1\nü     22\n");
    }

    #[test]
    fn bytes_are_scaled() {
        assert_eq!(bytes(900), "900 B");
        assert_eq!(bytes(48 * 1024 * 1024), "48 MiB");
    }
}
