//! The files that tell a server what it is: settings, who may log in, and as whom.
//!
//! They lie outside its data directory, where neither the server's user nor a superuser of the
//! database can write, and what matters most is given on the command line besides, which outranks
//! `ALTER SYSTEM` (manual, "Setting Parameters").

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The bootstrap superuser of every branch; nobody but postern's own system user becomes it.
pub const SUPERUSER: &str = "postern";

/// The roles that sessions of leases log in as, and the superuser. `postern_truncate` is
/// `postern_write` and may TRUNCATE as well, for leases whose policy grants that.
pub const ROLES: [&str; 5] =
    [SUPERUSER, "postern_read", "postern_write", "postern_truncate", "postern_migrate"];

/// The port in the name of the socket file; nothing listens on it.
pub const PORT: u16 = 5432;

/// What `sockaddr_un` leaves for a path without its NUL (manual page unix(7)).
const SUN_PATH: usize = 107;

/// Settings of a server whose data can be thrown away, in the manual's chapters' order.
///
/// A standby starts only when these are at least what they were when its snapshot was sealed
/// (manual, "Hot Standby", "Administrator's Overview"); so a sealing server uses them as well:
/// `max_connections`, `max_prepared_transactions`, `max_locks_per_transaction`,
/// `max_wal_senders`, `max_worker_processes`.
const DISPOSABLE: [(&str, &str); 30] = [
    ("shared_buffers", "32MB"),
    ("huge_pages", "off"),
    ("max_prepared_transactions", "0"),
    ("dynamic_shared_memory_type", "mmap"),
    ("max_worker_processes", "8"),
    ("bgwriter_lru_maxpages", "0"),
    ("bgwriter_delay", "10s"),
    ("wal_level", "replica"),
    ("fsync", "off"),
    // Off would lose the last seconds of commits when a server is killed; without fsync a commit
    // costs one write into the kernel.
    ("synchronous_commit", "on"),
    ("full_page_writes", "off"),
    ("wal_init_zero", "off"),
    ("wal_recycle", "off"),
    ("wal_buffers", "1MB"),
    ("wal_writer_delay", "10s"),
    ("min_wal_size", "32MB"),
    ("max_wal_size", "256MB"),
    ("checkpoint_timeout", "30min"),
    ("archive_mode", "off"),
    ("max_wal_senders", "0"),
    ("hot_standby", "on"),
    ("max_logical_replication_workers", "0"),
    ("autovacuum", "off"),
    ("log_destination", "stderr"),
    ("logging_collector", "off"),
    // Errors are the client's business and evidence's; an agent could fill the disk with them.
    ("log_min_messages", "log"),
    ("log_line_prefix", "%m [%p] "),
    ("update_process_title", "off"),
    ("lc_messages", "C"),
    ("max_locks_per_transaction", "64"),
];

/// Where a server's own files are and how it is set up.
#[derive(Debug, Clone)]
pub struct Config {
    /// The directory of the three files; made and owned by postern's user.
    pub dir: PathBuf,
    /// Where the socket is.
    pub socket_dir: PathBuf,
    /// The name in the process title.
    pub name: String,
    /// The server's major version.
    pub major: u32,
    /// How many connections it takes; three more for the superuser.
    pub max_connections: u32,
    /// Who may log in, from postern's system user alone.
    pub roles: Vec<String>,
    /// Further system users that may log in, each with the one role it may be: while a snapshot
    /// is restored, the servers' user as the restoring role.
    pub guests: Vec<(String, String)>,
    /// Settings on top of the profile: planner settings of the source and the like. Those that
    /// concern the wall are outranked.
    pub settings: BTreeMap<String, String>,
}

impl Config {
    /// The socket file; an error text when its path is longer than a socket's may be.
    pub fn socket(&self) -> Result<PathBuf, String> {
        let path = self.socket_dir.join(format!(".s.PGSQL.{PORT}"));
        let length = path.as_os_str().len();
        if length > SUN_PATH {
            return Err(format!(
                "the socket's path {} has {length} bytes, {SUN_PATH} are allowed",
                path.display()
            ));
        }
        Ok(path)
    }

