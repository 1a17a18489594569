//! The PostgreSQL wire protocol: bytes to messages and back, TLS, SCRAM, PROXY protocol.
//!
//! Owns: framing, startup parsing, message encoding, the authentication exchange.
//! May use: nothing above it. Never here: leases, SQL, verdicts.

pub mod frame;
pub mod message;
pub mod proxy_protocol;
pub mod scram;
pub mod scram_client;
pub mod startup;
pub mod stream;
pub mod tls;

pub use frame::{FrameError, Header};
pub use message::ErrorFields;
pub use startup::{ProtocolVersion, StartupParameters, StartupRequest};
pub use stream::Stream;
