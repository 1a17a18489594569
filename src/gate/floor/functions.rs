//! Functions that do more than their caller's SELECT says.
//!
//! Judged by the last part of the name alone: who makes a harmless function of such a name in a
//! schema of his own is asked for more than he needs, and that is the safe side. Sources:
//! PostgreSQL manual, chapter 9 ("System Administration Functions", "Sequence Manipulation
//! Functions") and 35.4 ("Server-Side Functions"), `pg_proc.dat`, and the contrib modules' pages.

use crate::gate::class::Classes;

/// What a call of a function means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// It needs these classes.
    Needs(Classes),
    /// SET by another name; its arguments tell what it needs.
    SetConfig,
    /// Opens a large object, for reading or for writing.
    LoOpen,
    /// Runs the SQL text in its arguments.
    RunsText,
    /// Reads tables that its caller's text names only in a string, or not at all.
    HidesNames,
}

const WRITE: Option<Effect> = Some(Effect::Needs(Classes::WRITE));
const MIGRATE: Option<Effect> = Some(Effect::Needs(Classes::MIGRATE));
const ADMIN: Option<Effect> = Some(Effect::Needs(Classes::ADMIN));

/// What a call of the function with this name means, beyond reading.
pub(super) fn effect(name: &[u8]) -> Option<Effect> {
    match name {
        b"set_config" => Some(Effect::SetConfig),
        b"lo_open" => Some(Effect::LoOpen),
        b"query_to_xml"
        | b"query_to_xmlschema"
        | b"query_to_xml_and_xmlschema"
        | b"ts_stat"
        | b"crosstab"
        | b"crosstab2"
        | b"crosstab3"
        | b"crosstab4"
        | b"xpath_table" => Some(Effect::RunsText),

        b"table_to_xml"
        | b"table_to_xmlschema"
        | b"table_to_xml_and_xmlschema"
        | b"cursor_to_xml"
        | b"cursor_to_xmlschema"
        | b"schema_to_xml"
        | b"schema_to_xmlschema"
        | b"schema_to_xml_and_xmlschema"
        | b"database_to_xml"
        | b"database_to_xmlschema"
        | b"database_to_xml_and_xmlschema" => Some(Effect::HidesNames),

        b"nextval" | b"setval" | b"pg_notify" | b"lo_creat" | b"lo_create" | b"lo_from_bytea"
        | b"lo_put" | b"lowrite" | b"lo_unlink" | b"lo_truncate" | b"lo_truncate64"
        | b"lo_manage" => WRITE,

        // Maintenance, as VACUUM and ANALYZE are, and what only extension scripts do.
        b"brin_summarize_new_values"
        | b"brin_summarize_range"
        | b"brin_desummarize_range"
        | b"gin_clean_pending_list"
        | b"pg_extension_config_dump"
        | b"pg_truncate_visibility_map"
        | b"pg_restore_relation_stats"
        | b"pg_restore_attribute_stats"
        | b"pg_restore_extended_stats"
        | b"pg_clear_relation_stats"
        | b"pg_clear_attribute_stats"
        | b"pg_clear_extended_stats"
        | b"pg_set_relation_stats"
        | b"pg_set_attribute_stats" => MIGRATE,

        // Files and programs.
        b"pg_read_file"
        | b"pg_read_binary_file"
        | b"pg_read_file_old"
        | b"pg_stat_file"
        | b"pg_current_logfile"
        | b"lo_import"
        | b"lo_export"
        | b"pg_file_read"
        | b"pg_file_write"
        | b"pg_file_rename"
        | b"pg_file_unlink"
        | b"pg_file_sync"
        | b"pg_file_length"
        | b"pg_logdir_ls"
        | b"pg_hba_file_rules"
        | b"pg_ident_file_mappings"
        | b"pg_show_all_file_settings"
        | b"pg_config"
        | b"get_raw_page"
        | b"heap_force_kill"
        | b"heap_force_freeze"
        | b"query_export_to_s3"
        | b"table_import_from_s3" => ADMIN,

        // Configuration, backup, recovery, the write-ahead log, statistics of the whole server.
        b"pg_reload_conf"
        | b"pg_rotate_logfile"
        | b"pg_rotate_logfile_old"
        | b"pg_logfile_rotate"
        | b"pg_switch_wal"
        | b"pg_switch_xlog"
        | b"pg_create_restore_point"
        | b"pg_start_backup"
        | b"pg_stop_backup"
        | b"pg_backup_start"
        | b"pg_backup_stop"
        | b"pg_promote"
        | b"pg_wal_replay_pause"
        | b"pg_wal_replay_resume"
        | b"pg_log_standby_snapshot"
        | b"pg_log_backend_memory_contexts"
        | b"pg_get_process_memory_contexts"
        | b"pg_import_system_collations"
        | b"pg_stat_statements_reset"
        | b"pg_nextoid"
        | b"pg_stop_making_pinned_objects"
        | b"pg_control_system"
        | b"pg_control_checkpoint"
        | b"pg_control_recovery"
        | b"pg_control_init" => ADMIN,

        // Other sessions.
        b"pg_terminate_backend" | b"pg_cancel_backend" => ADMIN,

        // Other servers, jobs that run elsewhere or later.
        b"postgres_fdw_disconnect"
        | b"postgres_fdw_disconnect_all"
        | b"postgres_fdw_get_connections"
        | b"http_get"
        | b"http_post"
        | b"http_put"
        | b"http_patch"
        | b"http_delete"
        | b"http_head"
        | b"pg_background_launch"
        | b"schedule_in_database" => ADMIN,

        // Replication.
        b"pg_create_physical_replication_slot"
        | b"pg_create_logical_replication_slot"
        | b"pg_drop_replication_slot"
        | b"pg_copy_physical_replication_slot"
        | b"pg_copy_logical_replication_slot"
        | b"pg_replication_slot_advance"
        | b"pg_sync_replication_slots"
        | b"pg_logical_emit_message"
        | b"pg_show_replication_origin_status" => ADMIN,

        _ if [
            &b"pg_ls_"[..],
            b"dblink",
            b"pg_logical_slot_",
            b"pg_replication_origin_",
            b"pg_stat_reset",
            b"binary_upgrade_",
        ]
        .iter()
        .any(|prefix| name.starts_with(prefix)) =>
        {
            ADMIN
        }
        _ => None,
    }
}

