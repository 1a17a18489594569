//! Settings: which of them a session may move.
//!
//! Source: PostgreSQL manual, chapter 20 "Server Configuration" and 24.3 "Character Set Support".

use crate::gate::class::Classes;

/// What setting `name` to `value` needs. `None` as the value stands for DEFAULT and RESET;
/// `Some(None)` for a value that cannot be read.
pub(crate) fn needs(name: &str, value: Option<Option<&str>>) -> Classes {
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        "standard_conforming_strings" => match value {
            None => Classes::SESSION,
            Some(value) if value.is_some_and(is_true) => Classes::SESSION,
            Some(_) => Classes::ADMIN,
        },
        "client_encoding" => match value {
            None => Classes::SESSION,
            Some(value) if value.is_some_and(is_safe_encoding) => Classes::SESSION,
            Some(_) => Classes::ADMIN,
        },
        // DEFAULT takes them to what the server was started with, which may be READ WRITE.
        "transaction_read_only" | "default_transaction_read_only" => match value {
            Some(Some(value)) if is_true(value) => Classes::SESSION,
            _ => Classes::SESSION.and(Classes::WRITE),
        },
        _ if is_guarded(&name) => Classes::ADMIN,
        _ => Classes::SESSION,
    }
}

/// Settings that change who one is, what code is loaded, or what the gate sees.
fn is_guarded(name: &str) -> bool {
    matches!(
        name,
        "role"
            | "session_authorization"
            | "is_superuser"
            | "session_preload_libraries"
            | "local_preload_libraries"
            | "shared_preload_libraries"
            | "dynamic_library_path"
            | "extension_control_path"
            | "jit_provider"
            | "session_replication_role"
            | "allow_system_table_mods"
            | "backslash_quote"
            | "ignore_system_indexes"
            | "zero_damaged_pages"
            | "ignore_checksum_failure"
            | "event_triggers"
            | "createrole_self_grant"
    ) || ["auto_explain.", "pgaudit.", "pg_stat_statements."].iter().any(|p| name.starts_with(p))
}

/// How the server reads a boolean: any case, unique prefixes (`parse_bool_with_len`).
pub(crate) fn is_true(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    !value.is_empty()
        && (value == "1"
            || value == "on"
            || "true".starts_with(&value)
            || "yes".starts_with(&value))
}

/// The opposite; a value may be neither.
pub(crate) fn is_false(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    value == "0"
        || (value.len() > 1 && "off".starts_with(&value))
        || (!value.is_empty() && ("false".starts_with(&value) || "no".starts_with(&value)))
}

/// Encodings in which no byte below 0x80 is part of a longer character, so that what looks like a
/// quote or a backslash is one. BIG5, GBK, GB18030, SJIS, SHIFT_JIS_2004, UHC and JOHAB are not
/// among them.
pub(crate) fn is_safe_encoding(name: &str) -> bool {
    // The server compares letters and digits only (`clean_encoding_name`).
    let clean: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    match clean.as_str() {
        "utf8" | "unicode" | "sqlascii" | "muleinternal" | "koi8" | "koi8r" | "koi8u" | "alt"
        | "win" | "tcvn" | "tcvn5712" | "vscii" | "abc" | "euccn" | "eucjp" | "eucjis2004"
        | "euckr" | "euctw" => true,
        _ => {
            let number = |prefix: &str| clean.strip_prefix(prefix).and_then(|n| n.parse().ok());
            let latin: Option<u32> = number("latin");
            let iso: Option<u32> = number("iso8859");
            let windows: Option<u32> = number("windows").or_else(|| number("win"));
            latin.is_some_and(|n| (1..=10).contains(&n))
                || iso.is_some_and(|n| (1..=16).contains(&n))
                || windows.is_some_and(|n| matches!(n, 866 | 874 | 1250..=1258))
        }
    }
}
