//! The server is the wall: each role can do what its capabilities say and no more, whatever the
//! source brought along.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a step that fails fails its test")]

mod common;

use common::sealing::Sealing;
use tokio_postgres::Client;

/// The database that the gate's cases assume, and what each of them adds.
fn cases() -> (String, Vec<serde_json::Value>) {
    let mut schema = SCHEMA.to_owned();
    let text = std::fs::read_to_string("tests/cases/gate.jsonl").unwrap();
    let cases = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let cases: Vec<_> = cases.filter(|case| case["stop"] == "server").collect();
    for case in &cases {
        if let Some(setup) = case["setup"].as_str() {
            schema += &setup.replace("create function", "create or replace function");
            schema.push('\n');
        }
    }
    (schema, cases)
}

const SCHEMA: &str = "
create table account (id int primary key, email text unique, balance numeric not null default 0,
  tags text[] not null default '{}', grid int[] not null default '{1,2,3}', meta jsonb not null default '{}');
insert into account (id, email, balance)
  values (1, 'ann@example.test', 10), (2, 'bo@example.test', 20), (3, 'cy@example.test', 30);
create table invoice (id serial primary key,
  account_id int not null constraint invoice_account_fk references account on delete cascade deferrable,
  total numeric not null, paid boolean not null default false);
insert into invoice (account_id, total, paid) values (1, 5, true), (1, 7, false), (2, 9, false);
create table stock (sku text primary key, qty int not null check (qty >= 0));
insert into stock values ('bolt', 100), ('nut', 50);
create table logline (id bigint generated always as identity primary key, msg text);
insert into logline (msg) values ('first'), (null);
create table guarded (id int);
insert into guarded values (1);
create sequence ticket_seq;
create type mood as enum ('calm', 'busy');
create type pair as (a int, b text);
create view open_invoice as select * from invoice where not paid;
create materialized view invoice_total as select account_id, sum(total) as total from invoice group by account_id;
create unique index on invoice_total (account_id);
create procedure close_day() language plpgsql as $$ begin update invoice set paid = true; end $$;
select lo_from_bytea(424242, 'seed');
";

/// Ways round the privileges on tables, and what opens the server itself.
const NASTY: &str = "
create role app superuser login password 'x' valid until '2040-01-01'; create role reporter login;
grant pg_read_all_data, pg_execute_server_program to reporter;
create table owned (a int); insert into owned values (1); alter table owned owner to app;
grant all on owned to public; grant update (a) on owned to reporter with grant option;
set role reporter; grant update (a) on owned to public; reset role;
grant execute on function pg_read_file(text) to public;
grant execute on function pg_ls_dir(text) to app;
grant select on pg_authid to app; grant select (rolpassword) on pg_authid to public;
alter default privileges grant all on tables to public;
create function log_it(m text) returns int language plpgsql security definer as
  $$ begin insert into logline (msg) values (m); return 1; end $$;
alter function log_it owner to app;
create function log_op(a int, b int) returns bool language plpgsql security definer as
  $$ begin insert into logline (msg) values ('operator'); return a > b; end $$;
create operator >>> (leftarg = int, rightarg = int, function = log_op,
  restrict = scalargtsel, join = scalargtjoinsel);
create function log_step(int, int) returns int language plpgsql security definer as
  $$ begin insert into logline (msg) values ('aggregate'); return $1 + $2; end $$;
create aggregate logged_sum (int) (sfunc = log_step, stype = int, initcond = '0');
create aggregate honest_sum (int) (sfunc = int4pl, stype = int, initcond = '0');
create function vol(text) returns text language plpgsql as $$ begin execute $1; return $1; end $$;
create function email_of(account) returns text language plpgsql security definer as
  $$ begin insert into logline (msg) values ('attribute'); return $1.email; end $$;
create table hidden (id int, who text); insert into hidden values (1, 'x');
alter table hidden enable row level security;
create policy logged on hidden using (log_it(who) = 1);
create table watched (id int, check (id > 0)); insert into watched values (1);
create table indexed (id int, name text); insert into indexed values (1, 'a');
create function seen(text) returns text language plpgsql immutable security definer as
  $$ begin insert into logline (msg) values ('index'); return $1; end $$;
