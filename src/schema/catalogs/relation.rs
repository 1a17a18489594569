//! Tables, views, indexes, sequences and what hangs on them.

use super::Column::{Grants, Kind, Not, Options, Owner, Ref, Refs, Sql, Told, Value};
use super::{Catalog, MADE, OID, PHYSICAL, Rows};

pub(super) const ALL: &[Catalog] = &[
    Catalog {
        name: "pg_namespace",
        rows: Rows::Of {
            class: "pg_namespace",
            oid: "c.oid",
            part: "''",
            keep: "(c.oid >= 16384 OR c.nspname = 'public')
                   AND c.nspname !~ '^pg_(toast_)?temp_'",
        },
        columns: &[
            OID,
            ("nspname", Told),
            ("nspowner", Owner),
            ("nspacl", Grants("acldefault('n', c.nspowner)")),
        ],
    },
    Catalog {
        name: "pg_class",
        rows: Rows::Of { class: "pg_class", oid: "c.oid", part: "''", keep: MADE },
        columns: &[
            OID,
            ("relname", Told),
            ("relnamespace", Told),
            ("reltype", Not("made beside the table")),
            ("reloftype", Ref("of type", "pg_type")),
            ("relowner", Owner),
            ("relam", Ref("access method", "pg_am")),
            ("relfilenode", PHYSICAL),
            ("reltablespace", Ref("tablespace", "pg_tablespace")),
            ("relpages", PHYSICAL),
            ("reltuples", PHYSICAL),
            ("relallvisible", PHYSICAL),
            ("relallfrozen", PHYSICAL),
            (
                "reltoastrelid",
                Sql(
                    "toast options",
                    "(SELECT array_agg(o ORDER BY o COLLATE \"C\") FROM pg_class t,
                      unnest(t.reloptions) o WHERE t.oid = c.reltoastrelid)",
                ),
            ),
            ("relhasindex", PHYSICAL),
            ("relisshared", PHYSICAL),
            ("relpersistence", Value("persistence")),
            ("relkind", Kind("kind", "rpvmfciIS")),
            ("relnatts", PHYSICAL),
            ("relchecks", PHYSICAL),
            ("relhasrules", PHYSICAL),
            ("relhastriggers", PHYSICAL),
            ("relhassubclass", PHYSICAL),
            ("relrowsecurity", Value("row security")),
            ("relforcerowsecurity", Value("forced row security")),
            ("relispopulated", Value("populated")),
            ("relreplident", Value("replica identity")),
            ("relispartition", Value("partition")),
            ("relrewrite", PHYSICAL),
            ("relfrozenxid", PHYSICAL),
            ("relminmxid", PHYSICAL),
            (
                "relacl",
                Grants(
                    "CASE WHEN c.relkind NOT IN ('i', 'I', 'c') THEN
                     acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::\"char\", c.relowner)
                     END",
                ),
            ),
            (
                "reloptions",
                Sql(
                    "options",
                    "(SELECT array_agg(o ORDER BY o COLLATE \"C\") FROM unnest(c.reloptions) o)",
                ),
            ),
            ("relpartbound", Sql("partition bound", "pg_get_expr(c.relpartbound, c.oid)")),
        ],
    },
    Catalog {
        name: "pg_attribute",
        rows: Rows::Of {
            class: "pg_class",
            oid: "c.attrelid",
            part: "CASE WHEN (SELECT relkind IN ('i', 'I') FROM pg_class WHERE oid = c.attrelid)
                   THEN 'column ' || c.attnum ELSE 'column ' || quote_ident(c.attname) END",
            keep: "c.attrelid >= 16384 AND c.attnum > 0 AND NOT c.attisdropped
                   AND (SELECT relkind NOT IN ('S', 't') FROM pg_class WHERE oid = c.attrelid)",
        },
        columns: &[
            ("attrelid", Told),
            ("attname", Told),
            ("atttypid", Sql("type", "format_type(c.atttypid, c.atttypmod)")),
            // Null and -1 both mean the default; version 17 changed which is stored.
            ("attstattarget", Sql("statistics target", "nullif(c.attstattarget, -1)")),
            ("attlen", Told),
            (
                "attnum",
                Sql(
                    "position",
                    "(SELECT count(*) FROM pg_attribute b WHERE b.attrelid = c.attrelid
                      AND b.attnum > 0 AND b.attnum <= c.attnum AND NOT b.attisdropped)",
                ),
            ),
            ("attndims", Not("the server does not enforce it and pg_dump does not keep it")),
            ("attcacheoff", PHYSICAL),
            ("atttypmod", Told),
            ("attbyval", Told),
            ("attalign", Told),
            ("attstorage", Value("storage")),
            ("attcompression", Sql("compression", "nullif(c.attcompression, '')")),
            ("attnotnull", Value("not null")),
            ("atthasdef", Told),
            ("atthasmissing", PHYSICAL),
            ("attidentity", Sql("identity", "nullif(c.attidentity, '')")),
            ("attgenerated", Sql("generated", "nullif(c.attgenerated, '')")),
            ("attisdropped", PHYSICAL),
            ("attislocal", Value("defined locally")),
            ("attinhcount", Value("inherited from")),
            ("attcollation", Ref("collation", "pg_collation")),
            ("attacl", Grants("NULL::aclitem[]")),
            (
                "attoptions",
                Sql(
                    "options",
                    "(SELECT array_agg(o ORDER BY o COLLATE \"C\") FROM unnest(c.attoptions) o)",
                ),
            ),
            ("attfdwoptions", Options("foreign options")),
            ("attmissingval", PHYSICAL),
        ],
    },
    Catalog {
        name: "pg_attrdef",
        rows: Rows::Of {
            class: "pg_class",
            oid: "c.adrelid",
            part: "(SELECT 'column ' || quote_ident(attname) FROM pg_attribute
                    WHERE attrelid = c.adrelid AND attnum = c.adnum)",
            keep: MADE,
        },
        columns: &[
            OID,
            ("adrelid", Told),
            ("adnum", Told),
            ("adbin", Sql("default", "pg_get_expr(c.adbin, c.adrelid)")),
        ],
    },
    Catalog {
        name: "pg_constraint",
        rows: Rows::Of {
            class: "CASE WHEN c.conrelid <> 0 THEN 'pg_class' ELSE 'pg_type' END",
            oid: "CASE WHEN c.conrelid <> 0 THEN c.conrelid ELSE c.contypid END",
            part: "'constraint ' || quote_ident(c.conname)",
            keep: MADE,
        },
        columns: &[
            OID,
            ("conname", Told),
            ("connamespace", Told),
            ("contype", Kind("kind", "cfnputx")),
            ("condeferrable", Value("deferrable")),
            ("condeferred", Value("initially deferred")),
            ("conenforced", Value("enforced")),
            ("convalidated", Value("validated")),
            ("conrelid", Told),
            ("contypid", Told),
            ("conindid", Ref("index", "pg_class")),
            ("conparentid", Ref("parent", "pg_constraint")),
            ("confrelid", Ref("references", "pg_class")),
            ("confupdtype", Told),
            ("confdeltype", Told),
            ("confmatchtype", Told),
            ("conislocal", Value("defined locally")),
            ("coninhcount", Value("inherited from")),
            ("connoinherit", Value("not inherited")),
            ("conperiod", Value("period")),
            ("conkey", Sql("definition", "pg_get_constraintdef(c.oid)")),
            ("confkey", Told),
            ("conpfeqop", Refs("operators key = foreign key", "pg_operator")),
            ("conppeqop", Refs("operators key = key", "pg_operator")),
            ("conffeqop", Refs("operators foreign key = foreign key", "pg_operator")),
            ("confdelsetcols", Told),
            ("conexclop", Refs("exclusion operators", "pg_operator")),
            ("conbin", Told),
        ],
    },
    Catalog {
        name: "pg_index",
        rows: Rows::Of {
            class: "pg_class",
            oid: "c.indexrelid",
            part: "''",
            keep: "c.indexrelid >= 16384",
        },
        columns: &[
            ("indexrelid", Told),
            ("indrelid", Ref("on table", "pg_class")),
            ("indnatts", Told),
            ("indnkeyatts", Told),
            ("indisunique", Told),
            ("indnullsnotdistinct", Told),
            ("indisprimary", Value("primary key")),
            ("indisexclusion", Value("exclusion")),
            ("indimmediate", Value("immediate")),
            ("indisclustered", Value("clustered on")),
            ("indisvalid", Value("valid")),
            ("indcheckxmin", PHYSICAL),
            ("indisready", Value("ready")),
            ("indislive", Value("live")),
            ("indisreplident", Value("replica identity")),
            ("indkey", Sql("definition", "pg_get_indexdef(c.indexrelid)")),
            ("indcollation", Refs("collations", "pg_collation")),
            ("indclass", Refs("operator classes", "pg_opclass")),
            ("indoption", Told),
            ("indexprs", Told),
            ("indpred", Told),
        ],
    },
    Catalog {
        name: "pg_inherits",
        rows: Rows::Of {
            class: "pg_class",
            oid: "c.inhrelid",
            part: "'parent ' || (SELECT identity FROM
                    pg_identify_object('pg_class'::regclass, c.inhparent, 0))",
            keep: "c.inhrelid >= 16384",
        },
        columns: &[
            ("inhrelid", Told),
            ("inhparent", Told),
            ("inhseqno", Value("order")),
            ("inhdetachpending", Value("detach pending")),
        ],
    },
    Catalog {
        name: "pg_partitioned_table",
        rows: Rows::Of {
            class: "pg_class",
            oid: "c.partrelid",
            part: "''",
            keep: "c.partrelid >= 16384",
        },
        columns: &[
            ("partrelid", Told),
            ("partstrat", Told),
            ("partnatts", Told),
            ("partdefid", Not("the default partition's own bound tells it")),
            ("partattrs", Sql("partition key", "pg_get_partkeydef(c.partrelid)")),
            ("partclass", Refs("partition operator classes", "pg_opclass")),
            ("partcollation", Refs("partition collations", "pg_collation")),
            ("partexprs", Told),
        ],
    },
    Catalog {
        name: "pg_policy",
        rows: Rows::Of {
            class: "pg_class",
            oid: "c.polrelid",
            part: "'policy ' || quote_ident(c.polname)",
            keep: MADE,
        },
        columns: &[
            OID,
            ("polname", Told),
            ("polrelid", Told),
            ("polcmd", Value("command")),
            ("polpermissive", Value("permissive")),
            (
                "polroles",
                Sql(
                    "roles",
                    "(SELECT array_agg(r ORDER BY r COLLATE \"C\") FROM unnest(c.polroles) o,
                      LATERAL (SELECT CASE o WHEN 0 THEN 'PUBLIC'
                      ELSE quote_ident(pg_get_userbyid(o)) END r) r)",
                ),
            ),
            ("polqual", Sql("using", "pg_get_expr(c.polqual, c.polrelid)")),
            ("polwithcheck", Sql("with check", "pg_get_expr(c.polwithcheck, c.polrelid)")),
        ],
    },
    Catalog {
        name: "pg_trigger",
        rows: Rows::Of {
            class: "pg_class",
            oid: "c.tgrelid",
            // The names of internal triggers have object identifiers in them.
            part: "CASE WHEN c.tgisinternal THEN 'internal trigger of ' || coalesce(
                    (SELECT 'constraint ' || identity FROM pg_identify_object(
                     'pg_constraint'::regclass, nullif(c.tgconstraint, 0), 0)),
                    quote_ident(c.tgname)) || ' calling ' || (SELECT identity FROM
                    pg_identify_object('pg_proc'::regclass, c.tgfoid, 0))
                   ELSE 'trigger ' || quote_ident(c.tgname) END",
            keep: MADE,
        },
        columns: &[
            OID,
            ("tgrelid", Told),
            (
                "tgparentid",
                Sql(
                    "of parent's trigger",
                    "(SELECT p.tgrelid::regclass::text FROM pg_trigger p
                      WHERE p.oid = c.tgparentid AND NOT p.tgisinternal)",
                ),
            ),
            ("tgname", Told),
            ("tgfoid", Told),
            ("tgtype", Value("events")),
            ("tgenabled", Value("enabled")),
            ("tgisinternal", Value("internal")),
            ("tgconstrrelid", Ref("references", "pg_class")),
            ("tgconstrindid", Told),
            ("tgconstraint", Told),
            ("tgdeferrable", Value("deferrable")),
            ("tginitdeferred", Value("initially deferred")),
            ("tgnargs", Told),
            (
                "tgattr",
                Sql("definition", "CASE WHEN NOT c.tgisinternal THEN pg_get_triggerdef(c.oid) END"),
            ),
            ("tgargs", Told),
            ("tgqual", Told),
            ("tgoldtable", Told),
            ("tgnewtable", Told),
        ],
    },
    Catalog {
        name: "pg_rewrite",
        rows: Rows::Of {
            class: "pg_class",
            oid: "c.ev_class",
            part: "'rule ' || quote_ident(c.rulename)",
            keep: MADE,
        },
        columns: &[
            OID,
            ("rulename", Told),
            ("ev_class", Told),
            ("ev_type", Told),
            ("ev_enabled", Value("enabled")),
            ("is_instead", Told),
            ("ev_qual", Told),
            ("ev_action", Sql("definition", "pg_get_ruledef(c.oid)")),
        ],
    },
    Catalog {
        name: "pg_sequence",
        rows: Rows::Of {
            class: "pg_class",
            oid: "c.seqrelid",
            part: "''",
            keep: "c.seqrelid >= 16384",
        },
        columns: &[
            ("seqrelid", Told),
            ("seqtypid", Ref("type", "pg_type")),
            ("seqstart", Value("start")),
            ("seqincrement", Value("increment")),
            ("seqmax", Value("maximum")),
            ("seqmin", Value("minimum")),
            ("seqcache", Value("cache")),
            ("seqcycle", Value("cycle")),
        ],
    },
    Catalog {
        name: "pg_foreign_table",
        rows: Rows::Of {
            class: "pg_class",
            oid: "c.ftrelid",
            part: "''",
            keep: "c.ftrelid >= 16384",
        },
        columns: &[
            ("ftrelid", Told),
            ("ftserver", Ref("server", "pg_foreign_server")),
            ("ftoptions", Options("foreign options")),
        ],
    },
    Catalog {
        name: "pg_statistic_ext",
        rows: Rows::Of { class: "pg_statistic_ext", oid: "c.oid", part: "''", keep: MADE },
        columns: &[
            OID,
            ("stxrelid", Ref("on table", "pg_class")),
            ("stxname", Told),
            ("stxnamespace", Told),
            ("stxowner", Owner),
            ("stxkeys", Sql("definition", "pg_get_statisticsobjdef(c.oid)")),
            ("stxstattarget", Sql("statistics target", "nullif(c.stxstattarget, -1)")),
            ("stxkind", Told),
            ("stxexprs", Told),
        ],
    },
    Catalog {
        name: "pg_depend",
        rows: Rows::Of {
            class: "(c.classid::regclass::text)",
            oid: "c.objid",
            part: "CASE WHEN c.deptype = 'x' THEN 'depends on ' || (SELECT type || ' ' || identity
                    FROM pg_identify_object(c.refclassid, c.refobjid, c.refobjsubid))
                   ELSE '' END",
            keep: "c.objid >= 16384 AND (c.deptype = 'x' OR c.deptype IN ('a', 'i')
                   AND c.classid = 'pg_class'::regclass AND c.refclassid = 'pg_class'::regclass
                   AND c.refobjsubid > 0
                   AND (SELECT relkind = 'S' FROM pg_class WHERE oid = c.objid))",
        },
        columns: &[
            ("classid", Told),
            ("objid", Told),
            ("objsubid", Told),
            ("refclassid", Told),
            (
                "refobjid",
                Sql(
                    "owned by",
                    "(SELECT identity FROM
                      pg_identify_object(c.refclassid, c.refobjid, c.refobjsubid))",
                ),
            ),
            ("refobjsubid", Told),
            ("deptype", Value("dependency")),
        ],
    },
    Catalog {
        name: "pg_statistic",
        rows: Rows::None("what ANALYZE found in the rows"),
        columns: super::server::STATISTIC,
    },
    Catalog {
        name: "pg_statistic_ext_data",
        rows: Rows::None("what ANALYZE found in the rows"),
        columns: &[
            ("stxoid", PHYSICAL),
            ("stxdinherit", PHYSICAL),
            ("stxdndistinct", PHYSICAL),
            ("stxddependencies", PHYSICAL),
            ("stxdmcv", PHYSICAL),
            ("stxdexpr", PHYSICAL),
        ],
    },
];
