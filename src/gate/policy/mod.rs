//! Policies: files in which a platform engineer says what the leases of a capability may do.
//!
//! A folder is read whole or not at all. What no file can loosen is in `invariant`.

mod file;
mod invariant;
mod judge;
mod pattern;
mod rule;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub use file::PolicyError;
pub use invariant::missing;
pub(super) use judge::judge;
pub use judge::{Judgement, Refused};
pub use rule::{Effect, Rule, RuleRef};

use super::capability::{Capabilities, Capability};

/// One policy file.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The name a lease calls it by.
    pub name: String,
    /// Where it was read from.
    pub file: String,
    /// The capabilities of the leases it is for.
    pub serves: Capabilities,
    /// Is it in force for every lease with one of these capabilities that names no policy?
    pub is_default: bool,
    /// May it grant `admin`, on attached databases of a trusted operator alone?
    pub operator: bool,
    /// Its rules, denials first.
    pub rules: Vec<Rule>,
}

/// A folder of policies, valid as a whole.
#[derive(Debug, Clone)]
pub struct PolicySet {
    policies: BTreeMap<String, Arc<Policy>>,
}

/// The policies that come with postern, for when no folder is configured.
const BUILT_IN: [(&str, &str); 4] = [
    ("policies/read.toml", include_str!("../../../policies/read.toml")),
    ("policies/write.toml", include_str!("../../../policies/write.toml")),
    ("policies/migrate.toml", include_str!("../../../policies/migrate.toml")),
    ("policies/operator.toml", include_str!("../../../policies/operator.toml")),
];

impl PolicySet {
    /// The policies that come with postern.
    pub fn built_in() -> Result<Self, PolicyError> {
        Self::from_texts(BUILT_IN.iter().map(|(file, text)| ((*file).to_owned(), *text)))
    }

    /// Every `*.toml` file of a folder, none of the others and no subfolders.
    pub fn load(dir: &Path) -> Result<Self, PolicyError> {
        let unreadable = |error: std::io::Error| PolicyError::Folder {
            dir: dir.display().to_string(),
            reason: error.to_string(),
        };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_some_and(|e| e == "toml") && path.is_file() {
                paths.push(path);
            }
        }
        paths.sort();
        if paths.is_empty() {
            let reason = "it holds no .toml file, so nothing would be allowed".to_owned();
            return Err(PolicyError::Folder { dir: dir.display().to_string(), reason });
        }
        let mut texts = Vec::new();
        for path in paths {
            let text = std::fs::read_to_string(&path).map_err(|error| PolicyError::Folder {
                dir: path.display().to_string(),
                reason: error.to_string(),
            })?;
            texts.push((path.display().to_string(), text));
        }
        Self::from_texts(texts.iter().map(|(file, text)| (file.clone(), text.as_str())))
    }

    /// Reads files from memory; `file` is what errors and verdicts call them.
    pub fn from_texts<'a>(
        files: impl IntoIterator<Item = (String, &'a str)>,
    ) -> Result<Self, PolicyError> {
        let mut policies: BTreeMap<String, Arc<Policy>> = BTreeMap::new();
        let mut ids: BTreeMap<String, String> = BTreeMap::new();
        for (file, text) in files {
            let policy = file::parse(&file, text)?;
            if let Some(other) = policies.get(&policy.name) {
                return Err(file::duplicate(&file, text, &policy.name, &other.file, "policy"));
            }
            for rule in &policy.rules {
                if let Some(other) = ids.insert(rule.at.id.clone(), file.clone()) {
                    return Err(file::duplicate(&file, text, &rule.at.id, &other, "rule"));
                }
            }
            policies.insert(policy.name.clone(), Arc::new(policy));
        }
        Ok(Self { policies })
    }

    /// All policies by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.policies.values()
    }

    /// The policy of this name.
    pub fn find(&self, name: &str) -> Option<&Arc<Policy>> {
        self.policies.get(name)
    }

    /// The place of this policy among all, for keys.
    pub(super) fn index(&self, name: &str) -> Option<usize> {
        self.policies.keys().position(|key| key == name)
    }

    /// The policies in force for a lease: the one it names, else the default ones that serve one
    /// of its capabilities. `None` if it names one that is not there.
    pub fn in_force(
        &self,
        capabilities: Capabilities,
        named: Option<&str>,
    ) -> Option<Vec<Arc<Policy>>> {
        if let Some(name) = named {
            return self.find(name).map(|policy| vec![Arc::clone(policy)]);
        }
        let serves = |policy: &Policy| {
            Capability::ALL.into_iter().any(|c| capabilities.has(c) && policy.serves.has(c))
        };
        let default = self.iter().filter(|p| p.is_default && serves(p));
        Some(default.map(Arc::clone).collect())
    }
}

#[cfg(test)]
mod tests;
