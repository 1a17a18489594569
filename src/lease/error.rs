//! Why a lease cannot be made, found or changed.

use crate::branch::BranchError;
use crate::error::{ErrorKind, SqlState, UserFacingError};
use crate::state::StateError;

use super::SecretError;
use crate::wire::scram::ScramError;

/// Errors of the lease room.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// No lease with that id.
    #[error("there is no lease `{0}`")]
    Unknown(String),
    /// The lease is over.
    #[error("lease {id} is {state}")]
    Over {
        /// Which.
        id: String,
        /// `expired` or `revoked`.
        state: &'static str,
    },
    /// A field of the request cannot be used.
    #[error("{field} {reason}")]
    Invalid {
        /// Which field.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The branch room failed.
    #[error(transparent)]
    Branch(#[from] BranchError),
    /// The state failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The secret cannot be kept or read.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes for a token")]
    NoRandom,
    /// A verifier could not be made or read.
    #[error(transparent)]
    Verifier(#[from] ScramError),
}

impl LeaseError {
    pub(super) fn invalid(field: &'static str, reason: impl Into<String>) -> Self {
        Self::Invalid { field, reason: reason.into() }
    }
}

impl UserFacingError for LeaseError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Unknown(_) | Self::Over { .. } | Self::Invalid { .. } => ErrorKind::User,
            Self::Branch(e) => e.kind(),
            Self::State(e) => e.kind(),
            Self::Secret(e) => e.kind(),
            Self::NoRandom | Self::Verifier(_) => ErrorKind::Service,
        }
    }
    fn sqlstate(&self) -> SqlState {
        match self {
            Self::Unknown(_) => SqlState::UNDEFINED_OBJECT,
            Self::Over { .. } => SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            Self::Invalid { .. } => SqlState("22023"),
            Self::Branch(e) => e.sqlstate(),
            Self::State(e) => e.sqlstate(),
            Self::Secret(e) => e.sqlstate(),
            Self::NoRandom | Self::Verifier(_) => SqlState::SYSTEM_ERROR,
        }
    }
    fn message(&self) -> String {
        match self {
            Self::Branch(e) => e.message(),
            Self::State(e) => e.message(),
            Self::Secret(e) => e.message(),
            other => other.to_string(),
        }
    }
    fn detail(&self) -> Option<String> {
        match self {
            Self::Branch(e) => e.detail(),
            Self::State(e) => e.detail(),
            _ => None,
        }
    }
    fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown(_) => Some("`postern lease list` shows the leases.".to_owned()),
            Self::Over { .. } => Some("Make a new one with `postern lease create`.".to_owned()),
            Self::Branch(e) => e.hint(),
            Self::State(e) => e.hint(),
            Self::Secret(e) => e.hint(),
            Self::Invalid { .. } | Self::NoRandom | Self::Verifier(_) => None,
        }
    }
}
