//! What a text needs by PostgreSQL's own parser: the classes of `tests/cases/README.md`, read from
//! the tree. Nothing here uses the gate's lexer or its rules of position; only the lists of names
//! (functions, settings, languages, extensions) are the gate's, for both must mean the same.

use std::collections::HashMap;

use serde_json::Value;

use crate::gate::{Class, Classes, lists};

/// What is true of a text.
pub struct Truth {
    pub classes: Classes,
    pub statements: usize,
    /// The classes of each statement.
    pub each: Vec<Classes>,
}

/// `None` if it does not parse.
pub fn read(sql: &str) -> Option<Truth> {
    let parsed = pg_query::parse(sql, pg_query::ParserOptions::DEFAULT).ok()?;
    let mut prepared = HashMap::new();
    let mut each = Vec::new();
    for raw in &parsed.protobuf.stmts {
        let tree = serde_json::to_value(raw.stmt.as_ref()?).ok()?;
        each.push(statement(&tree, &mut prepared));
    }
    let classes = each.iter().fold(Classes::NONE, |all, one| all.and(*one));
    Some(Truth { classes, statements: each.len(), each })
}

/// The name and the fields of a node.
fn node(tree: &Value) -> Option<(&str, &Value)> {
    let inner = tree.get("node")?;
    let (name, fields) = inner.as_object()?.iter().next()?;
    Some((name.as_str(), fields))
}

