//! Leases: the contract that gives one run authority over one branch.
//!
//! Owns: the lease's life (creation, renewal, expiry, revocation), its token and URL, secrets.
//! May use: `branch`, `state`, and the traits of `session`. Never here: SQL, sockets, HTTP.

mod contract;
mod error;
mod manager;
mod rows;
mod secret;
mod url;

pub use contract::{CreatedLease, Lease, NewLease, OnEnd};
pub use error::LeaseError;
pub use manager::{LeaseSettings, Leases};
pub use secret::{SecretError, SecretFiles, SecretRef};
pub use url::{Advertised, percent_encode};