/// The built-in functions that clients call by FunctionCall, all of libpq's large-object interface
/// (`pg_proc.dat`; numbers below 16384 never change). What is not here is refused: a number says
/// nothing about what would run.
pub(crate) fn by_oid(oid: u32) -> Option<(&'static str, Classes)> {
    Some(match oid {
        952 => ("lo_open", Classes::WRITE),
        953 => ("lo_close", Classes::READ),
        954 => ("loread", Classes::READ),
        955 => ("lowrite", Classes::WRITE),
        956 => ("lo_lseek", Classes::READ),
        957 => ("lo_creat", Classes::WRITE),
        715 => ("lo_create", Classes::WRITE),
        958 => ("lo_tell", Classes::READ),
        964 => ("lo_unlink", Classes::WRITE),
        1004 => ("lo_truncate", Classes::WRITE),
        3170 => ("lo_lseek64", Classes::READ),
        3171 => ("lo_tell64", Classes::READ),
        3172 => ("lo_truncate64", Classes::WRITE),
        _ => return None,
    })
}

/// Languages that keep what is written in them away from the server's files and memory.
pub(super) fn is_trusted_language(name: &[u8]) -> bool {
    let trusted: [&[u8]; 9] = [
        b"sql",
        b"plpgsql",
        b"plperl",
        b"pltcl",
        b"plv8",
        b"plcoffee",
        b"plls",
        b"plrust",
        b"pllua",
    ];
    trusted.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Extensions that open a way to files, programs or other servers.
pub(super) fn is_dangerous_extension(name: &[u8]) -> bool {
    let names: [&[u8]; 21] = [
        b"dblink",
        b"adminpack",
        b"pageinspect",
        b"pg_surgery",
        b"pg_walinspect",
        b"pg_cron",
        b"pg_net",
        b"http",
        b"pgsql-http",
        b"aws_s3",
        b"aws_lambda",
        b"pg_background",
        b"plsh",
        b"pglogical",
        b"plpythonu",
        b"plpython2u",
        b"plpython3u",
        b"plperlu",
        b"pltclu",
        b"pljavau",
        b"dlm",
    ];
    let suffixes: [&[u8]; 6] =
        [b"_fdw", b"_plpython3u", b"_plpython2u", b"_plpythonu", b"_plperlu", b"_pltclu"];
    names.contains(&name) || suffixes.iter().any(|suffix| name.ends_with(suffix))
}
