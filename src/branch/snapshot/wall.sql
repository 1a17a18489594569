-- The roles of leases and what each may do. Run once, at sealing, by the bootstrap superuser in
-- the snapshot's own database, with event triggers silenced.

-- What was restored belongs to the superuser that restored it. What only a superuser can own stays
-- with the bootstrap superuser; everything else goes to a role that nobody can log in as.
DO $wall$
DECLARE
    object record;
BEGIN
    FOR object IN SELECT evtname FROM pg_event_trigger LOOP
        EXECUTE format('ALTER EVENT TRIGGER %I OWNER TO postern', object.evtname);
    END LOOP;
    FOR object IN SELECT fdwname FROM pg_foreign_data_wrapper LOOP
        EXECUTE format('ALTER FOREIGN DATA WRAPPER %I OWNER TO postern', object.fdwname);
    END LOOP;
    FOR object IN SELECT pubname FROM pg_publication LOOP
        EXECUTE format('ALTER PUBLICATION %I OWNER TO postern', object.pubname);
    END LOOP;
    -- A subscription would connect to the source; a branch has no business there.
    FOR object IN
        SELECT subname FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid
        WHERE d.datname = current_database()
    LOOP
        EXECUTE format('ALTER SUBSCRIPTION %I DISABLE', object.subname);
        EXECUTE format('ALTER SUBSCRIPTION %I SET (slot_name = NONE)', object.subname);
        EXECUTE format('DROP SUBSCRIPTION %I', object.subname);
    END LOOP;
    -- Secrets for other servers.
    FOR object IN
        SELECT m.usename, m.srvname, split_part(option, '=', 1) AS name
        FROM pg_user_mappings m, unnest(m.umoptions) option
        WHERE split_part(option, '=', 1) ~* '(pass|secret|token|key)'
    LOOP
        EXECUTE format('ALTER USER MAPPING FOR %s SERVER %I OPTIONS (DROP %I)',
            CASE WHEN object.usename = 'public' THEN 'PUBLIC' ELSE quote_ident(object.usename) END,
            object.srvname, object.name);
    END LOOP;
    FOR object IN
        SELECT s.srvname, split_part(option, '=', 1) AS name
        FROM pg_foreign_server s, unnest(s.srvoptions) option
        WHERE split_part(option, '=', 1) ~* '(pass|secret|token|sslkey)'
    LOOP
        EXECUTE format('ALTER SERVER %I OPTIONS (DROP %I)', object.srvname, object.name);
    END LOOP;
END
$wall$;

REASSIGN OWNED BY postern_import TO postern_owner;

DO $wall$
DECLARE
    object record;
    dangerous text[] := ARRAY[
        'session_preload_libraries', 'local_preload_libraries', 'jit_provider',
        'dynamic_library_path', 'role', 'session_authorization', 'standard_conforming_strings',
        'client_encoding', 'default_tablespace', 'temp_tablespaces', 'event_triggers',
        'session_replication_role', 'allow_system_table_mods', 'ignore_system_indexes',
        'default_transaction_read_only', 'log_statement', 'restrict_nonsystem_relation_kind'];
BEGIN
    EXECUTE format('ALTER DATABASE %I OWNER TO postern', current_database());
    -- Roles that came along keep their names, for policies and grants, and nothing else.
    FOR object IN
        SELECT rolname FROM pg_roles
        WHERE rolname !~ '^pg_' AND rolname <> 'postern' AND rolname !~ '^postern_(read|write|migrate)$'
    LOOP
        EXECUTE format('ALTER ROLE %I NOLOGIN NOSUPERUSER NOCREATEROLE NOCREATEDB NOREPLICATION NOBYPASSRLS PASSWORD NULL VALID UNTIL ''infinity''', object.rolname);
    END LOOP;
    FOR object IN
        SELECT g.rolname AS granted, m.rolname AS member
        FROM pg_auth_members a JOIN pg_roles g ON g.oid = a.roleid JOIN pg_roles m ON m.oid = a.member
        WHERE g.rolname ~ '^pg_' AND m.rolname !~ '^pg_'
    LOOP
        EXECUTE format('REVOKE %I FROM %I', object.granted, object.member);
    END LOOP;
    -- Settings of the database and of roles that load code or change how text is read.
    FOR object IN
        SELECT d.datname, r.rolname, split_part(setting, '=', 1) AS name
        FROM pg_db_role_setting s
        LEFT JOIN pg_database d ON d.oid = s.setdatabase
        LEFT JOIN pg_roles r ON r.oid = s.setrole,
        unnest(s.setconfig) setting
        WHERE split_part(setting, '=', 1) = ANY (dangerous)
          AND r.rolname IS DISTINCT FROM 'postern_migrate'
    LOOP
        IF object.rolname IS NULL THEN
            EXECUTE format('ALTER DATABASE %I RESET %I', object.datname, object.name);
        ELSIF object.datname IS NULL THEN
            EXECUTE format('ALTER ROLE %I RESET %I', object.rolname, object.name);
        ELSE
            EXECUTE format('ALTER ROLE %I IN DATABASE %I RESET %I', object.rolname, object.datname, object.name);
        END IF;
    END LOOP;
    -- The owner role may do what the owners of single objects may.
    FOR object IN
        SELECT DISTINCT r.rolname
        FROM pg_shdepend d JOIN pg_roles r ON r.oid = d.refobjid
        WHERE d.refclassid = 'pg_authid'::regclass AND d.deptype = 'o'
          AND r.rolname !~ '^pg_' AND r.rolname NOT IN ('postern', 'postern_owner')
    LOOP
        EXECUTE format('GRANT %I TO postern_owner', object.rolname);
    END LOOP;
