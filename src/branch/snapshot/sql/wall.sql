-- The privileges of the roles of leases. Every object is visited, whatever the source granted:
-- first everything that would let somebody through is taken away, then each role gets its part.

-- Who gets in.
DO $wall$
DECLARE
    o record;
BEGIN
    FOR o IN SELECT datname FROM pg_database WHERE datallowconn LOOP
        EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', o.datname);
    END LOOP;
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO postern_read, postern_write, postern_truncate, postern_migrate', current_database());
    EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO postern_write', current_database());
    EXECUTE format('GRANT CREATE, TEMPORARY ON DATABASE %I TO postern_owner', current_database());
END
$wall$;
GRANT postern_owner TO postern_migrate;
GRANT postern_write TO postern_truncate;
ALTER ROLE postern_migrate SET role = 'postern_owner';
ALTER ROLE postern_read SET default_transaction_read_only = on;

-- What the server guards itself, opened by the source: catalogs, functions of the catalog,
-- settings, foreign data wrappers and servers. All goes back to how the server was made.
DO $wall$
DECLARE
    o record;
BEGIN
    FOR o IN
        SELECT p.oid::regprocedure AS name, a.grantee, a.grantor
        FROM pg_proc p
        LEFT JOIN pg_init_privs i ON i.classoid = 'pg_proc'::regclass AND i.objoid = p.oid
        CROSS JOIN LATERAL aclexplode(p.proacl) a
        WHERE p.oid < 16384 AND a.grantee <> p.proowner
          AND NOT EXISTS (
              SELECT FROM aclexplode(coalesce(i.initprivs, acldefault('f', p.proowner))) b
              WHERE b.grantee = a.grantee)
    LOOP
        EXECUTE format('REVOKE ALL ON ROUTINE %s FROM %s CASCADE', o.name,
            CASE o.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(o.grantee)) END);
    END LOOP;
    FOR o IN
        SELECT DISTINCT c.oid::regclass AS name, a.grantee, a.privilege_type, a.column_name
        FROM pg_class c
        LEFT JOIN pg_init_privs i ON i.classoid = 'pg_class'::regclass AND i.objoid = c.oid AND i.objsubid = 0
        CROSS JOIN LATERAL (
            SELECT grantee, privilege_type, NULL::name AS column_name FROM aclexplode(c.relacl)
            UNION ALL
            SELECT x.grantee, x.privilege_type, t.attname
            FROM pg_attribute t CROSS JOIN LATERAL aclexplode(t.attacl) x
            WHERE t.attrelid = c.oid
              AND NOT EXISTS (SELECT FROM pg_init_privs j WHERE j.classoid = 'pg_class'::regclass
                              AND j.objoid = c.oid AND j.objsubid = t.attnum)
        ) a
        WHERE c.oid < 16384 AND c.relkind IN ('r', 'v') AND a.grantee <> c.relowner
          -- Its views are open to everybody, which the server does not count as initial.
          AND NOT (c.relnamespace = 'information_schema'::regnamespace AND a.grantee = 0
                   AND a.privilege_type = 'SELECT')
          AND NOT EXISTS (
              SELECT FROM aclexplode(coalesce(i.initprivs, acldefault('r', c.relowner))) b
              WHERE a.column_name IS NULL AND b.grantee = a.grantee AND b.privilege_type = a.privilege_type)
    LOOP
        EXECUTE format('REVOKE %s ON %s FROM %s CASCADE',
            o.privilege_type || CASE WHEN o.column_name IS NULL THEN '' ELSE format(' (%I)', o.column_name) END,
            o.name,
            CASE o.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(o.grantee)) END);
    END LOOP;
    IF to_regclass('pg_catalog.pg_parameter_acl') IS NOT NULL THEN
        FOR o IN EXECUTE 'SELECT parname, a.grantee FROM pg_parameter_acl CROSS JOIN LATERAL aclexplode(paracl) a WHERE a.grantee <> 10' LOOP
            EXECUTE format('REVOKE ALL ON PARAMETER %s FROM %s CASCADE', quote_ident(o.parname),
                CASE o.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(o.grantee)) END);
        END LOOP;
    END IF;
    FOR o IN
        SELECT 'FOREIGN DATA WRAPPER' AS kind, w.fdwname AS name, a.grantee
        FROM pg_foreign_data_wrapper w CROSS JOIN LATERAL aclexplode(w.fdwacl) a
        WHERE a.grantee <> w.fdwowner
        UNION
        SELECT 'FOREIGN SERVER', s.srvname, a.grantee
        FROM pg_foreign_server s CROSS JOIN LATERAL aclexplode(s.srvacl) a
        WHERE a.grantee <> s.srvowner
    LOOP
        EXECUTE format('REVOKE ALL ON %s %I FROM %s CASCADE', o.kind, o.name,
            CASE o.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(o.grantee)) END);
    END LOOP;
