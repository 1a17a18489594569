//! The admin API: HTTP and JSON over what the command line prints.
//!
//! Owns: paths under `/v1/`, their bodies and errors, the listeners, the OpenAPI document.
//! May use: `service` and the rooms below it. Never here: decisions about leases or branches.

mod api;
mod error;
mod openapi;
mod server;

pub use api::{ImportEvent, router};
pub use error::{ApiError, ErrorBody};
pub use openapi::document;
pub use server::{AdminListeners, ListenError};
