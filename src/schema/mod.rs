//! What a database's schema is, whether it is the one expected, and how it gets there.
//!
//! Owns the [`Fingerprint`] (a hash tree of catalog facts), the `diff` of two of them, and
//! ordered [`migrate`] files with the [`Manifest`] that pins them. It may use `error` and a
//! superuser's connection, and nothing else of the house. Never here: an object counted without
//! being understood, a secret among the facts, or a session that runs what an agent left behind.

mod catalogs;
mod diff;
mod fact;
mod manifest;
pub mod migrate;
mod normal;
mod query;
mod read;
mod split;

pub use diff::{Change, Diff, Difference, diff};
pub use fact::{BadFacts, Digest, Facts, Fingerprint, Object, Part};
pub use manifest::{BadManifest, Manifest, PinnedFile};
pub use read::{FingerprintError, Scope, fingerprint, fingerprint_in};
