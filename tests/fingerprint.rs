//! The fingerprint of a schema: what changes it, what does not, and what a diff says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper that fails fails its test"
)]

mod pg;

use std::collections::BTreeSet;

use pg::Cluster;
use postern::error::UserFacingError as _;
use postern::schema::{Fingerprint, FingerprintError, Scope, diff, fingerprint, fingerprint_in};
use tokio_postgres::Client;

const EVERY_KIND: &str = include_str!("schema/every_kind.sql");
/// Changes, a line each: the statements, `=>`, and a line of the diff.
const CHANGES: &str = include_str!("schema/changes.sql");

async fn source(cluster: &Cluster) -> Client {
    let client = cluster.create("source").await;
    client.batch_execute("CREATE ROLE app; CREATE ROLE reader; CREATE ROLE boss").await.unwrap();
    client.batch_execute("GRANT app TO boss").await.unwrap();
    client.batch_execute(EVERY_KIND).await.unwrap();
    client
}

async fn of(client: &Client) -> Fingerprint {
    fingerprint(client).await.unwrap()
}

fn assert_same(a: &Fingerprint, b: &Fingerprint, why: &str) {
    assert_eq!(diff(a, b).to_string(), "", "{why}");
    assert_eq!(a.digest(), b.digest(), "{why}");
}

#[tokio::test]
async fn a_restored_dump_has_the_same_fingerprint() {
    let cluster = Cluster::start().await;
    let before = of(&source(&cluster).await).await;
    let other = Cluster::start().await;
    other.restore(&cluster.dump());
    let client = other.connect("source").await;
    assert_same(&before, &of(&client).await, "dump and restore");

    let saved = Fingerprint::from_json(&before.to_json()).unwrap();
    assert_same(&before, &saved, "saved and loaded");
    assert!(!before.to_json().contains("hush-hush"), "a secret is among the facts");
}

#[tokio::test]
async fn every_kind_of_object_is_among_the_facts() {
    let cluster = Cluster::start().await;
    let all = of(&source(&cluster).await).await;
    let kinds: BTreeSet<_> =
        all.facts().objects.keys().map(|name| name.rsplit_once(' ').unwrap().0).collect();
    let text = kinds.into_iter().collect::<Vec<_>>().join("\n");
    for kind in [
        "access method",
        "aggregate",
        "cast",
        "collation",
        "composite type",
        "conversion",
        "default acl",
        "domain",
        "event trigger",
        "extension",
        "foreign table",
        "foreign-data wrapper",
        "function",
        "index",
        "language",
        "materialized view",
        "operator",
        "operator class",
        "operator family",
        "procedure",
        "publication",
        "role",
        "schema",
        "sequence",
        "server",
        "statistics object",
        "table",
        "text search configuration",
        "text search dictionary",
        "text search parser",
        "text search template",
        "transform",
        "type",
        "user mapping",
        "view",
    ] {
        assert!(text.lines().any(|line| line.starts_with(kind)), "no {kind} in\n{text}");
    }
    let orders = &all.facts().objects["table shop.invoice"];
    assert_eq!(orders["column total"]["type"], "numeric(10,2)");
    assert_eq!(orders["column id"]["default"], "nextval('shop.invoice_id_seq'::regclass)");
}

#[tokio::test]
async fn every_change_is_seen_and_named() {
    let cluster = Cluster::start().await;
    let client = source(&cluster).await;
    let major: u32 = client
        .query_one("SELECT current_setting('server_version_num')", &[])
        .await
        .unwrap()
        .get::<_, String>(0)
        .parse::<u32>()
        .unwrap()
        / 10000;
    let mut seen = BTreeSet::new();
    let mut before = of(&client).await;
    seen.insert(before.digest());
    let mut wrong = Vec::new();
    let changes: Vec<_> = CHANGES.lines().filter(|line| line.contains("=>")).collect();
    assert!(changes.len() >= 60, "only {}", changes.len());
    for line in &changes {
        let (sql, said) = line.split_once("=>").unwrap();
        client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{major}: {sql}: {error:?}"));
        let after = of(&client).await;
        let changed = diff(&before, &after).to_string();
        if !changed.lines().any(|line| line.contains(said.trim())) {
            wrong.push(format!("{sql}\n  should say: {}\n  says: {changed}", said.trim()));
        }
        if !seen.insert(after.digest()) {
            wrong.push(format!("{sql}: a fingerprint that was there before"));
        }
        before = after;
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), changes.len(), wrong.join("\n"));
}