create index on indexed (seen(name));
create domain checked as int check (log_it('domain') = 1);
create function trig() returns trigger language plpgsql security definer as
  $$ begin insert into logline (msg) values ('trigger'); return new; end $$;
create trigger logged before update on stock for each row execute function trig();
create schema other; create function other.lower(text) returns text language plpgsql security definer as
  $$ begin insert into public.logline (msg) values ('shadow'); return $1; end $$;
create function onddl() returns event_trigger language plpgsql as
  $$ begin insert into public.logline (msg) values ('event'); end $$;
create event trigger watch on ddl_command_start execute function onddl();
alter event trigger watch enable always;
create extension dblink; create extension file_fdw; create extension postgres_fdw;
create extension hstore; create extension citext; create extension pgcrypto;
create extension \"uuid-ossp\"; create extension pg_stat_statements; create extension ltree;
create server files foreign data wrapper file_fdw;
create foreign table program (line text) server files options (program 'echo hello');
create foreign table passwd (line text) server files options (filename '/etc/passwd');
create server prod foreign data wrapper postgres_fdw options (host 'prod', dbname 'x');
grant usage on foreign data wrapper postgres_fdw to public; grant usage on foreign server prod to public;
create user mapping for public server prod options (user 'a', password 'open-sesame');
create publication everything for all tables;
create schema \"we ird\"; create table \"we ird\".\"Ta ble\" (\"x y\" int);
create function \"we ird\".\"fu nc\"(\"my arg\" int[], variadic b text[]) returns int language sql immutable as 'select 1';
";

/// Everything that a query can see of the user's data, as one value.
async fn digest(admin: &Client) -> String {
    let sql = "SELECT md5(string_agg(query_to_xml(format('SELECT * FROM %s x ORDER BY x::text', c.oid::regclass), true, true, '')::text, '' ORDER BY c.oid))
                 || (SELECT count(*) FROM pg_class) || '/' || (SELECT count(*) FROM pg_proc)
                 || '/' || (SELECT count(*) FROM pg_largeobject_metadata)
                 || '/' || (SELECT count(*) FROM pg_roles)
               FROM pg_class c WHERE c.oid >= 16384 AND c.relkind IN ('r', 'm', 'S')";
    admin.query_one(sql, &[]).await.unwrap().get(0)
}

struct Walled {
    sealing: Sealing,
    branch: String,
    admin: Client,
}

async fn walled(sql: &str) -> Walled {
    let sealing = Sealing::new().await;
    sealing.sql("walls", sql).await.unwrap();
    let branch = sealing.branch("walls", false).await;
    let admin = sealing.world.connect(&branch, "postern", true).await;
    // The tests' own connection is not postern's: it has to look away by itself.
    admin
        .batch_execute("SET session_replication_role = replica; SET search_path = pg_catalog")
        .await
        .unwrap();
    Walled { sealing, branch, admin }
}

impl Walled {
    async fn client(&self, role: &str) -> Client {
        self.sealing.world.connect(&self.branch, role, true).await
    }

    /// Runs each as a role that wants to write; none may change anything.
    async fn refused(&self, role: &str, statements: &[&str]) {
        let before = digest(&self.admin).await;
        for sql in statements {
            let client = self.client(role).await;
            client.batch_execute("SET default_transaction_read_only = off").await.unwrap();
            let result = client.batch_execute(sql).await;
            assert!(result.is_err(), "{role} got through with: {sql}");
            assert_eq!(digest(&self.admin).await, before, "{role} changed something with: {sql}");
        }
    }

    /// Runs each; all must work.
    async fn works(&self, role: &str, statements: &[&str]) {
        let client = self.client(role).await;
        for sql in statements {
            if let Err(e) = client.batch_execute(sql).await {
                panic!("{role} cannot: {sql}: {}", e.as_db_error().unwrap().message());
            }
        }
    }
}

