//! The state: SQLite, written as intended first and as done after.
