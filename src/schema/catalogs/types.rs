//! Types, enums, domains, ranges, casts and collations.

use super::Column::{Grants, Kind, Not, Owner, Ref, Sql, Told, Value};
use super::{Catalog, MADE, OID, Rows};

pub(super) const ALL: &[Catalog] = &[
    Catalog {
        name: "pg_type",
        rows: Rows::Of {
            class: "pg_type",
            oid: "c.oid",
            part: "''",
            // Row types of tables and array types are made beside what they belong to, under
            // names that depend on what was there before.
            keep: "c.oid >= 16384
                   AND (c.typrelid = 0
                        OR (SELECT relkind = 'c' FROM pg_class WHERE oid = c.typrelid))
                   AND NOT EXISTS (SELECT FROM pg_type b WHERE b.typarray = c.oid)",
        },
        columns: &[
            OID,
            ("typname", Told),
            ("typnamespace", Told),
            ("typowner", Owner),
            ("typlen", Value("length")),
            ("typbyval", Value("by value")),
            ("typtype", Kind("kind", "bcdemrp")),
            ("typcategory", Value("category")),
            ("typispreferred", Value("preferred")),
            ("typisdefined", Value("defined")),
            ("typdelim", Value("delimiter")),
            ("typrelid", Told),
            ("typsubscript", Ref("subscript function", "pg_proc")),
            ("typelem", Ref("element", "pg_type")),
            ("typarray", Not("made beside the type")),
            ("typinput", Ref("input function", "pg_proc")),
            ("typoutput", Ref("output function", "pg_proc")),
            ("typreceive", Ref("receive function", "pg_proc")),
            ("typsend", Ref("send function", "pg_proc")),
            ("typmodin", Ref("modifier input function", "pg_proc")),
            ("typmodout", Ref("modifier output function", "pg_proc")),
            ("typanalyze", Ref("analyze function", "pg_proc")),
            ("typalign", Value("alignment")),
            ("typstorage", Value("storage")),
            ("typnotnull", Value("not null")),
            (
                "typbasetype",
                Sql(
                    "base type",
                    "CASE WHEN c.typbasetype <> 0 THEN format_type(c.typbasetype, c.typtypmod) END",
                ),
            ),
            ("typtypmod", Told),
            ("typndims", Not("the server does not enforce it")),
            ("typcollation", Ref("collation", "pg_collation")),
            (
                "typdefaultbin",
                Sql("default", "coalesce(pg_get_expr(c.typdefaultbin, 0), c.typdefault)"),
            ),
            ("typdefault", Told),
            ("typacl", Grants("acldefault('T', c.typowner)")),
        ],
    },
    Catalog {
        name: "pg_enum",
        rows: Rows::Of {
            class: "pg_type",
            oid: "c.enumtypid",
            part: "'label ' || quote_literal(c.enumlabel)",
            keep: MADE,
        },
        columns: &[
            OID,
            ("enumtypid", Told),
            (
                "enumsortorder",
                Sql(
                    "position",
                    "(SELECT count(*) FROM pg_enum b WHERE b.enumtypid = c.enumtypid
                      AND b.enumsortorder <= c.enumsortorder)",
                ),
            ),
            ("enumlabel", Told),
        ],
    },
    Catalog {
        name: "pg_range",
        rows: Rows::Of {
            class: "pg_type",
            oid: "c.rngtypid",
            part: "''",
            keep: "c.rngtypid >= 16384",
        },
        columns: &[
            ("rngtypid", Told),
            ("rngsubtype", Ref("subtype", "pg_type")),
            ("rngmultitypid", Ref("multirange", "pg_type")),
            ("rngcollation", Ref("range collation", "pg_collation")),
            ("rngsubopc", Ref("subtype operator class", "pg_opclass")),
            ("rngcanonical", Ref("canonical function", "pg_proc")),
            ("rngsubdiff", Ref("difference function", "pg_proc")),
        ],
    },
    Catalog {
        name: "pg_cast",
        rows: Rows::Of { class: "pg_cast", oid: "c.oid", part: "''", keep: MADE },
        columns: &[
            OID,
            ("castsource", Told),
            ("casttarget", Told),
            ("castfunc", Ref("function", "pg_proc")),
            ("castcontext", Value("context")),
            ("castmethod", Value("method")),
        ],
    },
    Catalog {
        name: "pg_collation",
        rows: Rows::Of { class: "pg_collation", oid: "c.oid", part: "''", keep: MADE },
        columns: &[
            OID,
            ("collname", Told),
            ("collnamespace", Told),
            ("collowner", Owner),
            ("collprovider", Value("provider")),
            ("collisdeterministic", Value("deterministic")),
            ("collencoding", Value("encoding")),
            ("collcollate", Value("collate")),
            ("collctype", Value("ctype")),
            ("colliculocale", Value("locale")),
            ("colllocale", Value("locale")),
            ("collicurules", Value("rules")),
            ("collversion", Not("what indexes were last built with, not how it sorts")),
        ],
    },
    Catalog {
        name: "pg_conversion",
        rows: Rows::Of { class: "pg_conversion", oid: "c.oid", part: "''", keep: MADE },
        columns: &[
            OID,
            ("conname", Told),
            ("connamespace", Told),
            ("conowner", Owner),
            ("conforencoding", Sql("from", "pg_encoding_to_char(c.conforencoding)")),
            ("contoencoding", Sql("to", "pg_encoding_to_char(c.contoencoding)")),
            ("conproc", Ref("function", "pg_proc")),
            ("condefault", Value("default")),
        ],
    },
];
