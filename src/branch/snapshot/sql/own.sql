-- Who owns what. Whatever an agent may change belongs to `postern_owner` or to a role that came
-- along; whatever would let it act as the server's superuser or as the server's operating-system
-- user stays with the bootstrap superuser.

-- A dump of a branch names the roles of leases; here they start with nothing.
REASSIGN OWNED BY postern_read, postern_write, postern_truncate, postern_migrate TO postern_owner;
DROP OWNED BY postern_read, postern_write, postern_truncate, postern_migrate;

DO $own$
DECLARE
    o record;
    everything text := '';
BEGIN
    EXECUTE format('ALTER DATABASE %I OWNER TO postern', current_database());
    EXECUTE format('ALTER DATABASE %I CONNECTION LIMIT -1', current_database());
    -- Only a superuser can own these.
    FOR o IN SELECT fdwname FROM pg_foreign_data_wrapper LOOP
        EXECUTE format('ALTER FOREIGN DATA WRAPPER %I OWNER TO postern', o.fdwname);
    END LOOP;
    IF to_regclass('pg_catalog.pg_publication_namespace') IS NOT NULL THEN
        everything := ' OR oid IN (SELECT pnpubid FROM pg_publication_namespace)';
    END IF;
    FOR o IN EXECUTE 'SELECT pubname FROM pg_publication WHERE puballtables' || everything LOOP
        EXECUTE format('ALTER PUBLICATION %I OWNER TO postern', o.pubname);
    END LOOP;
    -- What an extension is made of: PostgreSQL itself gives it to the bootstrap superuser when
    -- somebody else creates a trusted extension. An owner could call `pg_file_write` or
    -- `dblink_connect_u` whatever their privileges say.
    FOR o IN
        SELECT i.type, i.identity
        FROM pg_depend d
        CROSS JOIN LATERAL pg_identify_object(d.classid, d.objid, 0) i
        WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
          AND EXISTS (
              SELECT FROM pg_shdepend s
              WHERE s.classid = d.classid AND s.objid = d.objid AND s.objsubid = 0 AND s.deptype = 'o'
                AND s.refclassid = 'pg_authid'::regclass
                AND s.dbid = (SELECT oid FROM pg_database WHERE datname = current_database()))
          -- The types of rows and arrays follow what they belong to.
          AND NOT (d.classid = 'pg_type'::regclass AND EXISTS (
              SELECT FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
              WHERE t.oid = d.objid
                AND (t.typcategory = 'A' OR (t.typtype = 'c' AND c.relkind <> 'c'))))
          AND NOT (d.classid = 'pg_class'::regclass AND EXISTS (
              SELECT FROM pg_class c WHERE c.oid = d.objid AND c.relkind NOT IN ('r', 'p', 'v', 'm', 'f', 'S')))
    LOOP
        EXECUTE format('ALTER %s %s OWNER TO postern',
            CASE WHEN o.type IN ('function', 'procedure', 'aggregate') THEN 'ROUTINE' ELSE o.type END,
            o.identity);
    END LOOP;
    -- Functions that run whatever they like on the server's machine.
    FOR o IN
        SELECT p.oid::regprocedure AS name, p.prosecdef, p.prokind
        FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
        WHERE p.oid >= 16384 AND NOT l.lanpltrusted AND l.lanname <> 'internal'
          AND p.proowner <> 'postern'::regrole
    LOOP
        EXECUTE format('ALTER ROUTINE %s OWNER TO postern', o.name);
        IF o.prosecdef THEN
            EXECUTE format('ALTER ROUTINE %s SECURITY INVOKER', o.name);
        END IF;
    END LOOP;
END
$own$;

REASSIGN OWNED BY postern_import TO postern_owner;
DROP OWNED BY postern_import;

DO $own$
DECLARE
    o record;
BEGIN
    -- Schemas of the database's owner would be the superuser's.
    FOR o IN
        SELECT nspname FROM pg_namespace
        WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
          AND (nspowner < 16384)
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_namespace'::regclass
                          AND d.objid = pg_namespace.oid AND d.deptype = 'e')
    LOOP
        EXECUTE format('ALTER SCHEMA %I OWNER TO postern_owner', o.nspname);
    END LOOP;
    -- A role that came along may have left things to the server's own roles; nobody may.
    FOR o IN
        SELECT rolname FROM pg_roles
        WHERE oid >= 16384 AND rolname !~ '^postern_(owner|read|write|truncate|migrate|import)$'
    LOOP
        EXECUTE format('GRANT %I TO postern_owner', o.rolname);
    END LOOP;
END
$own$;
