//! The gate itself: text in, verdict out.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::RwLock;

use super::cache::Cache;
use super::capability::Capabilities;
use super::caps::Caps;
use super::facts::{Facts, Piece};
use super::floor::{self, Encoding, functions};
use super::kind::Kind;
use super::names;
use super::policy::{self, Policy, PolicyError, PolicySet};
use super::reader::{Reader, Readers};
use super::sql::SqlParser;
use super::verdict::Verdict;

/// How a gate is set up.
#[derive(Debug, Clone)]
pub struct GateSettings {
    /// The folder of policies; `None` for those that come with postern.
    pub policies: Option<PathBuf>,
    /// Caps on what is read.
    pub caps: Caps,
    /// Bytes of cached verdicts.
    pub cache_bytes: usize,
    /// How long a statement waits for its names to be read.
    pub patience: Duration,
}

impl Default for GateSettings {
    fn default() -> Self {
        Self {
            policies: None,
            caps: Caps::default(),
            cache_bytes: 32 << 20,
            patience: Duration::from_millis(500),
        }
    }
}

/// Whose statement is decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subject<'a> {
    /// What the lease may do.
    pub capabilities: Capabilities,
    /// The policy it names.
    pub policy: Option<&'a str>,
    /// Is its branch an attached database, where an operator's policy may open more?
    pub attached: bool,
    /// The session's `client_encoding`, as the server last reported it; see [`super::watch`].
    pub encoding: Encoding,
}

impl<'a> Subject<'a> {
    /// A lease on a branch of ours, its client speaking UTF-8.
    pub fn new(capabilities: Capabilities, policy: Option<&'a str>) -> Self {
        Self { capabilities, policy, attached: false, encoding: Encoding::Utf8 }
    }
}

/// Decides on every statement. One for the process, shared by all sessions.
pub struct Gate {
    loaded: RwLock<Arc<Loaded>>,
    cache: Cache,
    caps: Caps,
    folder: Option<PathBuf>,
    reader: Arc<dyn Reader>,
    readers: OnceLock<Option<Readers>>,
    patience: Duration,
}

/// The policies in force and their version.
struct Loaded {
    set: PolicySet,
    version: u64,
}

/// Texts up to this length are read faster than a thread is woken.
const QUICK: usize = 64 << 10;

impl Gate {
    /// Loads the policies, all of them or none.
    pub fn new(settings: GateSettings) -> Result<Self, PolicyError> {
        Self::with_reader(settings, Arc::new(SqlParser))
    }

    /// The same with another parser behind the floor.
    pub fn with_reader(
        settings: GateSettings,
        reader: Arc<dyn Reader>,
    ) -> Result<Self, PolicyError> {
        let GateSettings { policies: folder, mut caps, cache_bytes, patience } = settings;
        // Offsets of tokens are 32 bits wide.
        caps.bytes = caps.bytes.min(1 << 30);
        let set = load(folder.as_deref())?;
        Ok(Self {
            loaded: RwLock::new(Arc::new(Loaded { set, version: 0 })),
            cache: Cache::new(cache_bytes),
            caps,
            folder,
            reader,
            readers: OnceLock::new(),
            patience,
        })
    }

    /// Reads the policy folder again and puts it in force at once, for running sessions too. If
    /// anything in it is wrong, the old policies stay.
    pub fn reload(&self) -> Result<(), PolicyError> {
        let set = load(self.folder.as_deref())?;
        let mut loaded = self.loaded.write();
        let version = loaded.version + 1;
        *loaded = Arc::new(Loaded { set, version });
        Ok(())
    }

    /// Is there a policy of this name, for leases with these capabilities? Asked before a lease is
    /// made.
    pub fn knows_policy(&self, name: &str) -> bool {
        self.loaded.read().set.find(name).is_some()
    }

    /// The policies in force.
    pub fn policies(&self) -> PolicySet {
        self.loaded.read().set.clone()
    }

    /// Bytes held in the verdict cache.
    pub fn cached_bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// Will [`Gate::decide`] answer within microseconds? If not (a long text that is not cached, or
    /// names that a parser thread has to read), it may take some tens of milliseconds, at most the
    /// patience of the settings: an async caller then decides inside `block_in_place`.
    pub fn is_quick(&self, subject: &Subject<'_>, sql: &[u8]) -> bool {
        let loaded = Arc::clone(&self.loaded.read());
        if sql.len() <= QUICK && !loaded.wants_names(subject) {
            return true;
        }
        self.cache.find(loaded.scope(subject), sql).is_some()
    }

    /// Decides on the SQL text of one Query or Parse message. Never fails: what cannot be read is
    /// refused.
    pub fn decide(&self, subject: &Subject<'_>, sql: &[u8]) -> Arc<Verdict> {
        let loaded = Arc::clone(&self.loaded.read());
        let scope = loaded.scope(subject);
        if let Some(verdict) = self.cache.find(scope, sql) {
            return verdict;
        }
        let verdict = Arc::new(self.judge(&loaded, subject, sql, false));
        self.cache.keep(scope, sql, &verdict);
        verdict
    }

