//! Differential fuzzing: statements are cut, spliced and spiced with what confuses lexers, and what
//! PostgreSQL still parses is held against the gate.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::gate::{self, Caps, Encoding};
use crate::{truth, weaker_than};

/// Pieces that move borders between tokens, or make statements where none seem to be.
const SPICE: &[&str] = &[
    ";", "; DELETE FROM t", "; DROP TABLE t;", "--", "--\n", "--\r", "\n--", "/*", "*/", "/**/",
    "/* ' */", "/*;*/", "'", "''", "'\n'", "'--\n'", "\"", "\"\"", "$$", "$a$", "$$;$$", "$é$",
    "\\", "\\'", "E'", "e'\\''", "E'\\\\'", "U&'", "U&\"", "u&\"\\0064\"", " UESCAPE '!'", "N'", "B'1'", "X'1F'",
    "(", ")", "((", "))", "[", "]", "{", "}", ",", ".", "..", ":", "::", ":=", "=>", "*", "*--\n",
    "+-", "@-", "-", "@--\n", "#/*'*/", "%", "1", "1.", "1e", "1e'", ".5", "0x1F", "1_000", "$1", "$1$$",
    " END ", " END;", " BEGIN ATOMIC ", " AS ", " INTO ", " INTO t9 ", " FOR UPDATE ", " FOR SHARE ",
    " FOR KEY SHARE", " FOR NO KEY UPDATE", " UPDATE ", " DELETE FROM t ", " INSERT INTO t VALUES (1) ",
    " UPDATE t SET a = 1 ", "(DELETE FROM t RETURNING *)", "WITH d AS (DELETE FROM t RETURNING 1) ",
    "WITH RECURSIVE ", "WITH d AS MATERIALIZED (UPDATE t SET a = 1 RETURNING 1) ", " SEARCH DEPTH FIRST BY a SET b ",
    " CYCLE a SET b USING c ", " MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE ",
    " EXPLAIN ", " EXPLAIN ANALYZE ", " EXPLAIN (ANALYZE) ", " EXPLAIN (ANALYZE off, analyze) ", " EXPLAIN (\"analyze\" 1) ",
    " PREPARE p AS ", " EXECUTE p ", " DECLARE c CURSOR FOR ", " COPY (", ") TO STDOUT", " COPY t FROM STDIN ",
    " COPY t TO '/x' ", " TO PROGRAM 'x' ", " CREATE TABLE x AS ", " WITH NO DATA", " CREATE MATERIALIZED VIEW v AS ",
    " nextval('s') ", " pg_read_file('x') ", "set_config('role', 'x', false)", " set_config('a.b', $1, true) ",
    " nextval ", " delete ", " update ", " insert ", " merge ", " into ", " from ", " SELECT ", " VALUES (1) ",
    " TABLE t ", " UNION ALL ", " READ WRITE ", " BEGIN ", " SET x = 1 ", " SET LOCAL ", " SET SESSION ",
    " SET TRANSACTION READ WRITE ", " SET ROLE x ", " RESET ALL ", " role ", " session ", " authorization ", " transaction ",
    " TO DEFAULT ", " standard_conforming_strings = off ", " LANGUAGE c ", " LANGUAGE sql ", " CREATE FUNCTION f() RETURNS int ",
    " CREATE RULE r AS ON DELETE TO t DO ALSO (DELETE FROM u; NOTIFY x) ", " CREATE SCHEMA s ", " GRANT a TO b ", " GRANT SELECT ON t TO b ",
    " ON ", " DO $$ $$ ", " CALL p(", " ALTER TABLE t ADD c int DEFAULT ", " USING ", " ONLY ", " LATERAL ", " ROWS FROM (",
    " recursive ", " ordinality ", " materialized ", " atomic ", " begin ", " end ", " U&\"n!0065xtval\" UESCAPE '!' ", " update pg_settings set setting = 1 ",
    "\t", "\n", "\r", "\x0b", "\x0c", "\u{a0}", "é", "_", "$", "?", "|", "||", "&", "~", "!", "@", "#", "^", "`", "<", ">", "=", "<=", "!=",
];

/// A small generator of pseudo-random numbers (xorshift64*), so that a run can be told again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit.max(1)
    }
}

/// Runs until the time is over. Gives the number of texts that parsed, and of weak readings.
pub fn run(corpus: &[String], time: Duration, keep: Option<&Path>) -> (usize, usize) {
    let short: Vec<&String> = corpus.iter().filter(|s| s.len() < 400).collect();
    if short.is_empty() {
        return (0, 0);
    }
    let seed = std::env::var("ORACLE_SEED").ok().and_then(|s| s.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) << 20 | 1);
    println!("fuzz seed {seed}");
    let mut random = Random(seed);
    let caps = Caps::default();
    let (mut tried, mut parsed, mut weaker) = (0_usize, 0_usize, 0_usize);
    // Mutants that parse are mutated on: validity is rare and worth building on.
    let mut pool: Vec<String> = Vec::new();
    let end = Instant::now() + time;
    while Instant::now() < end {
        tried += 1;
        let base = if !pool.is_empty() && random.below(3) == 0 {
            pool[random.below(pool.len())].clone()
        } else {
            short[random.below(short.len())].clone()
        };
        let other = short[random.below(short.len())];
        let sql = mutate(&mut random, base, other);
        if sql.len() > 2000 || sql.contains('\0') {
            continue;
        }
        let Some(truth) = truth::read(&sql) else { continue };
        parsed += 1;
        let read = gate::read(sql.as_bytes(), Encoding::Utf8, &caps);
        if let Some(reason) = weaker_than(&truth, &read) {
            weaker += 1;
            println!("fuzz weaker: {reason}: {sql:?}");
            if let Some(dir) = keep {
                let _ = std::fs::create_dir_all(dir);
                let _ = std::fs::write(dir.join(format!("{seed}-{tried}.sql")), &sql);
            }
        } else if pool.len() < 20_000 {
            pool.push(sql);
        } else {
            let at = random.below(pool.len());
            pool[at] = sql;
        }
    }
    println!("fuzz: {tried} texts tried, {parsed} parsed, {weaker} weaker");
    (parsed, weaker)
}

fn mutate(random: &mut Random, mut sql: String, other: &str) -> String {
    for _ in 0..1 + random.below(3) {
        let at = border(&sql, random);
        match random.below(7) {
            0 | 1 | 2 => sql.insert_str(at, SPICE[random.below(SPICE.len())]),
            3 => {
                let to = border(&sql, random);
                sql.replace_range(at.min(to)..at.max(to), "");
            }
            4 => {
                let (a, b) = (border(other, random), border(other, random));
                sql.insert_str(at, &other[a.min(b)..a.max(b)]);
            }
            5 => {
                sql.truncate(at);
                sql.push_str(&other[border(other, random)..]);
            }
            _ => {
                let to = border(&sql, random);
                let part = sql[at.min(to)..at.max(to)].to_owned();
                sql.insert_str(border(&sql, random), &part);
            }
        }
    }
    sql
}

/// A place between two characters, mostly where a word starts or ends.
fn border(sql: &str, random: &mut Random) -> usize {
    let mut at = random.below(sql.len() + 1);
    let word = |i: usize| sql.as_bytes().get(i).is_some_and(u8::is_ascii_alphanumeric);
    if random.below(4) > 0 {
        while at > 0 && at < sql.len() && word(at - 1) == word(at) {
            at += 1;
        }
    }
    while !sql.is_char_boundary(at) {
        at -= 1;
    }
    at
}
