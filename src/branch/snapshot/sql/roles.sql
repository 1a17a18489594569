-- Made before the restore, so that a dump of a branch may name them. Nobody but postern's own
-- system user can log in as any of them; a script cannot make one of the names its own.
CREATE ROLE postern_owner NOLOGIN;
CREATE ROLE postern_read NOLOGIN;
CREATE ROLE postern_write NOLOGIN;
CREATE ROLE postern_truncate NOLOGIN;
CREATE ROLE postern_migrate NOLOGIN;
CREATE ROLE postern_import LOGIN SUPERUSER;