    /// The text of `postgresql.conf`.
    pub fn postgresql_conf(&self) -> String {
        let mut text = String::from("# Written anew at each start; changes are lost.\n");
        let mut set = |name: &str, value: &str| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name} = {}", quote(value));
        };
        for (name, value) in DISPOSABLE {
            set(name, value);
        }
        set("max_connections", &(self.max_connections.saturating_add(3)).to_string());
        set("superuser_reserved_connections", "3");
        set("cluster_name", &self.name);
        if self.major >= 18 {
            // Three more idle processes per server otherwise.
            set("io_method", "sync");
        }
        for (name, value) in &self.settings {
            set(name, value);
        }
        text
    }

    /// The text of `pg_hba.conf`: postern's system user as one of the fixed roles, nobody else.
    /// Another branch's server runs as another system user than postern where postern is root.
    pub fn pg_hba_conf(&self) -> String {
        "local all all peer map=postern\n".to_owned()
    }

    /// The text of `pg_ident.conf`.
    pub fn pg_ident_conf(&self, own_user: &str) -> String {
        let own = self.roles.iter().map(|role| (own_user, role.as_str()));
        let guests = self.guests.iter().map(|(user, role)| (user.as_str(), role.as_str()));
        own.chain(guests).fold(String::new(), |mut text, (user, role)| {
            let _ = writeln!(text, "postern {} {}", ident_quote(user), ident_quote(role));
            text
        })
    }

    /// What goes on the command line, where nothing outranks it.
    pub fn arguments(&self, data_dir: &Path) -> Vec<(String, String)> {
        let file = |name: &str| self.dir.join(name).to_string_lossy().into_owned();
        let mut arguments = vec![
            ("data_directory", data_dir.to_string_lossy().into_owned()),
            ("config_file", file("postgresql.conf")),
            ("hba_file", file("pg_hba.conf")),
            ("ident_file", file("pg_ident.conf")),
            ("listen_addresses", String::new()),
            ("port", PORT.to_string()),
            ("unix_socket_directories", quote_list_item(&self.socket_dir.to_string_lossy())),
            ("unix_socket_permissions", "0700".to_owned()),
            ("external_pid_file", String::new()),
            ("primary_conninfo", String::new()),
            ("primary_slot_name", String::new()),
            ("restore_command", String::new()),
            ("archive_cleanup_command", String::new()),
            ("recovery_end_command", String::new()),
            ("archive_command", String::new()),
            ("ssl", "off".to_owned()),
            ("max_wal_senders", "0".to_owned()),
            ("max_logical_replication_workers", "0".to_owned()),
            ("logging_collector", "off".to_owned()),
            ("log_destination", "stderr".to_owned()),
            ("shared_preload_libraries", String::new()),
            ("restart_after_crash", "on".to_owned()),
        ];
        if self.major >= 15 {
            arguments.push(("archive_library", String::new()));
        }
        if self.major >= 17 {
            arguments.push(("allow_alter_system", "off".to_owned()));
            arguments.push(("summarize_wal", "off".to_owned()));
        }
        arguments.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// A value of `postgresql.conf` (manual, "Parameter Interaction via the Configuration File").
fn quote(value: &str) -> String {
    format!(
        "'{}'",
        value.replace('\\', "\\\\").replace('\'', "''").replace(['\n', '\r', '\0'], " ")
    )
}

/// An item of a list-valued setting, so that a comma in a path does not split it.
fn quote_list_item(value: &str) -> String {
    format!("\"{}\"", value.replace('"', "\"\""))
}

/// A name in `pg_ident.conf`; quoted, it is never a pattern or a keyword.
fn ident_quote(name: &str) -> String {
    format!("\"{}\"", name.replace(['"', '\n', '\r', '\0'], ""))
}

/// The settings a branch may take over from its source: they shape plans and text, and reach
/// neither files nor networks nor libraries.
pub const CARRIED: [&str; 40] = [
    "bytea_output",
    "constraint_exclusion",
    "cpu_index_tuple_cost",
    "cpu_operator_cost",
    "cpu_tuple_cost",
    "cursor_tuple_fraction",
    "datestyle",
    "default_statistics_target",
    "default_text_search_config",
    "default_transaction_isolation",
    "effective_cache_size",
    "effective_io_concurrency",
    "enable_partitionwise_aggregate",
    "enable_partitionwise_join",
    "from_collapse_limit",
    "geqo",
    "geqo_threshold",
    "hash_mem_multiplier",
    "intervalstyle",
    "jit",
    "jit_above_cost",
    "jit_inline_above_cost",
    "jit_optimize_above_cost",
    "join_collapse_limit",
    "lc_monetary",
    "lc_numeric",
    "lc_time",
    "maintenance_work_mem",
    "max_parallel_maintenance_workers",
    "max_parallel_workers",
    "max_parallel_workers_per_gather",
    "min_parallel_index_scan_size",
    "min_parallel_table_scan_size",
    "parallel_setup_cost",
    "parallel_tuple_cost",
    "plan_cache_mode",
    "random_page_cost",
    "seq_page_cost",
    "timezone",
    "work_mem",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config {
            dir: "/d/branches/b/conf".into(),
            socket_dir: "/d/s/b".into(),
            name: "b".into(),
            major: 15,
            max_connections: 100,
            roles: ROLES.map(str::to_owned).to_vec(),
            guests: Vec::new(),
            settings: BTreeMap::from([("work_mem".to_owned(), "4'; x\n\\".to_owned())]),
        }
    }

    #[test]
    fn a_value_cannot_leave_its_quotes() {
        assert!(config().postgresql_conf().ends_with("work_mem = '4''; x \\\\'\n"));
    }

    #[test]
    fn only_postern_may_log_in_and_only_as_its_roles() {
        let ident = config().pg_ident_conf("root");
        assert_eq!(ident.lines().count(), ROLES.len());
        assert!(ident.starts_with("postern \"root\" \"postern\"\n"), "{ident}");
    }

    #[test]
    fn a_long_socket_path_is_refused_with_its_length() {
        let mut config = config();
        config.socket_dir = format!("/{}", "x".repeat(93)).into();
        assert!(config.socket().unwrap_err().contains("has 108 bytes, 107 are allowed"));
        config.socket_dir = format!("/{}", "x".repeat(92)).into();
        assert!(config.socket().is_ok());
    }

    #[test]
    fn carried_settings_are_sorted_and_harmless() {
        assert!(CARRIED.is_sorted());
        for name in CARRIED {
            assert!(!name.contains("command") && !name.contains("librar") && !name.contains("dir"));
        }
    }
}
