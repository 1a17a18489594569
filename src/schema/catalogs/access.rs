//! Operators, their classes and families, and access methods.

use super::Column::{Kind, Owner, Ref, Told, Value};
use super::{Catalog, MADE, OID, Rows};

pub(super) const ALL: &[Catalog] = &[
    Catalog {
        name: "pg_operator",
        rows: Rows::Of { class: "pg_operator", oid: "c.oid", part: "''", keep: MADE },
        columns: &[
            OID,
            ("oprname", Told),
            ("oprnamespace", Told),
            ("oprowner", Owner),
            ("oprkind", Kind("kind", "bl")),
            ("oprcanmerge", Value("merges")),
            ("oprcanhash", Value("hashes")),
            ("oprleft", Told),
            ("oprright", Told),
            ("oprresult", Ref("result", "pg_type")),
            ("oprcom", Ref("commutator", "pg_operator")),
            ("oprnegate", Ref("negator", "pg_operator")),
            ("oprcode", Ref("function", "pg_proc")),
            ("oprrest", Ref("restriction estimator", "pg_proc")),
            ("oprjoin", Ref("join estimator", "pg_proc")),
        ],
    },
    Catalog {
        name: "pg_opfamily",
        rows: Rows::Of { class: "pg_opfamily", oid: "c.oid", part: "''", keep: MADE },
        columns: &[
            OID,
            ("opfmethod", Told),
            ("opfname", Told),
            ("opfnamespace", Told),
            ("opfowner", Owner),
        ],
    },
    Catalog {
        name: "pg_opclass",
        rows: Rows::Of { class: "pg_opclass", oid: "c.oid", part: "''", keep: MADE },
        columns: &[
            OID,
            ("opcmethod", Told),
            ("opcname", Told),
            ("opcnamespace", Told),
            ("opcowner", Owner),
            ("opcfamily", Ref("family", "pg_opfamily")),
            ("opcintype", Ref("input type", "pg_type")),
            ("opcdefault", Value("default")),
            ("opckeytype", Ref("storage type", "pg_type")),
        ],
    },
    Catalog {
        name: "pg_amop",
        rows: Rows::Of {
            class: "pg_opfamily",
            oid: "c.amopfamily",
            part: "'operator ' || c.amopstrategy || ' (' || format_type(c.amoplefttype, NULL)
                   || ', ' || format_type(c.amoprighttype, NULL) || ') ' || c.amoppurpose",
            keep: MADE,
        },
        columns: &[
            OID,
            ("amopfamily", Told),
            ("amoplefttype", Told),
            ("amoprighttype", Told),
            ("amopstrategy", Told),
            ("amoppurpose", Kind("purpose", "so")),
            ("amopopr", Ref("operator", "pg_operator")),
            ("amopmethod", Told),
            ("amopsortfamily", Ref("sort family", "pg_opfamily")),
        ],
    },
    Catalog {
        name: "pg_amproc",
        rows: Rows::Of {
            class: "pg_opfamily",
            oid: "c.amprocfamily",
            part: "'function ' || c.amprocnum || ' (' || format_type(c.amproclefttype, NULL)
                   || ', ' || format_type(c.amprocrighttype, NULL) || ')'",
            keep: MADE,
        },
        columns: &[
            OID,
            ("amprocfamily", Told),
            ("amproclefttype", Told),
            ("amprocrighttype", Told),
            ("amprocnum", Told),
            ("amproc", Ref("function", "pg_proc")),
        ],
    },
    Catalog {
        name: "pg_am",
        rows: Rows::Of { class: "pg_am", oid: "c.oid", part: "''", keep: MADE },
        columns: &[
            OID,
            ("amname", Told),
            ("amhandler", Ref("handler", "pg_proc")),
            ("amtype", Kind("kind", "it")),
        ],
    },
];