#[tokio::test]
async fn what_no_parser_can_see_is_stopped_by_the_server() {
    let (schema, cases) = cases();
    assert!(cases.len() >= 8);
    let walled = walled(&schema).await;
    for case in &cases {
        let role = if case["needs"][0] == "migrate" { "postern_migrate" } else { "postern_read" };
        let sql = case["sql"].as_str().unwrap();
        let client = walled.client(role).await;
        client.batch_execute("SET default_transaction_read_only = off").await.unwrap();
        let before = digest(&walled.admin).await;
        let result = client.batch_execute(sql).await;
        assert_eq!(digest(&walled.admin).await, before, "{}", case["id"]);
        assert!(result.is_err(), "{}: {sql}", case["id"]);
    }
}

#[tokio::test]
async fn the_roles_hold_whatever_the_source_brings() {
    let walled = walled(&format!("{SCHEMA}{NASTY}")).await;

    walled.works("postern_read", READS).await;
    walled.refused("postern_read", READER).await;
    walled.refused("postern_read", ANYBODY).await;
    // What a reader is refused by being planned, folded or sorted leaves no trace either.
    let before = digest(&walled.admin).await;
    let read = walled.client("postern_read").await;
    read.batch_execute("SET default_transaction_read_only = off").await.unwrap();
    for sql in [
        "EXPLAIN SELECT * FROM account WHERE id >>> 2",
        "EXPLAIN SELECT * FROM indexed WHERE seen(name) = 'a'",
        "SELECT * FROM indexed WHERE name = 'a'",
        "SELECT * FROM indexed ORDER BY name",
        "SELECT * FROM program",
        "SELECT * FROM passwd",
        "SELECT * FROM hidden",
    ] {
        let _ = read.batch_execute(sql).await;
        assert_eq!(digest(&walled.admin).await, before, "{sql}");
    }
    let rows = read.query("SELECT * FROM passwd", &[]).await.unwrap();
    assert!(rows.is_empty(), "a file of the machine was read");

    walled.refused("postern_write", WRITER).await;
    walled.refused("postern_write", ANYBODY).await;
    walled.refused("postern_truncate", ANYBODY).await;
    walled.works("postern_write", WRITES).await;
    walled.works("postern_truncate", &["TRUNCATE watched", "INSERT INTO watched VALUES (2)"]).await;

    walled.refused("postern_migrate", ANYBODY).await;
    walled.works("postern_migrate", MIGRATIONS).await;
    // What a migration makes is open to the others.
    walled.works("postern_read", &["SELECT * FROM made", "SELECT * FROM fresh.made"]).await;
    walled.works("postern_write", &["INSERT INTO made DEFAULT VALUES", "DELETE FROM made"]).await;
    walled.refused("postern_read", &["INSERT INTO made DEFAULT VALUES"]).await;
    walled.refused("postern_write", &["TRUNCATE made", "ALTER TABLE made ADD b int"]).await;
}

const READS: &[&str] = &[
    "SELECT count(*), sum(balance), array_agg(id), jsonb_agg(meta), string_agg(email, ',') FROM account",
    "SELECT honest_sum(id), random(), clock_timestamp(), gen_random_uuid(), uuid_generate_v4() FROM account",
    "SELECT * FROM open_invoice JOIN invoice_total USING (account_id)",
    "SELECT count(*) FROM information_schema.columns",
    "SELECT count(*) FROM information_schema.role_table_grants",
    "SELECT * FROM pg_stat_activity; SELECT * FROM pg_settings; SELECT * FROM pg_sequences",
    "SELECT pg_size_pretty(pg_total_relation_size('account')), pg_get_viewdef('open_invoice'::regclass)",
    "SELECT n.nspname, c.relname, pg_catalog.pg_get_userbyid(c.relowner), pg_catalog.pg_table_size(c.oid)
     FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace",
    "SELECT lo_get(424242)",
    "SELECT 'a=>1'::hstore -> 'a', 'A'::citext = 'a', 'a.b'::ltree @> 'a.b.c', digest('x', 'sha256')",
    "SELECT * FROM \"we ird\".\"Ta ble\"; SELECT \"we ird\".\"fu nc\"('{1}', 'a')",
    "SELECT set_config('app.tenant', '1', false), current_setting('app.tenant')",
    "SELECT pg_advisory_lock(1), pg_advisory_unlock(1)",
    "BEGIN; DECLARE c CURSOR FOR SELECT * FROM account; FETCH 1 FROM c; COMMIT",
    "SELECT * FROM owned; SELECT last_value FROM ticket_seq",
    "COPY account TO STDOUT",
    "PREPARE p AS SELECT * FROM account WHERE id = $1; EXECUTE p(1); DEALLOCATE p",
    "EXPLAIN (ANALYZE) SELECT * FROM account ORDER BY email",
];

