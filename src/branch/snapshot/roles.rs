//! The roles that a dump names. They must be there before it is restored, or it fails; in a
//! branch they are names for policies and grants and nobody can log in as them.

use std::collections::BTreeSet;
use std::io::{self, BufRead};

/// Names of roles in the statements that dumps give owners and privileges with, except those that
/// the script makes itself.
pub fn named_in(script: impl BufRead) -> io::Result<BTreeSet<String>> {
    let mut roles = BTreeSet::new();
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
        collect(line, &mut roles, &mut made);
    }
    roles.retain(|role| !made.contains(role) && !is_reserved(role));
    Ok(roles)
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
    loop {
        text = text.trim_start();
        let rest = if let Some(quoted) = text.strip_prefix('"') {
            let Some(end) = quoted.find('"') else { return out };
            out.push(quoted[..end].to_owned());
            &quoted[end + 1..]
        } else {
            let word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
            let end = text.find(|c| !word(c)).unwrap_or(text.len());
            if end == 0 {
                return out;
            }
            out.push(text[..end].to_lowercase());
            &text[end..]
        };
        match rest.trim_start().strip_prefix(',') {
            Some(more) => text = more,
            None => return out,
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
        let roles: Vec<_> = named_in(script.as_bytes()).unwrap().into_iter().collect();
        assert_eq!(roles, ["Read Only", "alice", "app", "bob", "old_admin", "reporter"]);
    }
}