END
$wall$;

-- What everybody may do to the source's own objects would be every reader's: looking is all that
-- stays. A grant is taken back by the role that gave it.
DO $wall$
DECLARE
    o record;
BEGIN
    FOR o IN
        SELECT c.kind || ' ' || c.name AS object, a.privilege_type, a.grantor, c.column_name
        FROM (
            SELECT CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind,
                   oid::regclass::text AS name, relacl AS acl, NULL::name AS column_name
            FROM pg_class WHERE oid >= 16384 AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
            UNION ALL
            SELECT 'TABLE', t.attrelid::regclass::text, t.attacl, t.attname
            FROM pg_attribute t WHERE t.attrelid >= 16384 AND NOT t.attisdropped AND t.attacl IS NOT NULL
            UNION ALL
            SELECT 'SCHEMA', quote_ident(nspname), nspacl, NULL
            FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
            UNION ALL
            SELECT 'LARGE OBJECT', oid::text, lomacl, NULL FROM pg_largeobject_metadata
        ) c
        CROSS JOIN LATERAL aclexplode(c.acl) a
        WHERE a.grantee = 0
          AND NOT (a.privilege_type = 'SELECT' OR (c.kind = 'SCHEMA' AND a.privilege_type = 'USAGE'))
    LOOP
        EXECUTE format('SET LOCAL ROLE %I', pg_get_userbyid(o.grantor));
        EXECUTE format('REVOKE %s ON %s FROM PUBLIC CASCADE',
            o.privilege_type || CASE WHEN o.column_name IS NULL THEN '' ELSE format(' (%I)', o.column_name) END,
            o.object);
        RESET ROLE;
    END LOOP;
    -- The same for what is yet to be made.
    FOR o IN
        SELECT DISTINCT pg_get_userbyid(d.defaclrole) AS role, n.nspname,
               CASE d.defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES'
                    WHEN 'f' THEN 'FUNCTIONS' WHEN 'T' THEN 'TYPES' WHEN 'n' THEN 'SCHEMAS' END AS kind
        FROM pg_default_acl d LEFT JOIN pg_namespace n ON n.oid = d.defaclnamespace
        CROSS JOIN LATERAL aclexplode(d.defaclacl) a
        WHERE a.grantee = 0 AND d.defaclobjtype IN ('r', 'S', 'f', 'n') AND d.defaclrole >= 16384
    LOOP
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I %s REVOKE ALL ON %s FROM PUBLIC', o.role,
            CASE WHEN o.nspname IS NULL THEN '' ELSE format('IN SCHEMA %I', o.nspname) END, o.kind);
    END LOOP;
END
$wall$;

-- Schemas, tables, sequences and large objects: everybody with a lease may look, a writer may
-- change rows, only owners may change the schema. The tables of extensions are only looked at.
DO $wall$
DECLARE
    o record;
BEGIN
    FOR o IN
        SELECT nspname FROM pg_namespace
        WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
    LOOP
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO postern_read, postern_write', o.nspname);
        EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO postern_owner', o.nspname);
        EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO postern_read', o.nspname);
        EXECUTE format('GRANT SELECT ON ALL SEQUENCES IN SCHEMA %I TO postern_read', o.nspname);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %I TO postern_write', o.nspname);
        EXECUTE format('GRANT SELECT, USAGE, UPDATE ON ALL SEQUENCES IN SCHEMA %I TO postern_write', o.nspname);
        EXECUTE format('GRANT TRUNCATE ON ALL TABLES IN SCHEMA %I TO postern_truncate', o.nspname);
    END LOOP;
    FOR o IN
        SELECT c.oid::regclass AS name, c.relkind
        FROM pg_depend d JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
        WHERE d.deptype = 'e' AND d.classid = 'pg_class'::regclass
    LOOP
        IF o.relkind = 'S' THEN
            EXECUTE format('REVOKE USAGE, UPDATE ON SEQUENCE %s FROM postern_write', o.name);
            EXECUTE format('GRANT SELECT, USAGE, UPDATE ON SEQUENCE %s TO postern_owner', o.name);
        ELSE
            EXECUTE format('REVOKE INSERT, UPDATE, DELETE ON %s FROM postern_write', o.name);
            EXECUTE format('REVOKE TRUNCATE ON %s FROM postern_truncate', o.name);
            EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO postern_owner', o.name);
        END IF;
    END LOOP;
    FOR o IN SELECT oid FROM pg_largeobject_metadata LOOP
        EXECUTE format('GRANT SELECT ON LARGE OBJECT %s TO postern_read', o.oid);
        EXECUTE format('GRANT SELECT, UPDATE ON LARGE OBJECT %s TO postern_write', o.oid);
    END LOOP;