fn statement(tree: &Value, prepared: &mut HashMap<String, Classes>) -> Classes {
    let Some((name, fields)) = node(tree) else { return Classes::NONE };
    let number = |key: &str| fields.get(key).and_then(Value::as_i64).unwrap_or(0);
    let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or("");
    let inside = |key: &str, prepared: &mut _| {
        fields.get(key).map_or(Classes::NONE, |inner| statement(inner, prepared))
    };
    match name {
        "SelectStmt" | "InsertStmt" | "UpdateStmt" | "DeleteStmt" | "MergeStmt" => {
            let (changes, extra) = scan(tree);
            let read = if changes.is_empty() { Classes::READ } else { Classes::NONE };
            changes.and(extra).and(read)
        }
        "ExplainStmt" => {
            let mut runs = false;
            for option in fields["options"].as_array().into_iter().flatten() {
                let Some((_, option)) = node(option) else { continue };
                if option["defname"] == "analyze" {
                    runs = !is_false(&option["arg"]);
                }
            }
            let inner = inside("query", prepared);
            Classes::READ.and(if runs { inner } else { Classes::NONE })
        }
        "PrepareStmt" => {
            let inner = inside("query", prepared);
            let known = prepared.entry(text("name").to_owned()).or_default();
            *known = known.and(inner);
            inner.and(Classes::SESSION)
        }
        "ExecuteStmt" => {
            let (changes, extra) = scan(tree);
            let known = prepared.get(text("name")).copied().unwrap_or(Classes::NONE);
            changes.and(extra).and(known)
        }
        "DeclareCursorStmt" => inside("query", prepared).and(Classes::SESSION),
        "CopyStmt" => {
            let (changes, extra) = scan(&fields["where_clause"]);
            let file = fields["is_program"] == true || !text("filename").is_empty();
            let way = match (file, fields["is_from"] == true, fields["query"].is_null()) {
                (true, _, _) => Classes::ADMIN,
                (_, true, _) => Classes::WRITE,
                (_, _, true) => Classes::READ,
                _ => Classes::NONE,
            };
            inside("query", prepared).and(way).and(changes).and(extra)
        }
        "CreateTableAsStmt" => {
            let skips = fields["into"]["skip_data"] == true;
            let inner = if skips { Classes::NONE } else { inside("query", prepared) };
            inner.without(Classes::READ).and(Classes::MIGRATE)
        }
        "CallStmt" => {
            let (changes, extra) = scan(&fields["funccall"]["args"]);
            changes.and(extra).and(Classes::MIGRATE)
        }
        "AlterTableStmt" => {
            let mut needs = Classes::MIGRATE;
            for command in fields["cmds"].as_array().into_iter().flatten() {
                let Some((_, command)) = node(command) else { continue };
                let subtype = command["subtype"].as_i64().unwrap_or(0);
                let runs = [
                    pg_query::protobuf::AlterTableType::AtAddColumn as i64,
                    pg_query::protobuf::AlterTableType::AtAlterColumnType as i64,
                    pg_query::protobuf::AlterTableType::AtAttachPartition as i64,
                ];
                if runs.contains(&subtype) {
                    let (changes, _) = scan(&column_expressions(&command["def"]));
                    needs = needs.and(changes);
                }
            }
            // ALTER FOREIGN TABLE comes as this too.
            if number("objtype") == pg_query::protobuf::ObjectType::ObjectForeignTable as i64 {
                needs = needs.and(Classes::ADMIN);
            }
            needs
        }
        "CreateStmt" => {
            let (changes, _) = scan(&fields["partbound"]);
            changes.and(Classes::MIGRATE)
        }
        "TransactionStmt" => {
            use pg_query::protobuf::TransactionStmtKind as Kind;
            let kind = number("kind");
            if [Kind::TransStmtPrepare, Kind::TransStmtCommitPrepared, Kind::TransStmtRollbackPrepared]
                .iter()
                .any(|k| *k as i64 == kind)
            {
                return Classes::ADMIN;
            }
            modes(&fields["options"])
        }
        "VariableSetStmt" => {
            use pg_query::protobuf::VariableSetKind as Kind;
            let kind = number("kind");
            let name = text("name");
            if kind == Kind::VarResetAll as i64 || kind == Kind::VarSetCurrent as i64 {
                return Classes::SESSION;
            }
            if kind == Kind::VarSetMulti as i64 {
                return modes(&fields["args"]);
            }
            if kind != Kind::VarSetValue as i64 {
                return lists::setting(name, None);
            }
            let args = fields["args"].as_array().cloned().unwrap_or_default();
            let value = match args.as_slice() {
                [one] => constant(one),
                _ => None,
            };
            lists::setting(name, Some(value.as_deref()))
        }
        "VariableShowStmt" | "FetchStmt" => Classes::READ,
        "ConstraintsSetStmt" | "DeallocateStmt" | "DiscardStmt" | "ListenStmt" | "UnlistenStmt"
        | "ClosePortalStmt" => Classes::SESSION,
        "NotifyStmt" | "LockStmt" => Classes::WRITE,
        "TruncateStmt" => Classes::TRUNCATE,
        "DoStmt" | "CreateFunctionStmt" => {
            let key = if name == "DoStmt" { "args" } else { "options" };
            for option in fields[key].as_array().into_iter().flatten() {
                let Some((_, option)) = node(option) else { continue };
                let language = constant(&option["arg"]).unwrap_or_default();
                if option["defname"] == "language" && !lists::is_trusted_language(&language) {
                    return Classes::ADMIN;
                }
            }
            Classes::MIGRATE
        }
        "CreatePlangStmt" if !lists::is_trusted_language(text("plname")) => Classes::ADMIN,
        "CreateExtensionStmt" | "AlterExtensionStmt" | "AlterExtensionContentsStmt"
            if lists::is_dangerous_extension(text("extname")) =>
        {
            Classes::ADMIN
        }
        "GrantStmt"
            if number("objtype") == pg_query::protobuf::ObjectType::ObjectParameterAcl as i64 =>
        {
            Classes::ADMIN
        }
        "DropStmt" | "RenameStmt" | "AlterOwnerStmt" | "AlterObjectSchemaStmt" => {
            use pg_query::protobuf::ObjectType as Type;
            let key = match name {
                "DropStmt" => "remove_type",
                "RenameStmt" => "rename_type",
                _ => "object_type",
            };
            let server_wide = [
                Type::ObjectDatabase,
                Type::ObjectRole,
                Type::ObjectTablespace,
                Type::ObjectSubscription,
                Type::ObjectForeignServer,
                Type::ObjectFdw,
                Type::ObjectUserMapping,
            ];
            if server_wide.iter().any(|t| *t as i64 == number(key)) {
                Classes::ADMIN
            } else {
                Classes::MIGRATE
            }
        }
        "AlterSystemStmt" | "LoadStmt" | "CheckPointStmt" | "CreateRoleStmt" | "AlterRoleStmt"
        | "AlterRoleSetStmt" | "DropRoleStmt" | "GrantRoleStmt" | "CreatedbStmt"
        | "AlterDatabaseStmt" | "AlterDatabaseSetStmt" | "AlterDatabaseRefreshCollStmt"
        | "DropdbStmt" | "CreateTableSpaceStmt" | "DropTableSpaceStmt"
        | "AlterTableSpaceOptionsStmt" | "CreateSubscriptionStmt" | "AlterSubscriptionStmt"
        | "DropSubscriptionStmt" | "CreateFdwStmt" | "AlterFdwStmt" | "CreateForeignServerStmt"
        | "AlterForeignServerStmt" | "CreateForeignTableStmt" | "CreateUserMappingStmt"
        | "AlterUserMappingStmt" | "DropUserMappingStmt" | "ImportForeignSchemaStmt"
        | "DropOwnedStmt" | "ReassignOwnedStmt" => Classes::ADMIN,
        // All that is left is DDL and maintenance.
        _ => Classes::MIGRATE,
    }
}

/// What ADD COLUMN and ALTER COLUMN TYPE evaluate while they run.
fn column_expressions(def: &Value) -> Value {
    let Some((name, fields)) = node(def) else { return Value::Null };
    if name != "ColumnDef" {
        return def.clone();
    }
    let mut out = vec![fields["raw_default"].clone()];
    for constraint in fields["constraints"].as_array().into_iter().flatten() {
        let is_default = node(constraint).is_some_and(|(_, c)| {
            c["contype"] == pg_query::protobuf::ConstrType::ConstrDefault as i64
        });
        if is_default {
            out.push(constraint.clone());
        }
    }
    Value::Array(out)
}