END
$wall$;

-- Who gets in.
DO $wall$
BEGIN
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO postern_read, postern_write, postern_migrate', current_database());
    EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO postern_write', current_database());
    EXECUTE format('GRANT CREATE, TEMPORARY ON DATABASE %I TO postern_owner', current_database());
END
$wall$;
REVOKE ALL ON DATABASE postgres FROM PUBLIC;
REVOKE ALL ON DATABASE template1 FROM PUBLIC;
GRANT postern_owner TO postern_migrate;
ALTER ROLE postern_migrate SET role = 'postern_owner';

-- Schemas: everybody with a lease may look; only the owner may make things.
DO $wall$
DECLARE
    object record;
BEGIN
    IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'public') THEN
        IF (SELECT pg_get_userbyid(nspowner) IN ('postern', 'pg_database_owner') FROM pg_namespace WHERE nspname = 'public') THEN
            ALTER SCHEMA public OWNER TO postern_owner;
        END IF;
    END IF;
    FOR object IN
        SELECT oid, nspname FROM pg_namespace
        WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
    LOOP
        EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', object.nspname);
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO postern_read, postern_write', object.nspname);
        EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO postern_owner', object.nspname);
        EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO postern_read', object.nspname);
        EXECUTE format('GRANT SELECT ON ALL SEQUENCES IN SCHEMA %I TO postern_read', object.nspname);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %I TO postern_write', object.nspname);
        EXECUTE format('GRANT SELECT, USAGE, UPDATE ON ALL SEQUENCES IN SCHEMA %I TO postern_write', object.nspname);
    END LOOP;
    -- Privileges that PUBLIC has on single tables would be every reader's.
    FOR object IN
        SELECT c.oid::regclass AS name, c.relkind FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace, aclexplode(c.relacl) acl
        WHERE acl.grantee = 0 AND acl.privilege_type <> 'SELECT'
          AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
          AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
    LOOP
        IF object.relkind = 'S' THEN
            EXECUTE format('REVOKE USAGE, UPDATE ON SEQUENCE %s FROM PUBLIC', object.name);
        ELSE
            EXECUTE format('REVOKE INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON %s FROM PUBLIC', object.name);
        END IF;
    END LOOP;
    FOR object IN SELECT oid FROM pg_largeobject_metadata LOOP
        EXECUTE format('GRANT SELECT ON LARGE OBJECT %s TO postern_read', object.oid);
        EXECUTE format('GRANT SELECT, UPDATE ON LARGE OBJECT %s TO postern_write', object.oid);
    END LOOP;
END
$wall$;

-- Functions. A reader may call what cannot write: neither what runs with its owner's rights nor
-- what is volatile, nor an aggregate over such functions (whose own rights nobody checks).
DO $wall$
DECLARE
    object record;
BEGIN
    FOR object IN
        WITH suspect AS (
            SELECT p.oid FROM pg_proc p WHERE p.prosecdef OR p.provolatile = 'v'
        )
        SELECT p.oid::regprocedure AS name, p.prokind,
               p.oid IN (SELECT oid FROM suspect)
               OR EXISTS (
                   SELECT FROM pg_aggregate a, suspect s
                   WHERE a.aggfnoid = p.oid AND s.oid IN (
                       a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggserialfn, a.aggdeserialfn,
                       a.aggmtransfn, a.aggminvtransfn, a.aggmfinalfn)
               ) AS suspect
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    LOOP
        IF object.suspect THEN
            EXECUTE format('REVOKE EXECUTE ON ROUTINE %s FROM PUBLIC', object.name);
            EXECUTE format('REVOKE EXECUTE ON ROUTINE %s FROM postern_read', object.name);
        END IF;
        EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO postern_write, postern_owner', object.name);
    END LOOP;
END
$wall$;

