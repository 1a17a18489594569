//! The SQL that reads facts, made from the list of catalogs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::catalogs::{Catalog, Column, Rows};

/// The columns a server's catalog has, each with the name of its type.
pub(super) type Present = BTreeMap<String, String>;

/// A query for the facts of one catalog.
#[derive(Debug)]
pub(super) struct FactQuery {
    pub(super) catalog: &'static Catalog,
    /// Selects object, part, extension, and the values of `facts` as an array of text.
    pub(super) sql: String,
    /// The column each value comes from.
    pub(super) facts: Vec<&'static Column>,
}

/// Settings under which the server prints definitions, for one transaction.
///
/// Only the server's own functions and operators are found under this search path; temporary
/// objects, which are otherwise looked up first, come last.
pub(super) const PINNED: &str = "
    SET LOCAL search_path = pg_catalog, pg_temp;
    SET LOCAL statement_timeout = '120s';
    SET LOCAL lock_timeout = '10s';
    SET LOCAL client_min_messages = error;
    SET LOCAL quote_all_identifiers = off;
    SET LOCAL standard_conforming_strings = on;
    SET LOCAL escape_string_warning = off;
    SET LOCAL DateStyle = 'ISO, MDY';
    SET LOCAL IntervalStyle = postgres;
    SET LOCAL TimeZone = 'UTC';
    SET LOCAL extra_float_digits = 1;
    SET LOCAL bytea_output = hex;
    SET LOCAL xmlbinary = base64;
    SET LOCAL xmloption = content;
    SET LOCAL lc_monetary = 'C';
    SET LOCAL array_nulls = on;
    SET LOCAL jit = off;
    SET LOCAL max_parallel_workers_per_gather = 0;";

/// The roles that count: those that own, are granted, or are named by something in this database,
/// and, step by step, what they are members of and who is a member of them.
const RELEVANT_ROLES: &str = "WITH RECURSIVE relevant_role(role) AS (
    SELECT s.refobjid FROM pg_shdepend s, pg_database d
    WHERE d.datname = current_database() AND s.refclassid = 'pg_authid'::regclass
      AND (s.dbid = d.oid OR s.dbid = 0 AND s.classid = 'pg_database'::regclass
           AND s.objid = d.oid)
      AND NOT pg_get_userbyid(s.refobjid) = ANY (ignored_roles)
    UNION
    SELECT CASE m.member WHEN r.role THEN m.roleid ELSE m.member END
    FROM pg_auth_members m JOIN relevant_role r ON r.role IN (m.member, m.roleid)
    WHERE r.role >= 16384
      AND NOT pg_get_userbyid(m.member) = ANY (ignored_roles)
      AND NOT pg_get_userbyid(m.roleid) = ANY (ignored_roles)) ";

/// Rows of built-in objects below this identifier are the same wherever `initdb` of one version
/// ran; above it they depend on the operating system's locales.
const FIRST_UNPINNED: u32 = 12000;

/// The query for a catalog's facts; `None` if its rows are no facts.
pub(super) fn facts(
    catalog: &'static Catalog,
    present: &Present,
    ignored_roles: &str,
) -> Option<FactQuery> {
    let (object, joins, part, keep) = match &catalog.rows {
        Rows::None(_) => return None,
        Rows::Named { object, part, keep } => (
            (*object).to_owned(),
            "CROSS JOIN (SELECT NULL::name AS extname) e".to_owned(),
            *part,
            (*keep).to_owned(),
        ),
        Rows::Of { class, oid, part, keep } => {
            let class = class_expression(class);
            let joins = format!(
                "CROSS JOIN LATERAL pg_identify_object({class}, {oid}, 0) i
                 LEFT JOIN pg_depend d ON d.classid = {class} AND d.objid = {oid}
                   AND d.objsubid = 0 AND d.deptype = 'e'
                   AND d.refclassid = 'pg_extension'::regclass
                 LEFT JOIN pg_extension e ON e.oid = d.refobjid"
            );
            // What is temporary ends with its session.
            let keep = format!(
                "({keep}) AND (i.schema IS NULL
                  OR i.schema !~ '^pg_(toast|temp|toast_temp)(_|$)')
                  AND i.identity !~ '(^| )pg_(toast_)?temp(_[0-9]+)?\\.'"
            );
            ("i.type || ' ' || i.identity".to_owned(), joins, *part, keep)
        }
    };
    let (facts, values) = values(catalog, present);
    let roles = if keep.contains("relevant_role") { RELEVANT_ROLES } else { "" };
    let sql = format!(
        "{roles}SELECT {object}, {part}, e.extname::text, ARRAY[{values}]::text[]
         FROM pg_catalog.{} c {joins} WHERE {keep}",
        catalog.name
    )
    .replace("ignored_roles", ignored_roles);
    Some(FactQuery { catalog, sql, facts })
}