    /// The same, past the cache and with all names read: for people who want to know why.
    pub fn examine(&self, subject: &Subject<'_>, sql: &[u8]) -> Verdict {
        let loaded = Arc::clone(&self.loaded.read());
        self.judge(&loaded, subject, sql, true)
    }

    fn judge(
        &self,
        loaded: &Loaded,
        subject: &Subject<'_>,
        sql: &[u8],
        with_names: bool,
    ) -> Verdict {
        let Some(in_force) = loaded.in_force(subject) else {
            return Verdict::no_policy(subject.policy.unwrap_or_default());
        };
        let read = floor::tokens(sql, subject.encoding, &self.caps).and_then(|tokens| {
            let facts = floor::read_tokens(&tokens, subject.encoding, &self.caps)?;
            Ok((tokens, facts))
        });
        let (tokens, mut facts) = match read {
            Ok(read) => read,
            Err(error) => return Verdict::unreadable(&error, sql, subject.encoding),
        };
        if with_names || wants_names(&in_force) {
            names::complete(&mut facts, &tokens, self.readers(), &self.caps);
        }
        self.verdict(subject, &in_force, facts)
    }

    /// Decides on a FunctionCall message, which names its function by number alone.
    pub fn decide_function_call(&self, subject: &Subject<'_>, oid: u32) -> Arc<Verdict> {
        let (name, classes) = functions::by_oid(oid)
            .map_or((None, super::Classes::ADMIN), |(name, classes)| {
                (Some(name.to_owned()), classes)
            });
        let name = name.unwrap_or_else(|| format!("number {oid}"));
        let mut piece = Piece::bare(Kind::of("FUNCTION CALL"), classes);
        piece.because = Some(format!("a FunctionCall of {name}"));
        piece.functions.push(super::Name(vec!["pg_catalog".to_owned(), name]));
        piece.names_read = Some(true);
        self.decide_facts(subject, Facts { classes, statements: 1, pieces: vec![piece] })
    }

    /// Decides on the startup message: its parameters, and the settings in its `options`. Those
    /// that are no settings (`user`, `database`, `options` itself) are the session's own business.
    pub fn decide_startup<'b>(
        &self,
        subject: &Subject<'_>,
        parameters: impl IntoIterator<Item = (&'b [u8], &'b [u8])>,
    ) -> Arc<Verdict> {
        let piece = super::startup::piece(parameters);
        let facts = Facts { classes: piece.classes, statements: 1, pieces: vec![piece] };
        self.decide_facts(subject, facts)
    }

    fn decide_facts(&self, subject: &Subject<'_>, facts: Facts) -> Arc<Verdict> {
        let loaded = Arc::clone(&self.loaded.read());
        Arc::new(match loaded.in_force(subject) {
            Some(in_force) => self.verdict(subject, &in_force, facts),
            None => Verdict::no_policy(subject.policy.unwrap_or_default()),
        })
    }

    #[expect(clippy::unused_self, reason = "a step of the gate's own deciding")]
    fn verdict(&self, subject: &Subject<'_>, in_force: &[Arc<Policy>], facts: Facts) -> Verdict {
        let operator = subject.attached && subject.policy.is_some();
        let judgement = policy::judge(in_force, subject.capabilities, operator, &facts);
        Verdict::judged(facts, judgement, subject.capabilities, subject.policy)
    }

    fn readers(&self) -> Option<&Readers> {
        self.readers
            .get_or_init(|| Readers::start(Arc::clone(&self.reader), self.patience).ok())
            .as_ref()
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Loaded {
    fn in_force(&self, subject: &Subject<'_>) -> Option<Vec<Arc<Policy>>> {
        self.set.in_force(subject.capabilities, subject.policy)
    }

    fn wants_names(&self, subject: &Subject<'_>) -> bool {
        self.in_force(subject).is_some_and(|in_force| wants_names(&in_force))
    }

    /// A number for all that a verdict depends on beside the text.
    fn scope(&self, subject: &Subject<'_>) -> u64 {
        let policy = subject.policy.map_or(0, |name| self.set.index(name).map_or(1, |i| i + 2));
        let capabilities: u64 = subject.capabilities.iter().map(|c| 1 << c as u64).sum();
        let encoding = u64::from(subject.encoding == Encoding::Utf8);
        self.version << 32
            | (policy as u64) << 8
            | capabilities << 2
            | u64::from(subject.attached) << 1
            | encoding
    }
}

fn wants_names(policies: &[Arc<Policy>]) -> bool {
    policies.iter().flat_map(|policy| &policy.rules).any(policy::Rule::wants_names)
}

fn load(folder: Option<&Path>) -> Result<PolicySet, PolicyError> {
    folder.map_or_else(PolicySet::built_in, PolicySet::load)
}
