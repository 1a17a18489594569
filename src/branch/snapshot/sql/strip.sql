-- What came with the source and must not come along: secrets, ways out of the machine, power.
-- Runs as the bootstrap superuser in the restored database, in one transaction.

-- The source's event triggers would fire on what follows, as superuser.
DO $$
DECLARE t record;
BEGIN
    -- In a setting, for making a table would fire them.
    PERFORM pg_catalog.set_config('postern.event_triggers', (
        SELECT coalesce(pg_catalog.jsonb_object_agg(evtname, evtenabled), '{}')::text
        FROM pg_catalog.pg_event_trigger WHERE evtenabled <> 'D' AND evtevent <> 'login'), false);
    FOR t IN SELECT evtname FROM pg_catalog.pg_event_trigger LOOP
        EXECUTE pg_catalog.format('ALTER EVENT TRIGGER %I DISABLE', t.evtname);
        EXECUTE pg_catalog.format('ALTER EVENT TRIGGER %I OWNER TO postern', t.evtname);
    END LOOP;
END $$;

-- Subscriptions hold a connection string with its password. Dropping needs no network without a
-- slot.
DO $$
DECLARE s record;
BEGIN
    FOR s IN SELECT subname FROM pg_catalog.pg_subscription
             WHERE subdbid = (SELECT oid FROM pg_catalog.pg_database
                              WHERE datname = pg_catalog.current_database()) LOOP
        EXECUTE pg_catalog.format('ALTER SUBSCRIPTION %I DISABLE', s.subname);
        EXECUTE pg_catalog.format('ALTER SUBSCRIPTION %I SET (slot_name = NONE)', s.subname);
        EXECUTE pg_catalog.format('DROP SUBSCRIPTION %I', s.subname);
    END LOOP;
END $$;

-- A user mapping is there to hold a credential: its name stays, what it holds goes.
DO $$
DECLARE m record;
BEGIN
    FOR m IN
        SELECT u.srvname, u.usename, o.option_name
        FROM pg_catalog.pg_user_mappings u,
             pg_catalog.pg_options_to_table(u.umoptions) o
        WHERE o.option_name NOT IN ('user', 'username')
    LOOP
        EXECUTE pg_catalog.format('ALTER USER MAPPING FOR %s SERVER %I OPTIONS (DROP %I)',
            CASE WHEN m.usename = 'public' THEN 'PUBLIC' ELSE pg_catalog.quote_ident(m.usename) END,
            m.srvname, m.option_name);
    END LOOP;
    FOR m IN
        SELECT s.srvname, o.option_name
        FROM pg_catalog.pg_foreign_server s, pg_catalog.pg_options_to_table(s.srvoptions) o
        WHERE o.option_name ~* '(pass|secret|token|credential|sslkey|sslcert|service|api_?key|access_?key)'
    LOOP
        EXECUTE pg_catalog.format('ALTER SERVER %I OPTIONS (DROP %I)', m.srvname, m.option_name);
    END LOOP;
    FOR m IN
        SELECT w.fdwname AS srvname, o.option_name
        FROM pg_catalog.pg_foreign_data_wrapper w, pg_catalog.pg_options_to_table(w.fdwoptions) o
        WHERE o.option_name ~* '(pass|secret|token|credential|sslkey|sslcert|service|api_?key|access_?key)'
    LOOP
        EXECUTE pg_catalog.format('ALTER FOREIGN DATA WRAPPER %I OPTIONS (DROP %I)', m.srvname, m.option_name);
    END LOOP;
END $$;

