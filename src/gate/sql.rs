//! The reader on `sqlparser`.

use std::ops::ControlFlow;

use sqlparser::ast::{
    AssignmentTarget, Expr, Ident, ObjectName, Query, Statement, TableFactor, TableObject, Visit,
    Visitor,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::class::Classes;
use super::facts::Name;
use super::floor::lists;
use super::reader::{NotRead, Reader, Reading};

/// Levels of nesting `sqlparser` may go down; the stack of its thread is made for them.
const DEEPEST: usize = 200;

/// `sqlparser` with its PostgreSQL dialect.
#[derive(Debug, Clone, Copy, Default)]
pub struct SqlParser;

impl Reader for SqlParser {
    fn name(&self) -> &'static str {
        "sqlparser"
    }

    fn read(&self, statement: &str) -> Result<Reading, NotRead> {
        let dialect = PostgreSqlDialect {};
        let failed = |error: sqlparser::parser::ParserError| NotRead::Syntax(error.to_string());
        let mut parser = Parser::new(&dialect)
            .with_recursion_limit(DEEPEST)
            .try_with_sql(statement)
            .map_err(failed)?;
        let parsed = parser.parse_statement().map_err(failed)?;
        if parser.peek_token().token != Token::EOF {
            return Err(NotRead::Unfinished);
        }
        let mut names = Names::default();
        let _ = parsed.visit(&mut names);
        Ok(names.finish(&parsed))
    }
}

#[derive(Default)]
struct Names {
    reading: Reading,
    with_queries: Vec<String>,
    aliases: Vec<String>,
    /// Plain identifiers where values stand: columns, or whole rows if a table is called so.
    values: Vec<String>,
    changes: Classes,
}

impl Names {
    fn finish(mut self, statement: &Statement) -> Reading {
        // EXPLAIN and PREPARE hold statements that do not run now; there the floor alone decides.
        let plain = matches!(
            statement,
            Statement::Query(_)
                | Statement::Insert(_)
                | Statement::Update(_)
                | Statement::Delete(_)
                | Statement::Merge(_)
        );
        if plain {
            self.reading.classes = self.changes;
        }
        let Self { mut reading, with_queries, aliases, values, .. } = self;
        reading.tables.retain(|name| {
            name.0.len() > 1 || !with_queries.iter().any(|query| query == name.last())
        });
        reading.whole_rows = values.iter().any(|value| {
            aliases.contains(value) || reading.tables.iter().any(|table| table.last() == value)
        });
        reading.columns.extend(values.into_iter().map(|value| Name(vec![value])));
        for names in [&mut reading.tables, &mut reading.columns, &mut reading.functions] {
            names.sort();
            names.dedup();
        }
        reading
    }

    fn function(&mut self, name: &ObjectName) {
        let name = plain(name);
        self.changes = self.changes.and(lists::function(name.last()));
        self.reading.functions.push(name);
    }

    fn columns<'a>(&mut self, names: impl IntoIterator<Item = &'a ObjectName>) {
        self.reading.columns.extend(names.into_iter().map(plain));
    }
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.with_queries.push(folded(&cte.alias.name));
        }
        if !query.locks.is_empty() {
            self.changes = self.changes.and(Classes::WRITE);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        self.reading.tables.push(plain(relation));
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let alias = match factor {
            TableFactor::Table { name, alias, args, .. } => {
                if args.is_some() {
                    // It was taken for a table on the way in.
                    let function = plain(name);
                    if let Some(at) = self.reading.tables.iter().rposition(|t| *t == function) {
                        self.reading.tables.remove(at);
                    }
                    self.function(name);
                }
                alias
            }
            TableFactor::Function { name, alias, .. } => {
                self.function(name);
                alias
            }
            TableFactor::Derived { alias, .. }
            | TableFactor::NestedJoin { alias, .. }
            | TableFactor::TableFunction { alias, .. } => alias,
            _ => &None,
        };
        if let Some(alias) = alias {
            self.aliases.push(folded(&alias.name));
            // Columns under new names stand for any.
            self.reading.whole_rows |= !alias.columns.is_empty();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) => self.values.push(folded(name)),
            Expr::CompoundIdentifier(parts) => {
                self.reading.columns.push(Name(parts.iter().map(folded).collect()));
            }
            Expr::Function(call) => self.function(&call.name),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<()> {
        match statement {
            Statement::Insert(insert) => {
                self.changes = self.changes.and(Classes::WRITE);
                self.columns(&insert.columns);
                if let TableObject::TableName(name) = &insert.table {
                    self.reading.tables.push(plain(name));
                }
            }
            Statement::Update(update) => {
                self.changes = self.changes.and(Classes::WRITE);
                for assignment in &update.assignments {
                    match &assignment.target {
                        AssignmentTarget::ColumnName(name) => self.columns([name]),
                        AssignmentTarget::Tuple(names) => self.columns(names),
                    }
                }
            }
            Statement::Delete(_) | Statement::Merge(_) => {
                self.changes = self.changes.and(Classes::WRITE);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn plain(name: &ObjectName) -> Name {
    Name(name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect())
}

fn folded(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_ascii_lowercase(),
    }
}
