//! Text search.

use super::Column::{Owner, Ref, Told, Value};
use super::{Catalog, MADE, OID, Rows};

pub(super) const ALL: &[Catalog] = &[
    Catalog {
        name: "pg_ts_config",
        rows: Rows::Of { class: "pg_ts_config", oid: "c.oid", part: "''", keep: MADE },
        columns: &[
            OID,
            ("cfgname", Told),
            ("cfgnamespace", Told),
            ("cfgowner", Owner),
            ("cfgparser", Ref("parser", "pg_ts_parser")),
        ],
    },
    Catalog {
        name: "pg_ts_config_map",
        rows: Rows::Of {
            class: "pg_ts_config",
            oid: "c.mapcfg",
            // The number and not the alias: to ask for the alias would run the parser.
            part: "'token type ' || c.maptokentype || ' dictionary ' || (SELECT count(*)
                    FROM pg_ts_config_map b WHERE b.mapcfg = c.mapcfg
                    AND b.maptokentype = c.maptokentype AND b.mapseqno <= c.mapseqno)",
            keep: "c.mapcfg >= 16384",
        },
        columns: &[
            ("mapcfg", Told),
            ("maptokentype", Told),
            ("mapseqno", Told),
            ("mapdict", Ref("dictionary", "pg_ts_dict")),
        ],
    },
    Catalog {
        name: "pg_ts_dict",
        rows: Rows::Of { class: "pg_ts_dict", oid: "c.oid", part: "''", keep: MADE },
        columns: &[
            OID,
            ("dictname", Told),
            ("dictnamespace", Told),
            ("dictowner", Owner),
            ("dicttemplate", Ref("template", "pg_ts_template")),
            ("dictinitoption", Value("options")),
        ],
    },
    Catalog {
        name: "pg_ts_parser",
        rows: Rows::Of { class: "pg_ts_parser", oid: "c.oid", part: "''", keep: MADE },
        columns: &[
            OID,
            ("prsname", Told),
            ("prsnamespace", Told),
            ("prsstart", Ref("start function", "pg_proc")),
            ("prstoken", Ref("token function", "pg_proc")),
            ("prsend", Ref("end function", "pg_proc")),
            ("prsheadline", Ref("headline function", "pg_proc")),
            ("prslextype", Ref("token types function", "pg_proc")),
        ],
    },
    Catalog {
        name: "pg_ts_template",
        rows: Rows::Of { class: "pg_ts_template", oid: "c.oid", part: "''", keep: MADE },
        columns: &[
            OID,
            ("tmplname", Told),
            ("tmplnamespace", Told),
            ("tmplinit", Ref("init function", "pg_proc")),
            ("tmpllexize", Ref("lexize function", "pg_proc")),
        ],
    },
];
