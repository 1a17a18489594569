//! The PostgreSQL wire protocol: bytes to messages and back, TLS, SCRAM, PROXY protocol.
//!
//! Owns: framing, startup parsing, message encoding, the authentication exchange.
//! May use: nothing above it. Never here: leases, SQL, verdicts.