-- Tables over files and programs of the source's machine would read ours.
DO $$
DECLARE f record;
BEGIN
    FOR f IN
        SELECT n.nspname, c.relname, o.option_name
        FROM pg_catalog.pg_foreign_table t
        JOIN pg_catalog.pg_class c ON c.oid = t.ftrelid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_catalog.pg_foreign_server s ON s.oid = t.ftserver
        JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw
        JOIN pg_catalog.pg_proc h ON h.oid = w.fdwhandler AND h.prosrc = 'file_fdw_handler',
        pg_catalog.pg_options_to_table(t.ftoptions) o
        WHERE o.option_name IN ('program', 'filename')
    LOOP
        IF f.option_name = 'program' THEN
            EXECUTE pg_catalog.format('ALTER FOREIGN TABLE %I.%I OPTIONS (DROP program, ADD filename ''/dev/null'')', f.nspname, f.relname);
        ELSE
            EXECUTE pg_catalog.format('ALTER FOREIGN TABLE %I.%I OPTIONS (SET filename ''/dev/null'')', f.nspname, f.relname);
        END IF;
    END LOOP;
END $$;

-- Settings kept with databases and roles: a session's own harmless ones stay with the database,
-- what loads libraries, runs code, changes identity or how text is read goes.
DO $$
DECLARE s record;
BEGIN
    FOR s IN
        SELECT d.datname, r.rolname, split_part(c.entry, '=', 1) AS name
        FROM pg_catalog.pg_db_role_setting x
        LEFT JOIN pg_catalog.pg_database d ON d.oid = x.setdatabase
        LEFT JOIN pg_catalog.pg_roles r ON r.oid = x.setrole
        CROSS JOIN LATERAL pg_catalog.unnest(x.setconfig) AS c(entry)
    LOOP
        CONTINUE WHEN s.rolname IS NULL AND s.datname = pg_catalog.current_database() AND (
            EXISTS (SELECT FROM pg_catalog.pg_settings g WHERE lower(g.name) = lower(s.name)
                    AND g.context = 'user' AND lower(g.name) NOT IN (
                        'role', 'session_authorization', 'local_preload_libraries',
                        'standard_conforming_strings', 'client_encoding', 'backslash_quote',
                        'default_transaction_read_only', 'default_tablespace',
                        'temp_tablespaces', 'allow_in_place_tablespaces'))
            OR (s.name LIKE '%.%'
                AND NOT EXISTS (SELECT FROM pg_catalog.pg_settings g WHERE lower(g.name) = lower(s.name))
                AND s.name !~* '^(pl|auto_explain|session_|pg_stat|cron|timescaledb|citus|pgaudit)'));
        EXECUTE CASE
            WHEN s.rolname IS NULL THEN
                pg_catalog.format('ALTER DATABASE %I RESET %s', s.datname, s.name)
            WHEN s.datname IS NULL THEN
                pg_catalog.format('ALTER ROLE %I RESET %s', s.rolname, s.name)
            ELSE
                pg_catalog.format('ALTER ROLE %I IN DATABASE %I RESET %s', s.rolname, s.datname, s.name)
        END;
    END LOOP;
END $$;

-- Roles that came along keep their names and their objects, nothing else.
DO $$
DECLARE r record;
BEGIN
    FOR r IN SELECT rolname, rolvaliduntil FROM pg_catalog.pg_roles
             WHERE oid >= 16384 AND rolname <> 'postern_import' LOOP
        EXECUTE pg_catalog.format('ALTER ROLE %I WITH NOSUPERUSER NOLOGIN NOCREATEROLE NOCREATEDB'
            ' NOREPLICATION NOBYPASSRLS INHERIT CONNECTION LIMIT -1 PASSWORD NULL%s', r.rolname,
            CASE WHEN r.rolvaliduntil IS NULL THEN '' ELSE ' VALID UNTIL ''infinity''' END);
    END LOOP;
    FOR r IN SELECT DISTINCT g.rolname AS granted, m.rolname AS member
             FROM pg_catalog.pg_auth_members a
             JOIN pg_catalog.pg_roles g ON g.oid = a.roleid
             JOIN pg_catalog.pg_roles m ON m.oid = a.member
             -- Memberships among the server's own roles are pinned.
             WHERE (a.roleid < 16384 OR a.member < 16384
                    OR g.rolname ~ '^postern(_|$)' OR m.rolname ~ '^postern(_|$)')
               AND NOT (a.roleid < 16384 AND a.member < 16384) LOOP
        EXECUTE pg_catalog.format('REVOKE %I FROM %I CASCADE', r.granted, r.member);
    END LOOP;
END $$;