END
$wall$;

-- Functions that came with the source or with an extension. Inside a function that is not
-- volatile and runs with its caller's rights nothing can write: PostgreSQL refuses it there. Of
-- the others a reader gets none, nor an aggregate over one (the right on a step function is asked
-- of the aggregate's owner, not of the caller).
--   0  anybody
--   1  writers and owners
--   2  owners: they run with their owner's rights
--   3  nobody: code of the machine that is not checked, or the superuser's rights
CREATE TEMPORARY TABLE postern_function AS
WITH extension AS (
    SELECT d.objid AS oid, e.extname,
           coalesce((SELECT bool_or(v.trusted OR NOT v.superuser) FROM pg_available_extension_versions v
                     WHERE v.name = e.extname AND v.version = e.extversion), false) AS trusted
    FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
    WHERE d.deptype = 'e' AND d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass
), plain AS (
    SELECT p.oid, x.oid IS NOT NULL AS of_extension,
           CASE
               WHEN NOT l.lanpltrusted AND l.lanname NOT IN ('c', 'internal') THEN 3
               WHEN p.prosecdef AND p.proowner = 10 THEN 3
               WHEN p.prosecdef THEN 2
               WHEN p.provolatile <> 'v' THEN 0
               WHEN p.prokind = 'a' THEN 0
               WHEN x.extname IN ('pgcrypto', 'uuid-ossp') THEN 0
               WHEN l.lanname IN ('c', 'internal') AND NOT coalesce(x.trusted, false) THEN 3
               ELSE 1
           END AS class
    FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang LEFT JOIN extension x ON x.oid = p.oid
    WHERE p.oid >= 16384
)
SELECT p.oid, p.of_extension,
       greatest(p.class, coalesce((
           SELECT max(s.class) FROM pg_aggregate a JOIN plain s ON s.oid IN (
               a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggserialfn, a.aggdeserialfn,
               a.aggmtransfn, a.aggminvtransfn, a.aggmfinalfn)
           WHERE a.aggfnoid = p.oid), 0)) AS class
FROM plain p;

DO $wall$
DECLARE
    o record;
    a record;
BEGIN
    FOR o IN
        SELECT f.oid, f.oid::regprocedure AS name, f.class, f.of_extension, p.proowner
        FROM postern_function f JOIN pg_proc p ON p.oid = f.oid
    LOOP
        IF o.class > 0 THEN
            -- As the grantor, for a role with grant option may have given it on.
            FOR a IN
                SELECT x.grantee, x.grantor
                FROM pg_proc p CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x
                WHERE p.oid = o.oid AND x.grantee <> o.proowner AND (x.grantee = 0 OR o.class = 3)
            LOOP
                EXECUTE format('SET LOCAL ROLE %I', pg_get_userbyid(a.grantor));
                EXECUTE format('REVOKE ALL ON ROUTINE %s FROM %s CASCADE', o.name,
                    CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END);
                RESET ROLE;
            END LOOP;
        ELSIF NOT o.of_extension THEN
            EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO postern_read', o.name);
        END IF;
        IF o.class = 1 OR (o.class = 0 AND NOT o.of_extension) THEN
            EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO postern_write', o.name);
        END IF;
        IF o.class < 3 AND (o.class > 0 OR NOT o.of_extension) THEN
            EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO postern_owner', o.name);
        END IF;
    END LOOP;
END
$wall$;
DROP TABLE postern_function;

-- PostgreSQL's own functions. What is volatile is a writer's, unless it is known to change
-- nothing that lasts; a function that a later version adds is a writer's until it is looked at.
DO $wall$
DECLARE
    o record;
    harmless text := '^(amvalidate|bernoulli|system|clock_timestamp|currtid2?|currval|current_query'
        '|gen_random_uuid|uuidv[47]|lastval|lo_close|lo_get|lo_lseek(64)?|lo_open|lo_tell(64)?|loread'
        '|random|random_normal|setseed|set_config|timeofday|txid_status|statement_timestamp'
        '|pg_(try_)?advisory_.*|pg_blocking_pids|pg_safe_snapshot_blocking_pids'
        '|pg_isolation_test_session_is_blocked|pg_lock_status|pg_sleep(_for|_until)?'
        '|pg_.*_size|pg_relation_file(node|path)|pg_partition_(tree|ancestors|root)'
        '|pg_sequence_last_value|pg_get_sequence_data|pg_stat_get_.*|pg_stat_clear_snapshot'
        '|pg_stat_force_next_flush|pg_stat_have_stats|pg_jit_available|pg_numa_available|pg_control_.*'
        '|pg_current_wal_.*|pg_last_.*|pg_is_in_recovery|pg_is_wal_replay_paused'
        '|pg_get_wal_replay_pause_state|pg_get_wal_resource_managers|pg_export_snapshot'
        '|pg_get_multixact_members|pg_xact_(commit_timestamp.*|status)|pg_prepared_xact'
        '|pg_notification_queue_usage|pg_(database_)?collation_actual_version|pg_listening_channels'
        '|pg_show_replication_origin_status|pg_conf_load_time)$';
    -- Not volatile by name, but they take a transaction number or run a text as a query.
    others text[] := ARRAY['txid_current', 'pg_current_xact_id', 'query_to_xml', 'query_to_xmlschema',
        'query_to_xml_and_xmlschema', 'cursor_to_xml', 'cursor_to_xmlschema', 'table_to_xml',
        'table_to_xmlschema', 'table_to_xml_and_xmlschema', 'schema_to_xml', 'schema_to_xmlschema',
        'schema_to_xml_and_xmlschema', 'database_to_xml', 'database_to_xmlschema',
        'database_to_xml_and_xmlschema', 'ts_stat'];
    -- Other sessions, the server and its files: not a lease's matter at all.
    nobody text := '^(pg_(cancel|terminate)_backend|pg_logical_.*|pg_(create|drop|copy)_(physical|logical)?_?replication_slot'
        '|pg_replication_slot_advance|pg_sync_replication_slots|pg_replication_origin_.*|binary_upgrade_.*'
        '|pg_(start|stop)_backup|pg_backup_.*|pg_promote|pg_switch_wal|pg_create_restore_point'
        '|pg_wal_replay_.*|pg_reload_conf|pg_rotate_logfile.*|pg_log_.*|pg_stat_reset.*|pg_read_.*'
        '|pg_stat_file|pg_ls_.*|lo_import|lo_export|pg_import_system_collations|pg_nextoid'
        '|pg_stop_making_pinned_objects|pg_extension_config_dump|pg_file_.*|pg_config|pg_hba_file_rules'
        '|pg_ident_file_mappings|pg_show_all_file_settings|pg_get_backend_memory_contexts|pg_get_shmem_.*)$';
BEGIN
    FOR o IN
        SELECT p.oid, p.oid::regprocedure AS name, p.proname ~ nobody AS forbidden
        FROM pg_proc p
        WHERE p.oid < 16384 AND p.pronamespace = 'pg_catalog'::regnamespace
          AND (p.provolatile = 'v' OR p.proname = ANY (others) OR p.proname ~ nobody)
          AND p.proname !~ harmless
          -- Nobody can call these by hand.
          AND NOT 'internal'::regtype = ANY (p.proargtypes::oid[])
          AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype, 'language_handler'::regtype)
          AND EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
                      WHERE a.grantee = 0)
    LOOP
        EXECUTE format('REVOKE EXECUTE ON ROUTINE %s FROM PUBLIC', o.name);
        IF NOT o.forbidden THEN
            EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO postern_write, postern_owner', o.name);
        END IF;
    END LOOP;
    -- Anonymous blocks and new functions are the owner's matter.
    FOR o IN SELECT lanname, lanpltrusted FROM pg_language WHERE lanname NOT IN ('c', 'internal') LOOP
        CONTINUE WHEN NOT o.lanpltrusted;
        EXECUTE format('REVOKE USAGE ON LANGUAGE %I FROM PUBLIC', o.lanname);
        EXECUTE format('GRANT USAGE ON LANGUAGE %I TO postern_owner', o.lanname);
    END LOOP;
