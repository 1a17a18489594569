//! Named places at which tests kill the process, to see that whoever starts next cleans up.

/// Every failpoint, in the order of a branch's life.
pub const ALL: [&str; 14] = [
    "create.intended",
    "create.cloned",
    "create.done",
    "start.intended",
    "start.spawned",
    "start.ready",
    "start.done",
    "promote.done",
    "stop.intended",
    "stop.stopped",
    "destroy.intended",
    "destroy.stopped",
    "destroy.renamed",
    "destroy.deleted",
];

/// Kills this process with SIGKILL if the environment variable `POSTERN_FAILPOINT` names this
/// place. Does nothing in a release build.
#[inline]
pub fn hit(name: &'static str) {
    debug_assert!(ALL.contains(&name), "{name} is not listed");
    #[cfg(debug_assertions)]
    {
        static ARMED: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
        let armed = ARMED.get_or_init(|| std::env::var("POSTERN_FAILPOINT").ok());
        if armed.as_deref() == Some(name) {
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
        }
    }
}