fn modes(options: &Value) -> Classes {
    let mut needs = Classes::SESSION;
    for option in options.as_array().into_iter().flatten() {
        let Some((_, option)) = node(option) else { continue };
        if option["defname"] == "transaction_read_only" && is_false(&option["arg"]) {
            needs = needs.and(Classes::WRITE);
        }
    }
    needs
}

/// Changes, and settings made by `set_config`, anywhere in a tree.
fn scan(tree: &Value) -> (Classes, Classes) {
    let (mut changes, mut extra) = (Classes::NONE, Classes::NONE);
    let mut stack = vec![tree];
    while let Some(value) = stack.pop() {
        match value {
            Value::Array(list) => stack.extend(list),
            Value::Object(fields) => {
                for (key, value) in fields {
                    match key.as_str() {
                        "InsertStmt" | "DeleteStmt" | "MergeStmt" => {
                            changes = changes.and(Classes::WRITE);
                        }
                        "UpdateStmt" => {
                            changes = changes.and(Classes::WRITE);
                            if value["relation"]["relname"] == "pg_settings" {
                                changes = changes.and(Classes::ADMIN);
                            }
                        }
                        "into_clause" if !value.is_null() => {
                            changes = changes.and(Classes::MIGRATE);
                        }
                        "locking_clause" if value.as_array().is_some_and(|l| !l.is_empty()) => {
                            changes = changes.and(Classes::WRITE);
                        }
                        "FuncCall" => {
                            let (change, setting) = call(value);
                            changes = changes.and(change);
                            extra = extra.and(setting);
                        }
                        _ => {}
                    }
                    stack.push(value);
                }
            }
            _ => {}
        }
    }
    (changes, extra)
}

fn call(fields: &Value) -> (Classes, Classes) {
    let name = fields["funcname"].as_array().and_then(|l| l.last()).and_then(string);
    let Some(name) = name else { return (Classes::NONE, Classes::NONE) };
    let args: Vec<&Value> = fields["args"].as_array().into_iter().flatten().collect();
    if name == "set_config" {
        let mut setting = None;
        let mut value = None;
        for (i, arg) in args.iter().enumerate() {
            let (role, arg) = match node(arg) {
                Some(("NamedArgExpr", named)) => {
                    (named["name"].as_str().unwrap_or("").to_owned(), &named["arg"])
                }
                _ => (["setting_name", "new_value", ""][i.min(2)].to_owned(), *arg),
            };
            match role.as_str() {
                "setting_name" => setting = constant(arg),
                "new_value" => value = Some(constant(arg)),
                _ => {}
            }
        }
        return match setting {
            Some(setting) => {
                let needs = lists::setting(&setting, Some(value.flatten().as_deref()));
                if needs.has(Class::Admin) { (needs, needs) } else { (Classes::NONE, needs) }
            }
            None => (Classes::ADMIN, Classes::ADMIN),
        };
    }
    if name == "lo_open" {
        let reads = args.get(1).and_then(|a| constant(a)).is_some_and(|v| v == "262144");
        return (if reads { Classes::NONE } else { Classes::WRITE }, Classes::NONE);
    }
    if lists::runs_text(&name) {
        let text = args.first().and_then(|a| constant(a));
        let inner = text.and_then(|text| read(&text));
        let needs = inner.map_or(Classes::NONE, |truth| truth.classes.without(Classes::READ));
        return (needs, Classes::NONE);
    }
    (lists::function(&name), Classes::NONE)
}

fn string(tree: &Value) -> Option<String> {
    match node(tree)? {
        ("String", fields) => fields["sval"].as_str().map(str::to_owned),
        _ => None,
    }
}

/// A constant as text, a cast of it allowed.
fn constant(tree: &Value) -> Option<String> {
    match node(tree)? {
        ("String", fields) => fields["sval"].as_str().map(str::to_owned),
        ("Integer", fields) => fields["ival"].as_i64().map(|n| n.to_string()),
        ("Boolean", fields) => fields["boolval"].as_bool().map(|b| b.to_string()),
        ("Float", fields) => fields["fval"].as_str().map(str::to_owned),
        ("TypeCast", fields) => constant(&fields["arg"]),
        ("AConst", fields) => {
            let (kind, value) = fields["val"].as_object()?.iter().next()?;
            match kind.as_str() {
                "Sval" => value["sval"].as_str().map(str::to_owned),
                "Ival" => value["ival"].as_i64().map(|n| n.to_string()),
                "Fval" => value["fval"].as_str().map(str::to_owned),
                "Boolval" => value["boolval"].as_bool().map(|b| b.to_string()),
                _ => None,
            }
        }
        _ => None,
    }
}

/// As `defGetBoolean` reads an option's value; absent means true.
fn is_false(arg: &Value) -> bool {
    constant(arg).is_some_and(|value| {
        ["0", "false", "off"].contains(&value.to_ascii_lowercase().as_str())
    })
}