/// What only a writer may, and the ways round.
const READER: &[&str] = &[
    "INSERT INTO account (id) VALUES (9)",
    "UPDATE account SET balance = 0",
    "DELETE FROM invoice",
    "TRUNCATE stock",
    "SELECT * FROM account FOR UPDATE",
    "BEGIN; LOCK TABLE account IN ROW EXCLUSIVE MODE",
    "INSERT INTO owned VALUES (2)",
    "UPDATE owned SET a = 2",
    "SELECT nextval('ticket_seq')",
    "SELECT setval('ticket_seq', 7)",
    "SELECT pg_notify('a', 'b')",
    "SELECT lo_create(0)",
    "SELECT lo_put(424242, 0, 'x')",
    "SELECT lo_unlink(424242)",
    "SELECT lowrite(lo_open(424242, 131072), 'x')",
    "SELECT log_it('x')",
    "SELECT 1 >>> 2",
    "SELECT logged_sum(id) FROM account",
    "SELECT (a).email_of FROM account a",
    "SELECT * FROM hidden",
    "SELECT 5::checked",
    "SELECT vol('delete from account')",
    "SELECT other.lower('x')",
    "SET search_path = other, pg_catalog, public; SELECT other.lower('x')",
    "SELECT query_to_xml('delete from account', true, true, '')",
    "CREATE TEMP TABLE t (a int)",
    "CALL close_day()",
    "REFRESH MATERIALIZED VIEW invoice_total",
    "COPY account FROM STDIN",
];

/// What only an owner may.
const WRITER: &[&str] = &[
    "TRUNCATE stock",
    "ALTER TABLE account ADD b int",
    "DROP TABLE stock",
    "CREATE TABLE t (a int)",
    "CREATE SCHEMA s",
    "CREATE INDEX ON account (balance)",
    "CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'select 1'",
    "CREATE VIEW v AS SELECT 1",
    "CREATE EXTENSION pg_trgm",
    "DO 'begin end'",
    "COMMENT ON TABLE account IS 'x'",
    "GRANT SELECT ON account TO PUBLIC",
    "SELECT log_it('x')",
    "SELECT 1 >>> 2",
    "SELECT logged_sum(id) FROM account",
    "SELECT lo_unlink(424242)",
    "CREATE TRIGGER t BEFORE UPDATE ON account FOR EACH ROW EXECUTE FUNCTION trig()",
    "ALTER EVENT TRIGGER watch DISABLE",
];

/// What no lease may.
const ANYBODY: &[&str] = &[
    "ALTER SYSTEM SET work_mem = '1MB'",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "COPY account TO '/dev/null'",
    "CREATE TEMP TABLE t (a text); COPY t FROM PROGRAM 'id'",
    "SELECT pg_read_file('PG_VERSION')",
    "SELECT pg_ls_dir('.')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT rolpassword FROM pg_authid",
    "SELECT * FROM pg_user_mapping",
    "SELECT * FROM pg_statistic",
    "SET SESSION AUTHORIZATION postern",
    "SET ROLE postern",
    "SET ROLE pg_read_all_data",
    "SET session_replication_role = replica",
    "SET log_statement = 'all'",
    "LOAD 'auto_explain'",
    "CREATE ROLE evil",
    "ALTER ROLE postern_read SUPERUSER",
    "ALTER ROLE postern PASSWORD 'x'",
    "CREATE DATABASE evil",
    "ALTER DATABASE walls RENAME TO other",
    "CREATE FUNCTION c() RETURNS int LANGUAGE c AS 'x', 'y'",
    "CREATE EXTENSION plperlu",
    "CREATE EXTENSION adminpack",
    "SELECT dblink('dbname=walls user=postern', 'select 1')",
    "SELECT dblink_connect_u('dbname=walls user=postern')",
    "SELECT pg_stat_statements_reset()",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity",
    "SELECT pg_logical_emit_message(false, 'a', 'b')",
    "SELECT pg_create_physical_replication_slot('x')",
    "SELECT pg_promote()",
    "CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw",
    "ALTER FOREIGN TABLE passwd OPTIONS (SET filename '/etc/passwd')",
    "CREATE EVENT TRIGGER e ON ddl_command_start EXECUTE FUNCTION onddl()",
    "CREATE SUBSCRIPTION s CONNECTION 'host=x' PUBLICATION p WITH (connect = false)",
    "CREATE TABLESPACE s LOCATION '/tmp'",
    "GRANT pg_read_all_data TO postern_read",
    "UPDATE pg_class SET relname = 'x' WHERE relname = 'account'",
    "CREATE TABLE pg_catalog.x (a int)",
    "CHECKPOINT",
];

