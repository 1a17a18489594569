//! Extensions, foreign servers, publications, roles, settings, comments, and what is of no account.

use super::Column::{self, Grants, Kind, Not, Options, Owner, Ref, Refs, Sql, Told, Value};
use super::{Catalog, MADE, OID, PHYSICAL, Rows};

/// Roles that this database refers to, and all they are members of or have as members.
const ROLE_COUNTS: &str = "c.oid IN (SELECT role FROM relevant_role)";

pub(super) const ALL: &[Catalog] = &[
    Catalog {
        name: "pg_extension",
        rows: Rows::Of { class: "pg_extension", oid: "c.oid", part: "''", keep: "true" },
        columns: &[
            OID,
            ("extname", Told),
            ("extowner", Owner),
            ("extnamespace", Ref("schema", "pg_namespace")),
            ("extrelocatable", Value("relocatable")),
            ("extversion", Value("version")),
            ("extconfig", Refs("configuration tables", "pg_class")),
            ("extcondition", Value("configuration filters")),
        ],
    },
    Catalog {
        name: "pg_foreign_data_wrapper",
        rows: Rows::Of { class: "pg_foreign_data_wrapper", oid: "c.oid", part: "''", keep: MADE },
        columns: &[
            OID,
            ("fdwname", Told),
            ("fdwowner", Owner),
            ("fdwhandler", Ref("handler", "pg_proc")),
            ("fdwvalidator", Ref("validator", "pg_proc")),
            ("fdwacl", Grants("acldefault('F', c.fdwowner)")),
            ("fdwoptions", Options("options")),
        ],
    },
    Catalog {
        name: "pg_foreign_server",
        rows: Rows::Of { class: "pg_foreign_server", oid: "c.oid", part: "''", keep: MADE },
        columns: &[
            OID,
            ("srvname", Told),
            ("srvowner", Owner),
            ("srvfdw", Ref("foreign-data wrapper", "pg_foreign_data_wrapper")),
            ("srvtype", Value("type")),
            ("srvversion", Value("version")),
            ("srvacl", Grants("acldefault('S', c.srvowner)")),
            ("srvoptions", Options("options")),
        ],
    },
    Catalog {
        name: "pg_user_mapping",
        rows: Rows::Of { class: "pg_user_mapping", oid: "c.oid", part: "''", keep: MADE },
        columns: &[
            OID,
            ("umuser", Told),
            ("umserver", Told),
            (
                "umoptions",
                Sql(
                    "options",
                    "(SELECT array_agg(CASE WHEN o ~ '^user=' THEN o
                  ELSE split_part(o, '=', 1) || '=…' END ORDER BY o COLLATE \"C\")
                  FROM unnest(c.umoptions) o)",
                ),
            ),
        ],
    },
    Catalog {
        name: "pg_publication",
        rows: Rows::Of { class: "pg_publication", oid: "c.oid", part: "''", keep: MADE },
        columns: &[
            OID,
            ("pubname", Told),
            ("pubowner", Owner),
            ("puballtables", Value("all tables")),
            ("pubinsert", Value("publishes insert")),
            ("pubupdate", Value("publishes update")),
            ("pubdelete", Value("publishes delete")),
            ("pubtruncate", Value("publishes truncate")),
            ("pubviaroot", Value("via partition root")),
            ("pubgencols", Value("publishes generated columns")),
        ],
    },
    Catalog {
        name: "pg_publication_rel",
        rows: Rows::Of {
            class: "pg_publication",
            oid: "c.prpubid",
            part: "'table ' || (SELECT identity FROM
                    pg_identify_object('pg_class'::regclass, c.prrelid, 0))",
            keep: MADE,
        },
        columns: &[
            OID,
            ("prpubid", Told),
            ("prrelid", Sql("published", "true")),
            ("prqual", Sql("where", "pg_get_expr(c.prqual, c.prrelid)")),
            (
                "prattrs",
                Sql(
                    "columns",
                    "(SELECT array_agg(quote_ident(attname) ORDER BY attname) FROM pg_attribute
                      WHERE attrelid = c.prrelid AND attnum = ANY (c.prattrs))",
                ),
            ),
        ],
    },
    Catalog {
        name: "pg_publication_namespace",
        rows: Rows::Of {
            class: "pg_publication",
            oid: "c.pnpubid",
            part: "'schema ' || c.pnnspid::regnamespace::text",
            keep: MADE,
        },
        columns: &[OID, ("pnpubid", Told), ("pnnspid", Sql("published", "true"))],
    },
    Catalog {
        name: "pg_subscription",
        rows: Rows::Of {
            class: "pg_subscription",
            oid: "c.oid",
            part: "''",
            keep: "c.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())",
        },
        columns: &[
            OID,
            ("subdbid", Told),
            ("subskiplsn", Not("progress of replication")),
            ("subname", Told),
            ("subowner", Owner),
            ("subenabled", Value("enabled")),
            ("subbinary", Value("binary")),
            ("substream", Value("streaming")),
            ("subtwophasestate", Sql("two-phase", "c.subtwophasestate <> 'd'")),
            ("subdisableonerr", Value("disable on error")),
            ("subpasswordrequired", Value("password required")),
            ("subrunasowner", Value("run as owner")),
            ("subfailover", Value("failover")),
            (
                "subconninfo",
                Sql(
                    "connection",
                    r"regexp_replace(regexp_replace(c.subconninfo,
                      'password\s*=\s*(''([^''\\]|\\.)*''|\S*)', 'password=…', 'gi'),
                      '://([^/@]*)@', '://…@', 'g')",
                ),
            ),
            ("subslotname", Value("slot")),
            ("subsynccommit", Value("synchronous commit")),
            (
                "subpublications",
                Sql(
                    "publications",
                    "(SELECT array_agg(p ORDER BY p COLLATE \"C\") FROM unnest(c.subpublications) p)",
                ),
            ),
            ("suborigin", Value("origin")),
        ],
    },
    Catalog {
        name: "pg_subscription_rel",
        rows: Rows::None("progress of replication"),
        columns: &[
            ("srsubid", PHYSICAL),
            ("srrelid", PHYSICAL),
            ("srsubstate", PHYSICAL),
            ("srsublsn", PHYSICAL),
        ],
    },
    Catalog {
        name: "pg_replication_origin",
        rows: Rows::None("progress of replication"),
        columns: &[("roident", PHYSICAL), ("roname", PHYSICAL)],
    },
    Catalog {
        name: "pg_default_acl",
        rows: Rows::Of {
            class: "pg_default_acl",
            oid: "c.oid",
            part: "''",
            keep: "NOT pg_get_userbyid(c.defaclrole) = ANY (ignored_roles)",
        },
        columns: &[
            OID,
            ("defaclrole", Told),
            ("defaclnamespace", Told),
            ("defaclobjtype", Kind("kind", "rSfTnL")),
            ("defaclacl", Grants("NULL::aclitem[]")),
        ],
    },
    Catalog {
        name: "pg_description",
        rows: Rows::Of {
            class: "(c.classoid::regclass::text)",
            oid: "c.objoid",
            part: COMMENTED,
            keep: "(c.objoid >= 16384
                    OR (SELECT nspname = 'public' FROM pg_namespace n WHERE n.oid = c.objoid)
                    OR EXISTS (SELECT FROM pg_depend m WHERE m.classid = c.classoid
                               AND m.objid = c.objoid AND m.deptype = 'e'))
                   AND c.classoid <> 'pg_largeobject'::regclass",
        },
        columns: &[
            ("objoid", Told),
            ("classoid", Told),
            ("objsubid", Told),
            ("description", Value("comment")),
        ],
    },
    Catalog {
        name: "pg_shdescription",
        rows: Rows::Named {
            object: "'database'",
            part: "''",
            keep: "c.classoid = 'pg_database'::regclass AND c.objoid =
                   (SELECT oid FROM pg_database WHERE datname = current_database())",
        },
        columns: &[("objoid", Told), ("classoid", Told), ("description", Value("comment"))],
    },
    Catalog {
        name: "pg_seclabel",
        rows: Rows::Of {
            class: "(c.classoid::regclass::text)",
            oid: "c.objoid",
            part: LABELLED,
            keep: "c.classoid <> 'pg_largeobject'::regclass",
        },
        columns: &[
            ("objoid", Told),
            ("classoid", Told),
            ("objsubid", Told),
            ("provider", Told),
            ("label", Value("label")),
        ],
    },
    Catalog {
        name: "pg_shseclabel",
        rows: Rows::Named {
            object: "'database'",
            part: "'security label of ' || c.provider",
            keep: "c.classoid = 'pg_database'::regclass AND c.objoid =
                   (SELECT oid FROM pg_database WHERE datname = current_database())",
        },
        columns: &[
            ("objoid", Told),
            ("classoid", Told),
            ("provider", Told),
            ("label", Value("label")),
        ],
    },
    Catalog {
        name: "pg_database",
        rows: Rows::Named {
            object: "'database'",
            part: "''",
            keep: "c.datname = current_database()",
        },
        columns: &[
            OID,
            ("datname", Not("a copy may bear another name")),
            ("datdba", Owner),
            ("encoding", Sql("encoding", "pg_encoding_to_char(c.encoding)")),
            ("datlocprovider", Value("locale provider")),
            ("datistemplate", PHYSICAL),
            ("datallowconn", PHYSICAL),
            ("dathasloginevt", PHYSICAL),
            ("datconnlimit", PHYSICAL),
            ("datlastsysoid", PHYSICAL),
            ("datfrozenxid", PHYSICAL),
            ("datminmxid", PHYSICAL),
            ("dattablespace", Ref("tablespace", "pg_tablespace")),
            ("datcollate", Value("collate")),
            ("datctype", Value("ctype")),
            ("daticulocale", Value("locale")),
            ("datlocale", Value("locale")),
            ("daticurules", Value("locale rules")),
            ("datcollversion", Not("what indexes were last built with, not how it sorts")),
            ("datacl", Grants("acldefault('d', c.datdba)")),
        ],
    },
    Catalog {
        name: "pg_db_role_setting",
        rows: Rows::Named {
            object: "CASE WHEN c.setrole <> 0
                     THEN 'role ' || quote_ident(pg_get_userbyid(c.setrole))
                     WHEN c.setdatabase <> 0 THEN 'database' ELSE 'every role' END",
            part: "CASE WHEN c.setrole <> 0 AND c.setdatabase <> 0
                   THEN 'in this database' ELSE '' END",
            keep: "(c.setdatabase = 0 OR c.setdatabase =
                    (SELECT oid FROM pg_database WHERE datname = current_database()))
                   AND (c.setrole = 0 OR c.setrole IN (SELECT role FROM relevant_role)
                        OR (c.setdatabase <> 0
                            AND NOT pg_get_userbyid(c.setrole) = ANY (ignored_roles)))",
        },
        columns: &[
            ("setdatabase", Told),
            ("setrole", Told),
            (
                "setconfig",
                Sql(
                    "settings",
                    "(SELECT array_agg(s ORDER BY s COLLATE \"C\") FROM unnest(c.setconfig) s)",
                ),
            ),
        ],
    },
    Catalog {
        name: "pg_authid",
        rows: Rows::Named {
            object: "'role ' || quote_ident(c.rolname)",
            part: "''",
            keep: ROLE_COUNTS,
        },
        columns: &[
            OID,
            ("rolname", Told),
            ("rolsuper", Value("superuser")),
            ("rolinherit", Value("inherits")),
            ("rolcreaterole", Value("may create roles")),
            ("rolcreatedb", Value("may create databases")),
            ("rolcanlogin", Value("may log in")),
            ("rolreplication", Value("replication")),
            ("rolbypassrls", Value("bypasses row security")),
            ("rolconnlimit", Not("a matter of connections")),
            ("rolpassword", Not("a secret")),
            ("rolvaliduntil", Not("the life of a secret")),
        ],
    },
    Catalog {
        name: "pg_auth_members",
        rows: Rows::Named {
            object: "'role ' || quote_ident(pg_get_userbyid(c.member))",
            part: "'member of ' || quote_ident(pg_get_userbyid(c.roleid))",
            keep: "c.member IN (SELECT role FROM relevant_role)
                   AND c.roleid IN (SELECT role FROM relevant_role)",
        },
        columns: &[
            OID,
            ("roleid", Told),
            ("member", Told),
            ("grantor", Sql("granted by", "quote_ident(pg_get_userbyid(c.grantor))")),
            ("admin_option", Value("admin option")),
            ("inherit_option", Value("inherit option")),
            ("set_option", Value("set option")),
        ],
    },
    Catalog {
        name: "pg_parameter_acl",
        rows: Rows::Named { object: "'parameter ' || c.parname", part: "''", keep: "true" },
        columns: &[OID, ("parname", Told), ("paracl", Grants("acldefault('p', 10)"))],
    },
    Catalog {
        name: "pg_tablespace",
        rows: Rows::Of {
            class: "pg_tablespace",
            oid: "c.oid",
            part: "''",
            keep: "c.oid >= 16384
                   AND (EXISTS (SELECT FROM pg_class r WHERE r.reltablespace = c.oid)
                        OR c.oid = (SELECT dattablespace FROM pg_database
                                    WHERE datname = current_database()))",
        },
        columns: &[
            OID,
            ("spcname", Told),
            ("spcowner", Owner),
            ("spcacl", Grants("acldefault('t', c.spcowner)")),
            (
                "spcoptions",
                Sql(
                    "options",
                    "(SELECT array_agg(o ORDER BY o COLLATE \"C\") FROM unnest(c.spcoptions) o)",
                ),
            ),
        ],
    },
    Catalog {
        name: "pg_init_privs",
        rows: Rows::None("what grants on built-in objects are compared with"),
        columns: &[
            ("objoid", Told),
            ("classoid", Told),
            ("objsubid", Told),
            ("privtype", Told),
            ("initprivs", Told),
        ],
    },
    Catalog {
        name: "pg_shdepend",
        rows: Rows::None("which roles count is read from it"),
        columns: &[
            ("dbid", Told),
            ("classid", Told),
            ("objid", Told),
            ("objsubid", Told),
            ("refclassid", Told),
            ("refobjid", Told),
            ("deptype", Told),
        ],
    },
    Catalog {
        name: "pg_largeobject",
        rows: Rows::None("rows, not schema"),
        columns: &[("loid", PHYSICAL), ("pageno", PHYSICAL), ("data", PHYSICAL)],
    },
    Catalog {
        name: "pg_largeobject_metadata",
        rows: Rows::None("rows, not schema"),
        columns: &[OID, ("lomowner", PHYSICAL), ("lomacl", PHYSICAL)],
    },
];