END
$wall$;

-- An estimator runs the operator's function while a query is planned, and asks nobody whether
-- the caller may. Without it the planner guesses.
DO $wall$
DECLARE
    o record;
BEGIN
    FOR o IN
        SELECT x.oid::regoperator AS name
        FROM pg_operator x
        WHERE x.oid >= 16384 AND (x.oprrest <> 0 OR x.oprjoin <> 0) AND EXISTS (
            SELECT FROM pg_operator y JOIN pg_proc p ON p.oid = y.oprcode
            LEFT JOIN pg_operator n ON n.oid = x.oprnegate
            LEFT JOIN pg_operator c ON c.oid = x.oprcom
            WHERE p.prosecdef AND y.oid IN (x.oid, x.oprcom, x.oprnegate, n.oprcom, c.oprnegate))
    LOOP
        EXECUTE format('ALTER OPERATOR %s SET (RESTRICT = NONE, JOIN = NONE)', o.name);
    END LOOP;
END
$wall$;

-- What is made later is open to the others in the same way. Roles that came along can make things
-- as well, for the owner can act as them; what they own must be restorable from a dump.
DO $wall$
DECLARE
    o record;
    n record;
BEGIN
    FOR o IN
        SELECT oid, rolname, quote_ident(rolname) AS role FROM pg_roles
        WHERE oid >= 16384 AND rolname !~ '^postern_(read|write|truncate|migrate|import)$'
    LOOP
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %s GRANT USAGE ON SCHEMAS TO postern_read, postern_write', o.role);
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %s GRANT SELECT ON TABLES TO postern_read', o.role);
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %s GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO postern_write', o.role);
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %s GRANT TRUNCATE ON TABLES TO postern_truncate', o.role);
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %s GRANT SELECT ON SEQUENCES TO postern_read', o.role);
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %s GRANT SELECT, USAGE, UPDATE ON SEQUENCES TO postern_write', o.role);
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %s REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC', o.role);
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %s GRANT EXECUTE ON FUNCTIONS TO postern_write', o.role);
        CONTINUE WHEN o.rolname = 'postern_owner';
        EXECUTE format('GRANT CREATE ON DATABASE %I TO %s', current_database(), o.role);
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE postern_owner GRANT USAGE, CREATE ON SCHEMAS TO %s', o.role);
        FOR n IN
            SELECT DISTINCT nspname FROM pg_namespace JOIN (
                SELECT relnamespace AS oid FROM pg_class WHERE relowner = o.oid
                UNION SELECT pronamespace FROM pg_proc WHERE proowner = o.oid
                UNION SELECT typnamespace FROM pg_type WHERE typowner = o.oid
            ) x USING (oid)
            WHERE nspname !~ '^pg_'
        LOOP
            EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO %s', n.nspname, o.role);
        END LOOP;
        FOR n IN SELECT lanname FROM pg_language WHERE lanpltrusted LOOP
            EXECUTE format('GRANT USAGE ON LANGUAGE %I TO %s', n.lanname, o.role);
        END LOOP;
    END LOOP;
