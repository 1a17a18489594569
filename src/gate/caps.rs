//! Caps: how much text the gate reads before it refuses instead.

/// Limits on one message's SQL. Past one of the first four the statement is refused (54001); past
/// one of the others its names stay unread, which matters only where a policy needs them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caps {
    /// Bytes of SQL text. Values belong into parameters; PostgreSQL itself stops at 1 GiB.
    pub bytes: usize,
    /// Tokens.
    pub tokens: usize,
    /// Open parentheses and brackets at once. The server's own parser gives up before 10,000.
    pub nesting: usize,
    /// Comments inside comments. 20,000 of them keep the server busy for 11 seconds.
    pub comment_depth: usize,
    /// Bytes of one statement for the second reader.
    pub parser_bytes: usize,
    /// Tokens of one statement for the second reader.
    pub parser_tokens: usize,
    /// Nesting for the second reader.
    pub parser_nesting: usize,
    /// Joins, set operations and operators in one statement for the second reader, whose recursion
    /// grows with them.
    pub parser_chain: usize,
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            bytes: 64 << 20,
            tokens: 1_000_000,
            nesting: 4_000,
            comment_depth: 64,
            parser_bytes: 256 << 10,
            parser_tokens: 20_000,
            parser_nesting: 60,
            parser_chain: 2_000,
        }
    }
}