const COMMENTED: &str = "CASE WHEN c.objsubid <> 0 THEN 'column ' || (SELECT quote_ident(attname)
    FROM pg_attribute WHERE attrelid = c.objoid AND attnum = c.objsubid) ELSE '' END";
const LABELLED: &str = "CASE WHEN c.objsubid <> 0 THEN 'column ' || (SELECT quote_ident(attname)
    FROM pg_attribute WHERE attrelid = c.objoid AND attnum = c.objsubid) || ' ' ELSE '' END
    || 'security label of ' || c.provider";

/// The columns of `pg_statistic`, none of which is a fact.
pub(super) const STATISTIC: &[(&str, Column)] = &[
    ("starelid", PHYSICAL),
    ("staattnum", PHYSICAL),
    ("stainherit", PHYSICAL),
    ("stanullfrac", PHYSICAL),
    ("stawidth", PHYSICAL),
    ("stadistinct", PHYSICAL),
    ("stakind1", PHYSICAL),
    ("stakind2", PHYSICAL),
    ("stakind3", PHYSICAL),
    ("stakind4", PHYSICAL),
    ("stakind5", PHYSICAL),
    ("staop1", PHYSICAL),
    ("staop2", PHYSICAL),
    ("staop3", PHYSICAL),
    ("staop4", PHYSICAL),
    ("staop5", PHYSICAL),
    ("stacoll1", PHYSICAL),
    ("stacoll2", PHYSICAL),
    ("stacoll3", PHYSICAL),
    ("stacoll4", PHYSICAL),
    ("stacoll5", PHYSICAL),
    ("stanumbers1", PHYSICAL),
    ("stanumbers2", PHYSICAL),
    ("stanumbers3", PHYSICAL),
    ("stanumbers4", PHYSICAL),
    ("stanumbers5", PHYSICAL),
    ("stavalues1", PHYSICAL),
    ("stavalues2", PHYSICAL),
    ("stavalues3", PHYSICAL),
    ("stavalues4", PHYSICAL),
    ("stavalues5", PHYSICAL),
];
