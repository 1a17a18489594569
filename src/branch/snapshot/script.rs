//! What a dump names that must be there before it is restored: roles, which in a branch are names
//! for policies and grants that nobody can log in as, and databases with their locale.

use std::collections::BTreeSet;
use std::io::{self, BufRead};

/// What was found in a script.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    /// Roles that owners and privileges are given to, except those that the script makes itself.
    pub(super) roles: BTreeSet<String>,
    /// Databases that the script makes, each with what follows its name.
    pub(super) databases: Vec<(String, String)>,
    /// Settings that the script gives its database: what follows the name in `ALTER DATABASE`.
    pub(super) settings: Vec<String>,
}

/// Reads a script by `pg_dump`, `pg_dumpall` or `pg_restore`. Rows are passed over.
pub(super) fn named_in(script: impl BufRead) -> io::Result<Named> {
    let mut found = Named::default();
    let mut made = BTreeSet::new();
    let mut in_copy = false;
    for line in script.split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end();
        if in_copy {
            in_copy = line != "\\.";
            continue;
        }
        if line.starts_with("COPY ") && line.ends_with("FROM stdin;") {
            in_copy = true;
            continue;
        }
        if let Some(rest) = line.strip_prefix("CREATE DATABASE ") {
            found.databases.extend(name_and_rest(rest));
        } else if let Some(rest) = line.strip_prefix("ALTER DATABASE ") {
            let rest = name_and_rest(rest).map(|(_, rest)| rest);
            found.settings.extend(rest.filter(|rest| rest.starts_with("SET ")));
        }
        collect(line, &mut found.roles, &mut made);
    }
    found.roles.retain(|role| !made.contains(role) && !is_reserved(role));
    Ok(found)
}

/// The name at the beginning of a line and what follows it, without the semicolon.
fn name_and_rest(line: &str) -> Option<(String, String)> {
    let (name, rest) = name(line)?;
    Some((name, rest.trim().trim_end_matches(';').to_owned()))
}

fn collect(line: &str, roles: &mut BTreeSet<String>, made: &mut BTreeSet<String>) {
    let after = |mark: &str| line.find(mark).map(|at| &line[at + mark.len()..]);
    for kind in ["CREATE ROLE ", "CREATE USER ", "CREATE GROUP "] {
        if let Some(rest) = line.strip_prefix(kind).filter(|rest| !rest.starts_with("MAPPING ")) {
            made.extend(names(rest).into_iter().take(1));
        }
    }
    if line.starts_with("ALTER ") {
        if let Some(rest) = after(" OWNER TO ") {
            roles.extend(names(rest));
        }
        if let Some(rest) = after(" FOR ROLE ") {
            roles.extend(names(rest));
        }
    }
    if line.starts_with("CREATE SCHEMA ")
        && let Some(rest) = after(" AUTHORIZATION ")
    {
        roles.extend(names(rest));
    }
    if line.starts_with("CREATE POLICY ")
        && let Some(rest) = after(" TO ")
    {
        roles.extend(names(rest));
    }
    if let Some(rest) = line.strip_prefix("SET SESSION AUTHORIZATION ") {
        roles.extend(names(rest.trim_matches('\'')));
    }
    let grants = line.starts_with("GRANT ") || line.contains(" GRANT ");
    let revokes = line.starts_with("REVOKE ") || line.contains(" REVOKE ");
    // The last one counts: `GRANT … ON FUNCTION f(to integer) TO role`.
    for (applies, mark) in [(grants, " TO "), (revokes, " FROM ")] {
        if applies && let Some(at) = line.rfind(mark) {
            roles.extend(names(&line[at + mark.len()..]));
        }
    }
}

/// A list of identifiers, up to what is none.
fn names(mut text: &str) -> Vec<String> {
    let mut out = Vec::new();
    while let Some((found, rest)) = name(text) {
        out.push(found);
        match rest.trim_start().strip_prefix(',') {
            Some(more) => text = more,
            None => break,
        }
    }
    out
}

/// An identifier, quoted or not, and what follows it.
fn name(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start();
    let Some(quoted) = text.strip_prefix('"') else {
        let word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let end = text.find(|c| !word(c)).unwrap_or(text.len());
        return (end > 0).then(|| (text[..end].to_lowercase(), &text[end..]));
    };
    let mut found = String::new();
    let mut rest = quoted;
    loop {
        let end = rest.find('"')?;
        found.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        // Two of them stand for one.
        match rest.strip_prefix('"') {
            Some(more) => {
                found.push('"');
                rest = more;
            }
            None => return Some((found, rest)),
        }
    }
}

fn is_reserved(role: &str) -> bool {
    matches!(role, "public" | "current_user" | "session_user" | "current_role" | "none" | "default")
        || role.starts_with("pg_")
        || role.starts_with("postern")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_found_where_dumps_name_them() {
        let script = "\
ALTER TABLE public.t OWNER TO app;
GRANT SELECT,INSERT ON TABLE public.t TO \"Read Only\";
GRANT ALL ON FUNCTION public.f(\"from\" text) TO PUBLIC;
REVOKE ALL ON SCHEMA public FROM old_admin;
ALTER DEFAULT PRIVILEGES FOR ROLE app IN SCHEMA public GRANT SELECT ON TABLES TO reporter;
CREATE POLICY mine ON public.t TO alice, bob USING ((id = 1));
CREATE ROLE made;
ALTER TABLE public.t OWNER TO made;
COPY public.t (a) FROM stdin;
GRANT ALL TO data;
\\.
ALTER TABLE t RENAME TO other;
";
        let named = named_in(script.as_bytes()).unwrap();
        let roles: Vec<_> = named.roles.into_iter().collect();
        assert!(named.databases.is_empty() && named.settings.is_empty());
        assert_eq!(roles, ["Read Only", "alice", "app", "bob", "old_admin", "reporter"]);
    }

    #[test]
    fn a_database_is_found_with_its_locale_and_settings() {
        let script = "\
CREATE DATABASE \"my \"\"shop\" WITH TEMPLATE = template0 ENCODING = 'UTF8' LOCALE = 'C';
ALTER DATABASE \"my \"\"shop\" OWNER TO app;
ALTER DATABASE \"my \"\"shop\" SET search_path TO 'a', 'b';
\\connect -reuse-previous=on \"dbname='my \"\"shop'\"
";
        let named = named_in(script.as_bytes()).unwrap();
        let options = "WITH TEMPLATE = template0 ENCODING = 'UTF8' LOCALE = 'C'";
        assert_eq!(named.databases, [("my \"shop".to_owned(), options.to_owned())]);
        assert_eq!(named.settings, ["SET search_path TO 'a', 'b'"]);
        assert!(named.roles.contains("app"));
    }
}
