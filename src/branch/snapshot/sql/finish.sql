-- The last of it: the source's event triggers are as they were, save those that run at login, and
-- the roles of leases can log in.
DROP ROLE postern_import;
ALTER ROLE postern_read LOGIN;
ALTER ROLE postern_write LOGIN;
ALTER ROLE postern_truncate LOGIN;
ALTER ROLE postern_migrate LOGIN;
DO $finish$
DECLARE
    t record;
BEGIN
    FOR t IN SELECT key, value FROM jsonb_each_text(current_setting('postern.event_triggers')::jsonb) LOOP
        EXECUTE format('ALTER EVENT TRIGGER %I ENABLE %s', t.key,
            CASE t.value WHEN 'R' THEN 'REPLICA' WHEN 'A' THEN 'ALWAYS' ELSE '' END);
    END LOOP;
END
$finish$;
RESET postern.event_triggers;