#[tokio::test]
async fn what_changes_no_behaviour_changes_nothing() {
    let cluster = Cluster::start().await;
    let client = source(&cluster).await;
    let before = of(&client).await;
    let steps = [
        "INSERT INTO shop.customer (email) SELECT 'c' || i FROM generate_series(1, 500) i;
         SELECT nextval('shop.ticket'); ANALYZE",
        "VACUUM FULL shop.customer",
        "REINDEX TABLE shop.customer; CLUSTER shop.invoice",
        // The same objects under other identifiers.
        "DROP MATERIALIZED VIEW shop.unfilled;
         CREATE MATERIALIZED VIEW shop.unfilled AS SELECT 1 AS one WITH NO DATA",
        "DROP INDEX shop.by_trigram; CREATE INDEX by_trigram ON shop.customer
         USING gin (name gin_trgm_ops)",
        "DROP EXTENSION plpgsql CASCADE; CREATE EXTENSION plpgsql;
         COMMENT ON EXTENSION plpgsql IS 'PL/pgSQL procedural language'",
        // The same grants in another order.
        "REVOKE ALL ON FUNCTION shop.twice(int) FROM reader, app;
         GRANT EXECUTE ON FUNCTION shop.twice(int) TO app, reader WITH GRANT OPTION",
        "GRANT SELECT ON shop.scratch TO postgres",
        "REVOKE EXECUTE ON FUNCTION pg_catalog.now() FROM PUBLIC;
         GRANT EXECUTE ON FUNCTION pg_catalog.now() TO PUBLIC",
        "CREATE TEMP TABLE passing (a int PRIMARY KEY); CREATE TYPE pg_temp.passing_too AS ENUM ();
         COMMENT ON COLUMN passing.a IS 'x'; CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql
         AS 'SELECT 1'",
        "SELECT lo_from_bytea(0, 'x')",
        "CREATE ROLE stranger PASSWORD 'x'; ALTER ROLE app PASSWORD 'y' CONNECTION LIMIT 3",
    ];
    // Dropping the language takes the functions with it; they come back as they were.
    let functions = "CREATE OR REPLACE PROCEDURE shop.tidy() LANGUAGE plpgsql
        AS $$ BEGIN NULL; END $$";
    for step in steps {
        if step.starts_with("DROP EXTENSION") {
            continue;
        }
        for statement in step.split(';').filter(|s| !s.trim().is_empty()) {
            client.batch_execute(statement).await.unwrap_or_else(|e| panic!("{statement}: {e:?}"));
        }
        assert_same(&before, &of(&client).await, step);
    }
    client.batch_execute(functions).await.unwrap();
    assert_same(&before, &of(&client).await, "the same function again");

    // In a database where nothing depends on it, an extension that initdb made can be made anew.
    let plain = cluster.create("plain").await;
    let before = of(&plain).await;
    plain.batch_execute("DROP EXTENSION plpgsql; CREATE EXTENSION plpgsql").await.unwrap();
    plain
        .batch_execute(
            "DROP SCHEMA public; CREATE SCHEMA public AUTHORIZATION pg_database_owner;
            GRANT USAGE ON SCHEMA public TO PUBLIC;
            COMMENT ON SCHEMA public IS 'standard public schema'",
        )
        .await
        .unwrap();
    assert_same(&before, &of(&plain).await, "plpgsql and public made anew");
}

#[tokio::test]
async fn the_settings_of_a_session_and_its_temporary_objects_do_not_matter() {
    let cluster = Cluster::start().await;
    let client = source(&cluster).await;
    let before = of(&client).await;
    client
        .batch_execute(
            "ALTER ROLE postgres SET search_path = evil, shop;
             ALTER ROLE postgres SET quote_all_identifiers = on;
             ALTER ROLE postgres SET DateStyle = 'German';
             ALTER ROLE postgres SET default_transaction_isolation = 'serializable'",
        )
        .await
        .unwrap();
    let client = cluster.connect("source").await;
    client.batch_execute("CREATE TEMP TABLE pg_class (a int)").await.unwrap();
    assert_same(&before, &of(&client).await, "settings of the role");
    let path: String = client.query_one("SHOW search_path", &[]).await.unwrap().get(0);
    assert_eq!(path, "evil, shop", "the session's own settings are left as they were");
}

#[tokio::test]
async fn a_standby_has_the_fingerprint_it_had() {
    let mut cluster = Cluster::start().await;
    let before = of(&source(&cluster).await).await;
    cluster.restart_as_standby().await;
    let client = cluster.connect("source").await;
    let standby: bool = client.query_one("SELECT pg_is_in_recovery()", &[]).await.unwrap().get(0);
    assert!(standby);
    assert_same(&before, &of(&client).await, "in recovery");
}

#[tokio::test]
async fn ignored_roles_do_not_count() {
    let cluster = Cluster::start().await;
    let client = source(&cluster).await;
    let scope = Scope { ignored_roles: BTreeSet::from(["lease'x".to_owned()]) };
    let before = fingerprint_in(&client, &scope).await.unwrap();
    client
        .batch_execute(
            "CREATE ROLE \"lease'x\" LOGIN; GRANT app TO \"lease'x\";
             GRANT SELECT ON ALL TABLES IN SCHEMA shop TO \"lease'x\";
             ALTER ROLE \"lease'x\" IN DATABASE source SET role = app;
             ALTER DEFAULT PRIVILEGES FOR ROLE \"lease'x\" GRANT SELECT ON TABLES TO reader",
        )
        .await
        .unwrap();
    assert_same(&before, &fingerprint_in(&client, &scope).await.unwrap(), "grants to it");
    assert_ne!(before.digest(), of(&client).await.digest());
}

#[tokio::test]
async fn what_is_not_known_fails_loudly() {
    let cluster = Cluster::start().await;
    let client = source(&cluster).await;
    client
        .batch_execute("SET allow_system_table_mods = on; ALTER TABLE pg_am ADD COLUMN amnew int")
        .await
        .unwrap();
    let error = fingerprint(&client).await.unwrap_err();
    assert!(
        matches!(&error, FingerprintError::UnknownColumn { catalog: "pg_am", column }
        if column == "amnew"),
        "{error}"
    );
    assert!(error.to_string().contains("pg_am.amnew") && error.hint().is_some());
    client.batch_execute("ALTER TABLE pg_am DROP COLUMN amnew").await.unwrap();
    client.batch_execute("UPDATE pg_class SET relkind = 'x' WHERE relname = 'calm'").await.unwrap();
    let error = fingerprint(&client).await.unwrap_err();
    assert!(error.to_string().contains("calm"), "{error}");
    // The connection is left out of any transaction.
    client.batch_execute("UPDATE pg_class SET relkind = 'v' WHERE relname = 'calm'").await.unwrap();
    of(&client).await;

    let error = fingerprint(&cluster.connect_as_new("nobody", "source").await).await.unwrap_err();
    assert!(matches!(error, FingerprintError::NotSuperuser), "{error}");
}
