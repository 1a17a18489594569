//! Statements out of psql scripts.

use std::path::Path;

/// All statements that PostgreSQL parses in the `.sql` files under a directory.
pub fn read(dir: &Path, out: &mut Vec<String>) -> std::io::Result<()> {
    let mut entries: Vec<_> = std::fs::read_dir(dir)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::path);
    for entry in entries {
        let path = entry.path();
        if path.is_dir() {
            read(&path, out)?;
        } else if path.extension().is_some_and(|e| e == "sql") {
            let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
            statements(&text, out);
        }
    }
    Ok(())
}

/// Lines are gathered until what is gathered ends with a semicolon and parses. If it does not, the
/// newest statement alone is tried, so that one error does not swallow what follows.
fn statements(text: &str, out: &mut Vec<String>) {
    let mut gathered = String::new();
    let mut newest = String::new();
    let mut in_copy = false;
    for line in text.lines() {
        if in_copy {
            in_copy = line != "\\.";
            continue;
        }
        if line.starts_with('\\') {
            gathered.clear();
            newest.clear();
            continue;
        }
        let line = line.split("\\g").next().unwrap_or(line).replace("\\;", ";");
        for buffer in [&mut gathered, &mut newest] {
            buffer.push_str(&line);
            buffer.push('\n');
        }
        if !line.trim_end().ends_with(';') {
            continue;
        }
        let copies = newest.trim_start().get(..4).is_some_and(|w| w.eq_ignore_ascii_case("copy"))
            && newest.to_ascii_lowercase().contains("from stdin");
        let whole = parses(&gathered);
        if whole || parses(&newest) || gathered.lines().count() > 300 {
            let text = if whole { &gathered } else { &newest };
            if parses(text) {
                out.push(text.trim().to_owned());
            }
            gathered.clear();
        }
        in_copy = copies;
        newest.clear();
    }
}

fn parses(text: &str) -> bool {
    !text.contains('\0') && pg_query::parse(text, pg_query::ParserOptions::DEFAULT).is_ok_and(|r| !r.protobuf.stmts.is_empty())
}