const WRITES: &[&str] = &[
    "INSERT INTO invoice (account_id, total) VALUES (1, 2) RETURNING id",
    "INSERT INTO logline (msg) VALUES ('a')",
    "UPDATE stock SET qty = 1",
    "SELECT nextval('ticket_seq'), setval('ticket_seq', 9)",
    "SELECT pg_notify('a', 'b'); NOTIFY a",
    "SELECT lo_put(424242, 0, 'x'), lo_unlink(lo_create(0))",
    "CREATE TEMP TABLE t AS SELECT * FROM account; INSERT INTO t SELECT * FROM t",
    "SELECT * FROM account FOR UPDATE",
    "BEGIN; LOCK TABLE account IN EXCLUSIVE MODE; COMMIT",
    "SELECT vol('delete from guarded')",
    "SELECT txid_current(), uuid_generate_v1()",
];

const MIGRATIONS: &[&str] = &[
    "CREATE TABLE made (id serial PRIMARY KEY)",
    "CREATE SCHEMA fresh; CREATE TABLE fresh.made (id int)",
    "ALTER TABLE owned ADD b int; DROP TABLE owned CASCADE",
    "TRUNCATE stock",
    "CREATE EXTENSION pg_trgm; CREATE INDEX ON account USING gin (email gin_trgm_ops)",
    "DROP EXTENSION hstore; DROP EXTENSION dblink",
    "CREATE FUNCTION f(int) RETURNS int LANGUAGE plpgsql AS 'begin return $1; end'",
    "DO 'begin perform 1; end'",
    "CREATE OR REPLACE FUNCTION onddl() RETURNS event_trigger LANGUAGE plpgsql AS 'begin end'",
    "CREATE VIEW v AS SELECT * FROM account; DROP VIEW v",
    "REFRESH MATERIALIZED VIEW invoice_total",
    "ALTER TYPE mood ADD VALUE 'odd'",
    "VACUUM account; ANALYZE account",
    "CREATE PUBLICATION p FOR TABLE account; DROP PUBLICATION p",
    "COMMENT ON SCHEMA public IS 'x'",
    "SELECT log_it('x')",
    "DROP FUNCTION log_it CASCADE",
    "ALTER TABLE hidden DISABLE ROW LEVEL SECURITY",
    "REINDEX TABLE account",
];

#[tokio::test]
async fn code_that_runs_unasked_with_its_owners_rights_is_refused() {
    let sealing = Sealing::new().await;
    let sql = "
        CREATE TABLE seen (a text);
        CREATE FUNCTION cmp(int, int) RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS
          'begin insert into seen values (''x''); return btint4cmp($1, $2); end';
        CREATE OPERATOR CLASS noisy FOR TYPE int USING btree AS
          OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 cmp(int, int);";
    let error = sealing.sql("noisy", sql).await.unwrap_err().to_string();
    assert!(error.contains("public.cmp(integer,integer)"), "{error}");
    assert_eq!(sealing.leftovers().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_reader_sorts_and_joins_by_an_honest_operator_class() {
    let walled = walled(
        "CREATE FUNCTION cmp(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'select btint4cmp($1, $2)';
         CREATE OPERATOR CLASS honest FOR TYPE int USING btree AS
          OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 cmp(int, int);
         CREATE TABLE t (a int); CREATE INDEX ON t (a honest); INSERT INTO t VALUES (2), (1);",
    )
    .await;
    walled.works("postern_read", &["SELECT * FROM t ORDER BY a"]).await;
}
