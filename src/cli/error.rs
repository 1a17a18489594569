//! Why a command failed, and how that is told.

use std::process::ExitCode;

use crate::admin::ErrorBody;
use crate::error::UserFacingError;

use super::Output;

/// Errors of the command line.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// Postern, here or over the admin API, refused or failed.
    #[error("{}", .0.message)]
    Refused(ErrorBody),
    /// The way to postern, or standard output, broke.
    #[error("{0}")]
    Broken(String),
    /// TCP was asked for without a token.
    #[error("the admin API over TCP needs a token in POSTERN_ADMIN_TOKEN")]
    NoToken,
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl<E: UserFacingError> From<E> for CliError {
    fn from(error: E) -> Self {
        Self::Refused(ErrorBody::of(&error))
    }
}

impl CliError {
    /// An error that has nothing more to say than its text.
    pub fn broken(error: impl std::fmt::Display) -> Self {
        Self::Broken(error.to_string())
    }

    /// Tells the person on standard error and gives the exit code.
    pub fn report(&self, output: Output) -> ExitCode {
        match (self, output) {
            (Self::Refused(body), Output::Json) => {
                eprintln!("{}", serde_json::json!({ "error": body }));
            }
            (other, Output::Json) => {
                eprintln!("{}", serde_json::json!({ "error": { "message": other.to_string() } }));
            }
            (Self::Refused(body), Output::Text) => {
                eprintln!("error: {}", body.message);
                if let Some(detail) = &body.detail {
                    eprintln!("detail: {detail}");
                }
                if let Some(hint) = &body.hint {
                    eprintln!("hint: {hint}");
                }
            }
            (other, Output::Text) => eprintln!("error: {other}"),
        }
        ExitCode::FAILURE
    }
}
