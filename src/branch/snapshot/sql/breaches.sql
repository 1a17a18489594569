-- What the roles of leases could do beyond their capabilities, as the privileges stand.
WITH agent (role, name) AS (
    SELECT r.oid, r.rolname FROM pg_roles r
    WHERE r.rolname IN ('postern_read', 'postern_write', 'postern_truncate', 'postern_migrate')
), relation AS (
    SELECT c.oid, c.oid::regclass::text AS name, c.relkind FROM pg_class c
    -- A change of this view is a SET.
    WHERE c.oid <> 'pg_catalog.pg_settings'::regclass
), unchecked AS (
    -- Functions that run with the superuser's rights, or as the server's system user.
    SELECT p.oid FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
    LEFT JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
    LEFT JOIN pg_extension e ON e.oid = d.refobjid
    LEFT JOIN pg_available_extension_versions v ON v.name = e.extname AND v.version = e.extversion
    WHERE p.oid >= 16384 AND (
        (p.prosecdef AND (SELECT rolsuper FROM pg_roles WHERE oid = p.proowner))
        OR (NOT l.lanpltrusted AND l.lanname NOT IN ('c', 'internal'))
        OR (l.lanname IN ('c', 'internal') AND p.provolatile = 'v' AND p.prokind <> 'a'
            AND NOT coalesce(v.trusted OR NOT v.superuser, false)))
)
SELECT a.name, format('%s %s', lower(p.privilege), r.name)
FROM agent a CROSS JOIN relation r
CROSS JOIN unnest(ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS p(privilege)
WHERE r.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND (has_table_privilege(a.role, r.oid, p.privilege)
       OR (p.privilege IN ('INSERT', 'UPDATE', 'REFERENCES') AND has_any_column_privilege(a.role, r.oid, p.privilege)))
  AND (r.oid < 16384 OR a.name = 'postern_read'
       OR (a.name = 'postern_write' AND p.privilege IN ('TRUNCATE', 'REFERENCES', 'TRIGGER'))
       OR (a.name = 'postern_truncate' AND p.privilege IN ('REFERENCES', 'TRIGGER')))
UNION ALL
SELECT a.name, 'read ' || r.name
FROM agent a CROSS JOIN relation r
WHERE r.name IN ('pg_authid', 'pg_user_mapping', 'pg_statistic', 'pg_shadow', 'pg_file_settings', 'pg_hba_file_rules')
  AND has_any_column_privilege(a.role, r.oid, 'SELECT')
UNION ALL
SELECT a.name, 'move ' || r.name
FROM agent a CROSS JOIN relation r
WHERE a.name = 'postern_read' AND r.relkind = 'S'
  AND (has_sequence_privilege(a.role, r.oid, 'USAGE') OR has_sequence_privilege(a.role, r.oid, 'UPDATE'))
UNION ALL
SELECT a.name, 'make things in schema ' || quote_ident(n.nspname)
FROM agent a CROSS JOIN pg_namespace n
WHERE (a.name <> 'postern_migrate' OR n.nspname IN ('pg_catalog', 'information_schema'))
  AND n.nspname !~ '^pg_(toast_)?temp_' AND has_schema_privilege(a.role, n.oid, 'CREATE')
UNION ALL
SELECT a.name, format('%s in database %I', lower(p.privilege), d.datname)
FROM agent a CROSS JOIN pg_database d
CROSS JOIN unnest(ARRAY['CREATE', 'TEMPORARY', 'CONNECT']) AS p(privilege)
WHERE has_database_privilege(a.role, d.oid, p.privilege) AND d.datallowconn
  AND (d.datname <> current_database()
       OR (p.privilege = 'CREATE' AND a.name <> 'postern_migrate')
       OR (p.privilege = 'TEMPORARY' AND a.name = 'postern_read'))
UNION ALL
SELECT a.name, 'use language ' || l.lanname
FROM agent a CROSS JOIN pg_language l
WHERE has_language_privilege(a.role, l.oid, 'USAGE')
  -- The others are the superuser's whatever their privileges say.
  AND l.lanpltrusted AND a.name <> 'postern_migrate'
UNION ALL
SELECT a.name, 'call ' || p.oid::regprocedure
FROM agent a CROSS JOIN pg_proc p
WHERE has_function_privilege(a.role, p.oid, 'EXECUTE')
  AND (p.oid IN (SELECT oid FROM unchecked)
       OR (p.prosecdef AND a.name <> 'postern_migrate')
       OR (a.name <> 'postern_migrate' AND EXISTS (
           SELECT FROM pg_aggregate g JOIN pg_proc s ON s.prosecdef AND s.oid IN (
               g.aggtransfn, g.aggfinalfn, g.aggcombinefn, g.aggserialfn, g.aggdeserialfn,
               g.aggmtransfn, g.aggminvtransfn, g.aggmfinalfn)
           WHERE g.aggfnoid = p.oid))
       OR (a.name = 'postern_read' AND p.oid < 16384 AND p.proname IN (
           'nextval', 'setval', 'pg_notify', 'lo_create', 'lo_creat', 'lo_from_bytea', 'lo_put',
           'lowrite', 'lo_unlink', 'lo_truncate', 'lo_truncate64', 'query_to_xml', 'ts_stat'))
       OR (p.oid < 16384 AND p.proname IN (
           'pg_cancel_backend', 'pg_terminate_backend', 'pg_logical_emit_message', 'lo_import',
           'lo_export', 'pg_read_file', 'pg_read_binary_file', 'pg_ls_dir', 'pg_reload_conf',
           'pg_promote', 'pg_switch_wal')))
UNION ALL
SELECT a.name, 'use foreign data wrapper ' || quote_ident(w.fdwname)
FROM agent a CROSS JOIN pg_foreign_data_wrapper w
WHERE has_foreign_data_wrapper_privilege(a.role, w.oid, 'USAGE')
UNION ALL
-- Whom they can become.
SELECT a.name, 'become ' || quote_ident(m.rolname)
FROM agent a CROSS JOIN pg_roles m
WHERE pg_has_role(a.role, m.oid, 'MEMBER') AND m.oid <> a.role
  AND NOT (a.name = 'postern_truncate' AND m.rolname = 'postern_write')
  AND (a.name <> 'postern_migrate' OR m.oid < 16384 OR m.rolsuper OR m.rolcreaterole OR m.rolcreatedb
       OR m.rolreplication OR m.rolbypassrls OR m.rolcanlogin)
UNION ALL
SELECT m.rolname, 'act with an attribute of power'
FROM pg_roles m
WHERE m.oid >= 16384 AND (m.rolsuper OR m.rolcreaterole OR m.rolcreatedb OR m.rolreplication OR m.rolbypassrls)
UNION ALL
SELECT m.rolname, 'log in'
FROM pg_authid m
WHERE m.oid >= 16384 AND (m.rolpassword IS NOT NULL
    OR (m.rolcanlogin AND m.oid NOT IN (SELECT role FROM agent)))
UNION ALL
SELECT a.name, 'own an object of class ' || s.classid::regclass
FROM agent a JOIN pg_shdepend s ON s.refclassid = 'pg_authid'::regclass AND s.refobjid = a.role AND s.deptype = 'o'