-- The catalog's own functions that write, notify or reach other sessions. The system's privileges
-- count as initial ones, so that a dump of a branch does not repeat them.
SET allow_system_table_mods = on;
DO $wall$
DECLARE
    object record;
    writers text[] := ARRAY[
        'nextval', 'setval', 'pg_notify', 'lo_creat', 'lo_create', 'lo_from_bytea', 'lo_put',
        'lo_open', 'lowrite', 'lo_truncate', 'lo_truncate64', 'lo_unlink'];
    nobody text[] := ARRAY[
        'pg_cancel_backend', 'pg_terminate_backend', 'pg_logical_emit_message', 'lo_import',
        'lo_export', 'pg_log_backend_memory_contexts', 'pg_create_physical_replication_slot',
        'pg_create_logical_replication_slot', 'pg_drop_replication_slot',
        'pg_copy_physical_replication_slot', 'pg_copy_logical_replication_slot',
        'pg_logical_slot_get_changes', 'pg_logical_slot_get_binary_changes',
        'pg_logical_slot_peek_changes', 'pg_logical_slot_peek_binary_changes',
        'pg_replication_slot_advance', 'pg_sync_replication_slots', 'pg_stat_reset',
        'pg_stat_reset_shared', 'pg_stat_reset_slru', 'pg_stat_reset_single_table_counters',
        'pg_stat_reset_single_function_counters', 'pg_read_file', 'pg_read_binary_file',
        'pg_stat_file', 'pg_ls_dir', 'pg_ls_logdir', 'pg_ls_waldir', 'pg_ls_tmpdir',
        'pg_ls_archive_statusdir', 'pg_reload_conf', 'pg_rotate_logfile', 'pg_promote',
        'pg_switch_wal', 'pg_create_restore_point', 'pg_wal_replay_pause', 'pg_wal_replay_resume',
        'pg_start_backup', 'pg_stop_backup', 'pg_backup_start', 'pg_backup_stop'];
BEGIN
    FOR object IN
        SELECT p.oid, p.oid::regprocedure AS name, p.proname, p.prokind
        FROM pg_proc p
        WHERE p.pronamespace = 'pg_catalog'::regnamespace
          AND (p.proname = ANY (writers) OR p.proname = ANY (nobody))
    LOOP
        EXECUTE format('REVOKE EXECUTE ON ROUTINE %s FROM PUBLIC', object.name);
        IF object.proname = ANY (writers) THEN
            EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO postern_write, postern_owner', object.name);
        END IF;
        DELETE FROM pg_init_privs
        WHERE objoid = object.oid AND classoid = 'pg_proc'::regclass AND objsubid = 0;
        INSERT INTO pg_init_privs (objoid, classoid, objsubid, privtype, initprivs)
        SELECT object.oid, 'pg_proc'::regclass, 0, 'i', proacl FROM pg_proc WHERE oid = object.oid;
    END LOOP;
    -- Anonymous blocks and new functions are the owner's matter.
    FOR object IN SELECT oid, lanname FROM pg_language WHERE lanpltrusted LOOP
        EXECUTE format('REVOKE USAGE ON LANGUAGE %I FROM PUBLIC', object.lanname);
        EXECUTE format('GRANT USAGE ON LANGUAGE %I TO postern_owner', object.lanname);
        DELETE FROM pg_init_privs
        WHERE objoid = object.oid AND classoid = 'pg_language'::regclass AND objsubid = 0;
        INSERT INTO pg_init_privs (objoid, classoid, objsubid, privtype, initprivs)
        SELECT object.oid, 'pg_language'::regclass, 0, 'i', lanacl FROM pg_language WHERE oid = object.oid;
    END LOOP;
END
$wall$;
RESET allow_system_table_mods;

-- What is made later is made by the owner role and open to the others in the same way.
ALTER DEFAULT PRIVILEGES FOR ROLE postern_owner GRANT USAGE ON SCHEMAS TO postern_read, postern_write;
ALTER DEFAULT PRIVILEGES FOR ROLE postern_owner GRANT SELECT ON TABLES TO postern_read;
ALTER DEFAULT PRIVILEGES FOR ROLE postern_owner GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO postern_write;
ALTER DEFAULT PRIVILEGES FOR ROLE postern_owner GRANT SELECT ON SEQUENCES TO postern_read;
ALTER DEFAULT PRIVILEGES FOR ROLE postern_owner GRANT SELECT, USAGE, UPDATE ON SEQUENCES TO postern_write;
ALTER DEFAULT PRIVILEGES FOR ROLE postern_owner REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
ALTER DEFAULT PRIVILEGES FOR ROLE postern_owner GRANT EXECUTE ON FUNCTIONS TO postern_write;
ALTER ROLE postern_read SET default_transaction_read_only = on;