/// The query for grants on built-in objects that `initdb` or an extension did not give; it selects
/// what [`facts`] does. `None` if the catalog has no grants.
pub(super) fn built_in_grants(catalog: &'static Catalog, ignored_roles: &str) -> Option<FactQuery> {
    let Rows::Of { class, oid, part, .. } = &catalog.rows else { return None };
    if catalog.name == "pg_default_acl" {
        return None;
    }
    let (name, column) =
        catalog.columns.iter().find(|(_, column)| matches!(column, Column::Grants(_)))?;
    let Column::Grants(default) = column else { return None };
    let subobject = if catalog.name == "pg_attribute" { "c.attnum" } else { "0" };
    let class = class_expression(class);
    let values = grants(&format!("c.{name}"), default);
    let initial = grants("p.initprivs", default);
    let sql = format!(
        "SELECT i.type || ' ' || i.identity, {part}, NULL::text, ARRAY[{values}]::text[]
         FROM pg_catalog.{} c
         LEFT JOIN pg_init_privs p ON p.classoid = {class} AND p.objoid = {oid}
           AND p.objsubid = {subobject}
         CROSS JOIN LATERAL pg_identify_object({class}, {oid}, 0) i
         WHERE {oid} < 16384 AND i.identity <> 'public'
           AND c.{name} IS DISTINCT FROM p.initprivs AND {values} <> {initial}",
        catalog.name
    )
    .replace("ignored_roles", ignored_roles);
    Some(FactQuery { catalog, sql, facts: vec![column] })
}

/// A query for one text: the hash of the rows of built-in objects, which only a superuser can
/// alter. `None` where nobody can, or where such rows are not the same in every cluster.
pub(super) fn built_in_rows(catalog: &'static Catalog, present: &Present) -> Option<String> {
    const ALTERABLE: [&str; 15] = [
        "pg_proc",
        "pg_operator",
        "pg_opclass",
        "pg_opfamily",
        "pg_amop",
        "pg_amproc",
        "pg_cast",
        "pg_type",
        "pg_am",
        "pg_language",
        "pg_conversion",
        "pg_ts_config",
        "pg_ts_dict",
        "pg_ts_parser",
        "pg_ts_template",
    ];
    if !ALTERABLE.contains(&catalog.name) {
        return None;
    }
    let columns: Vec<_> = catalog
        .columns
        .iter()
        .filter(|(name, column)| {
            // Grants are told apart; trees name positions in the source of one minor version.
            !matches!(column, Column::Grants(_))
                && present.get(*name).is_some_and(|kind| kind != "pg_node_tree")
        })
        .map(|(name, _)| format!("c.{name}"))
        .collect();
    Some(format!(
        "SELECT encode(sha256(convert_to(coalesce(string_agg(ROW({})::text, E'\\n'
           ORDER BY c.oid), ''), 'UTF8')), 'hex')
         FROM pg_catalog.{} c WHERE c.oid < {FIRST_UNPINNED}",
        columns.join(", "),
        catalog.name
    ))
}

fn class_expression(class: &str) -> String {
    if class.starts_with("pg_") {
        format!("'pg_catalog.{class}'::regclass")
    } else {
        format!("({class})::regclass")
    }
}

fn values(catalog: &'static Catalog, present: &Present) -> (Vec<&'static Column>, String) {
    let mut facts = Vec::new();
    let mut sql = String::new();
    for (name, column) in catalog.columns {
        if !present.contains_key(*name) {
            continue;
        }
        let Some(expression) = value(name, column) else { continue };
        let separator = if facts.is_empty() { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(sql, "{separator}({expression})::text");
        facts.push(column);
    }
    (facts, sql)
}

fn value(name: &str, column: &Column) -> Option<String> {
    Some(match column {
        Column::Told | Column::Not(_) => return None,
        Column::Value(_) | Column::Kind(..) => format!("c.{name}"),
        Column::Owner => format!("quote_ident(pg_get_userbyid(c.{name}))"),
        Column::Sql(_, expression) => (*expression).to_owned(),
        Column::Grants(default) => grants(&format!("c.{name}"), default),
        Column::Ref(_, class) => format!(
            "CASE WHEN c.{name}::oid <> 0 THEN (SELECT x.identity FROM
             pg_identify_object('pg_catalog.{class}'::regclass, c.{name}::oid, 0) x) END"
        ),
        Column::Refs(_, class) => format!(
            "(SELECT array_agg(CASE WHEN u.id <> 0 THEN (SELECT x.identity FROM
             pg_identify_object('pg_catalog.{class}'::regclass, u.id, 0) x) END ORDER BY u.n)
             FROM unnest(c.{name}::oid[]) WITH ORDINALITY u(id, n))"
        ),
        Column::Options(_) => format!(
            "(SELECT array_agg(CASE WHEN split_part(o, '=', 1) ~* \
             '(pass|secret|token|key|cred|auth|conn)' AND o !~* '=(true|false|on|off|[0-9]*)$'
             THEN split_part(o, '=', 1) || '=…' ELSE o END ORDER BY o COLLATE \"C\")
             FROM unnest(c.{name}) o)"
        ),
    })
}

/// An access control list in an order of its own: the catalog keeps the order of the commands.
fn grants(list: &str, default: &str) -> String {
    format!(
        "(SELECT coalesce(string_agg(g.word, ', ' ORDER BY g.word COLLATE \"C\"), 'none') FROM (
          SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC'
                 ELSE quote_ident(pg_get_userbyid(a.grantee)) END || ' ' || a.privilege_type
                 || CASE WHEN a.is_grantable THEN ' with grant option' ELSE '' END
                 || ' by ' || quote_ident(pg_get_userbyid(a.grantor)) AS word
          FROM aclexplode(coalesce({list}, {default})) a
          WHERE NOT (a.grantee <> 0 AND pg_get_userbyid(a.grantee) = ANY (ignored_roles))
            AND NOT pg_get_userbyid(a.grantor) = ANY (ignored_roles)) g)"
    )
}
