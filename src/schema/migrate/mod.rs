//! Ordered migration files: each is applied once, in order, and recorded.

mod apply;
mod error;
mod file;
mod record;

pub use apply::{Applied, apply};
pub use error::{MigrateError, StatementFailure};
pub use file::{BadFile, MigrationFile, load};
pub use record::{Record, Recorder, RecorderError, State};
