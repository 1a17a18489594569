//! The lease as other programs see it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::gate::Capabilities;
use crate::state::lease::LeaseState;

/// A lease: the contract that gives one run authority over one branch.
///
/// The keys `runId`, `revision`, `databaseUrlSecretRef`, `snapshotId`, `capabilities` and
/// `expiresAt` are relied upon by other programs; their names never change. The URL itself is
/// never in here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// The lease's id, which is also the user name it connects with.
    pub lease_id: String,
    /// The run that holds it.
    pub run_id: String,
    /// The repository revision the run works on.
    pub revision: String,
    /// Where the `DATABASE_URL` is kept.
    pub database_url_secret_ref: String,
    /// The snapshot that the branch was made from.
    pub snapshot_id: String,
    /// The snapshot's name.
    pub snapshot: String,
    /// The branch it lands on.
    pub branch_id: String,
    /// The database it connects to: the source's own name.
    pub database: String,
    /// What it may do: `read`, `write`, `migrate`.
    #[schema(value_type = Vec<String>)]
    pub capabilities: Capabilities,
    /// The policy it names, when it is not the default of its capabilities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// `active`, `expired` or `revoked`.
    pub state: LeaseState,
    /// What happens to the branch when the lease ends.
    pub on_end: OnEnd,
    /// When it was made (RFC 3339).
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it ends by itself (RFC 3339).
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
    /// When it ended (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
}

/// What happens to a branch when the last lease on it ends.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum OnEnd {
    /// It is destroyed.
    #[default]
    Destroy,
    /// It is left running.
    Keep,
    /// Its server is stopped, its data kept.
    Stop,
}

impl OnEnd {
    /// The wish of that name.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Destroy, Self::Keep, Self::Stop].into_iter().find(|wish| wish.as_str() == word)
    }

    /// The word in JSON and in the state.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Destroy => "destroy",
            Self::Keep => "keep",
            Self::Stop => "stop",
        }
    }
}

/// What `lease create` asks for.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewLease {
    /// The run that will hold it.
    pub run_id: String,
    /// The repository revision the run works on.
    pub revision: String,
    /// The snapshot, by name or id; not needed beside `branch`.
    #[serde(default)]
    pub snapshot: Option<String>,
    /// An existing branch, in place of a new one.
    #[serde(default)]
    pub branch: Option<String>,
    /// What it may do.
    #[schema(value_type = Vec<String>)]
    pub capabilities: Capabilities,
    /// Its lifetime in seconds; the configuration's default when absent.
    #[serde(default)]
    pub ttl_seconds: Option<u64>,
    /// A policy by name.
    #[serde(default)]
    pub policy: Option<String>,
    /// What happens to the branch at the end: by default a new one is destroyed, an existing one
    /// kept.
    #[serde(default)]
    pub on_end: Option<OnEnd>,
}

/// A fresh lease together with its URL: the one time that the secret is handed out unasked.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedLease {
    /// The lease.
    #[serde(flatten)]
    pub lease: Lease,
    /// The `DATABASE_URL` with the token in it.
    pub database_url: String,
}
