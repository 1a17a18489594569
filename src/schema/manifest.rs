//! What a branch is made from, pinned so that a reset gives the same again.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::fact::Digest;
use super::migrate::MigrationFile;
use crate::error::{ErrorKind, SqlState, UserFacingError};

/// The inputs of a reset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// The repository revision.
    pub revision: String,
    /// The snapshot the branch starts from.
    pub snapshot_id: String,
    /// The migration files in the order they are applied.
    pub migrations: Vec<PinnedFile>,
    /// Server settings that are part of the branch. Never a secret.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// The schema fingerprint all this must give, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_fingerprint: Option<Digest>,
}

/// A migration file, pinned by its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PinnedFile {
    /// Its name in the directory.
    pub file: String,
    /// The SHA-256 of its bytes.
    pub checksum: Digest,
}

impl Manifest {
    /// A manifest of these inputs, without a fingerprint yet.
    pub fn new(revision: String, snapshot_id: String, files: &[MigrationFile]) -> Self {
        let migrations = files
            .iter()
            .map(|file| PinnedFile { file: file.name.clone(), checksum: file.checksum })
            .collect();
        Self {
            revision,
            snapshot_id,
            migrations,
            settings: BTreeMap::new(),
            schema_fingerprint: None,
        }
    }

    /// The manifest as JSON.
    pub fn to_json(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// Reads a manifest.
    pub fn from_json(json: &str) -> Result<Self, BadManifest> {
        let manifest: Self = serde_json::from_str(json).map_err(BadManifest::Json)?;
        let mut names = BTreeSet::new();
        match manifest.migrations.iter().find(|pinned| !names.insert(&pinned.file)) {
            Some(twice) => Err(BadManifest::Twice(twice.file.clone())),
            None => Ok(manifest),
        }
    }

    /// Are `files` exactly the pinned ones, in the pinned order?
    pub fn check(&self, files: &[MigrationFile]) -> Result<(), BadManifest> {
        for pinned in &self.migrations {
            match files.iter().find(|file| file.name == pinned.file) {
                None => return Err(BadManifest::Missing(pinned.file.clone())),
                Some(file) if file.checksum != pinned.checksum => {
                    return Err(BadManifest::Changed(pinned.file.clone()));
                }
                Some(_) => {}
            }
        }
        let pinned = |file: &&MigrationFile| self.migrations.iter().any(|p| p.file == file.name);
        if let Some(file) = files.iter().find(|file| !pinned(file)) {
            return Err(BadManifest::NotPinned(file.name.clone()));
        }
        match files.iter().zip(&self.migrations).find(|(file, pinned)| file.name != pinned.file) {
            Some((file, _)) => Err(BadManifest::Reordered(file.name.clone())),
            None => Ok(()),
        }
    }
}

/// A manifest that cannot be used, or files that are not those of the manifest.
#[derive(Debug, thiserror::Error)]
pub enum BadManifest {
    /// Not JSON, or not of this shape.
    #[error("the manifest cannot be read: {0}")]
    Json(serde_json::Error),
    /// A file stands in it twice.
    #[error("the manifest lists the migration file {0:?} twice")]
    Twice(String),
    /// A pinned file is not there.
    #[error("the migration file {0:?} of the manifest is missing")]
    Missing(String),
    /// A pinned file has another content.
    #[error("the migration file {0:?} is not the one of the manifest: its checksum differs")]
    Changed(String),
    /// A file the manifest does not have.
    #[error("the migration file {0:?} is not in the manifest")]
    NotPinned(String),
    /// The files come in another order.
    #[error("the migration file {0:?} does not come in the order of the manifest")]
    Reordered(String),
}

impl UserFacingError for BadManifest {
    fn kind(&self) -> ErrorKind {
        ErrorKind::User
    }

    fn sqlstate(&self) -> SqlState {
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE
    }

    fn hint(&self) -> Option<String> {
        Some("Restore the pinned files, or pin a new manifest for the new revision.".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, sql: &str) -> MigrationFile {
        MigrationFile::new(name.to_owned(), sql.to_owned())
    }

    #[test]
    fn other_files_are_refused_by_name() {
        let [a, b] = [file("1_a.sql", "select 1"), file("2_b.sql", "select 2")];
        let files = [a.clone(), b.clone()];
        let manifest = Manifest::new("rev".to_owned(), "snap".to_owned(), &files);
        assert_eq!(Manifest::from_json(&manifest.to_json()).unwrap(), manifest);
        manifest.check(&files).unwrap();
        let said = |files: &[MigrationFile]| manifest.check(files).unwrap_err().to_string();
        assert!(said(std::slice::from_ref(&a)).contains("\"2_b.sql\" of the manifest is missing"));
        assert!(said(&[a.clone(), file("2_b.sql", "select 3")]).contains("checksum differs"));
        let more = [a.clone(), b.clone(), file("3_c.sql", "")];
        assert!(said(&more).contains("\"3_c.sql\" is not in the manifest"));
        assert!(said(&[b, a]).contains("order"));
        let twice = manifest.to_json().replace("2_b", "1_a");
        assert!(matches!(Manifest::from_json(&twice), Err(BadManifest::Twice(_))));
        assert!(Manifest::from_json("{\"revision\":\"x\"}").is_err());
    }
}
