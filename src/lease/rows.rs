//! Leases as rows of the state, and back.

use jiff::Timestamp;

use super::LeaseError;
use super::contract::{Lease, OnEnd};
use crate::state::StateError;
use crate::state::lease::LeaseRow;

impl Lease {
    /// The lease of a row; `snapshot` is the name of its snapshot.
    pub(super) fn from_row(row: LeaseRow, snapshot: String) -> Result<Self, LeaseError> {
        let corrupt = |what: &str, value: &str| {
            StateError::Corrupt(format!("lease {}: {what} `{value}`", row.id))
        };
        let time =
            |ms: i64| Timestamp::from_millisecond(ms).map_err(|_| corrupt("time", &ms.to_string()));
        Ok(Self {
            capabilities: row
                .capabilities
                .parse()
                .map_err(|_| corrupt("capabilities", &row.capabilities))?,
            on_end: OnEnd::from_word(&row.on_end).ok_or_else(|| corrupt("on_end", &row.on_end))?,
            created_at: time(row.created_at)?,
            expires_at: time(row.expires_at)?,
            ended_at: row.ended_at.map(time).transpose()?,
            lease_id: row.id,
            run_id: row.run_id,
            revision: row.revision,
            database_url_secret_ref: row.secret_ref,
            snapshot_id: row.snapshot_id,
            snapshot,
            branch_id: row.branch_id,
            database: row.database,
            policy: row.policy,
            state: row.state,
        })
    }

    /// The row of an active lease.
    pub(super) fn to_row(&self, verifier: String, max_connections: u32) -> LeaseRow {
        LeaseRow {
            id: self.lease_id.clone(),
            run_id: self.run_id.clone(),
            revision: self.revision.clone(),
            snapshot_id: self.snapshot_id.clone(),
            branch_id: self.branch_id.clone(),
            capabilities: self.capabilities.to_string(),
            policy: self.policy.clone(),
            verifier,
            secret_ref: self.database_url_secret_ref.clone(),
            database: self.database.clone(),
            max_connections,
            on_end: self.on_end.as_str().to_owned(),
            budget: "{}".to_owned(),
            created_at: self.created_at.as_millisecond(),
            expires_at: self.expires_at.as_millisecond(),
            state: self.state,
            ended_at: None,
            end_reason: None,
        }
    }
}