END
$wall$;

-- Of what the server or an extension brings, these are the initial privileges from now on: a dump
-- of a branch must not repeat them, for nobody but the superuser could restore them.
DELETE FROM pg_init_privs
WHERE NOT (classoid = 'pg_namespace'::regclass AND objoid = 2200);
INSERT INTO pg_init_privs (objoid, classoid, objsubid, privtype, initprivs)
SELECT x.oid, x.class, x.sub, CASE WHEN x.oid < 16384 THEN 'i' ELSE 'e' END::"char", x.acl
FROM (
    SELECT oid, 'pg_proc'::regclass AS class, 0 AS sub, proacl AS acl FROM pg_proc
    UNION ALL SELECT oid, 'pg_class'::regclass, 0, relacl FROM pg_class
    UNION ALL SELECT attrelid, 'pg_class'::regclass, attnum, attacl FROM pg_attribute
    UNION ALL SELECT oid, 'pg_language'::regclass, 0, lanacl FROM pg_language
    UNION ALL SELECT oid, 'pg_namespace'::regclass, 0, nspacl FROM pg_namespace WHERE oid <> 2200
    UNION ALL SELECT oid, 'pg_type'::regclass, 0, typacl FROM pg_type
    UNION ALL SELECT oid, 'pg_foreign_data_wrapper'::regclass, 0, fdwacl FROM pg_foreign_data_wrapper
    UNION ALL SELECT oid, 'pg_foreign_server'::regclass, 0, srvacl FROM pg_foreign_server
) x
WHERE x.acl IS NOT NULL AND (x.oid < 16384 OR EXISTS (
    SELECT FROM pg_depend d WHERE d.deptype = 'e' AND d.classid = x.class AND d.objid = x.oid));
