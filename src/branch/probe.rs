//! What this machine offers for branches, and what each lack costs: the facts of `postern doctor`.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::account::{Account, Walls};
use super::config::Config;
use super::pg::Installs;
use super::{ID_PREFIX, clone};
use crate::error::UserFacingError;

/// One fact about the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about.
    pub topic: &'static str,
    /// Is it as it should be?
    pub ok: bool,
    /// What was found.
    pub found: String,
    /// What the lack costs and what would mend it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<String>,
}

/// Processes of an idle server and the descriptors it holds in postern, for estimating limits.
const PROCESSES_PER_BRANCH: u64 = 5;

/// Looks around. `data_root` must exist; nothing is left behind in it. Blocks.
pub fn probe(data_root: &Path, pg_bin: Option<&Path>, pg_user: Option<&str>) -> Vec<Finding> {
    let mut findings = vec![postgresql(pg_bin)];
    findings.extend(account(pg_user, data_root));
    findings.extend(providers(data_root));
    findings.push(socket_path(data_root));
    findings.push(space(data_root));
    findings.push(cgroup());
    findings.push(processes());
    findings
}

fn good(topic: &'static str, found: impl Into<String>) -> Finding {
    Finding { topic, ok: true, found: found.into(), costs: None }
}

fn bad(topic: &'static str, found: impl Into<String>, costs: impl Into<String>) -> Finding {
    Finding { topic, ok: false, found: found.into(), costs: Some(costs.into()) }
}

fn failed(topic: &'static str, error: &dyn UserFacingError) -> Finding {
    bad(topic, error.message(), error.hint().unwrap_or_else(|| "No branch can run.".to_owned()))
}

fn postgresql(pg_bin: Option<&Path>) -> Finding {
    match Installs::find(pg_bin) {
        Ok(installs) => {
            let list: Vec<_> = installs.iter().map(ToString::to_string).collect();
            good("postgresql", list.join("; "))
        }
        Err(e) => failed("postgresql", &e),
    }
}

fn account(pg_user: Option<&str>, data_root: &Path) -> Vec<Finding> {
    let account = match Account::detect(pg_user) {
        Ok(account) => account,
        Err(e) => return vec![failed("server user", &e)],
    };
    let user = if account.switches_user() {
        good("server user", format!("servers run as `{}`, postern as root", account.user))
    } else {
        bad(
            "server user",
            format!("servers run as `{}` like postern itself", account.user),
            "A server that is broken into has the rights of postern: its state and secrets, and \
             the other branches. Start postern as root to have servers run as another user.",
        )
    };
    let walls = match account.walls {
        Walls::Root | Walls::UserNamespace => good(
            "server walls",
            "each server has a network and IPC namespace of its own and can gain no rights",
        ),
        Walls::NoNewPrivileges => bad(
            "server walls",
            "no namespaces: neither root nor unprivileged user namespaces",
            "A superuser of a branch could open connections to other machines, and a killed \
             server leaves a shared memory segment until it is cleaned up. Start postern as root, \
             or allow user namespaces.",
        ),
        Walls::None => bad(
            "server walls",
            "`setpriv` is missing",
            "Servers run without any wall but their file rights. Install util-linux.",
        ),
    };
    let reach = match account.check_reach(data_root) {
        Ok(()) => good("data directory", format!("{} can be reached", data_root.display())),
        Err(e) => failed("data directory", &e),
    };
    vec![user, walls, reach]
}

fn providers(data_root: &Path) -> Vec<Finding> {
    let (chosen, probes) = match clone::choose(data_root, None) {
        Ok(found) => found,
        Err(e) => return vec![failed("clone provider", &e)],
    };
    let list: Vec<_> = probes
        .iter()
        .map(|p| format!("{}: {}{}", p.name, if p.works { "" } else { "no, " }, p.detail))
        .collect();
    let found = format!("{} is used ({})", chosen.name(), list.join("; "));
    vec![if chosen.name() == "copy" {
        bad(
            "clone provider",
            found,
            "Each branch takes the time and space of a full copy. Put the data directory on XFS \
             or btrfs.",
        )
    } else {
        good("clone provider", found)
    }]
}

fn socket_path(data_root: &Path) -> Finding {
    let longest = Config {
        dir: PathBuf::new(),
        socket_dir: data_root.join("s").join(format!("{ID_PREFIX}{}", "x".repeat(12))),
        name: String::new(),
        major: 0,
        max_connections: 0,
        roles: Vec::new(),
        guests: Vec::new(),
        settings: std::collections::BTreeMap::new(),
    };
    match longest.socket() {
        Ok(path) => good("socket path", format!("{} of 107 bytes", path.as_os_str().len())),
        Err(why) => bad(
            "socket path",
            why,
            "No branch's server can be reached. Choose a data directory with a shorter path.",
        ),
    }
}

fn space(data_root: &Path) -> Finding {
    let Ok(stat) = rustix::fs::statvfs(data_root) else {
        return bad("disk", "cannot be measured", "Nobody warns before it is full.");
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize) >> 20;
    let found = format!("{free} MiB free");
    if free < 1024 {
        bad("disk", found, "An import or a copied branch may not fit.")
    } else {
        good("disk", found)
    }
}

/// Looks for a cgroup hierarchy with cpu and memory in which groups can be made.
fn cgroup() -> Finding {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    if let Some(v2) = mount_points(&mounts, "cgroup2", "").next() {
        let path = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        let dir = v2.join(path);
        let controllers =
            std::fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default();
        let has = |name| controllers.split_whitespace().any(|c| c == name);
        if has("cpu") && has("memory") && writable(&dir) {
            return good("cgroup", format!("v2 at {}", dir.display()));
        }
    }
    let v1 = |name| mount_points(&mounts, "cgroup", name).next();
    if let (Some(cpu), Some(memory)) = (v1("cpu"), v1("memory"))
        && writable(&cpu)
        && writable(&memory)
    {
        return good("cgroup", format!("v1 at {} and {}", cpu.display(), memory.display()));
    }
    bad(
        "cgroup",
        "none in which groups can be made",
        "CPU and memory of a branch cannot be capped exactly; scheduling priority is used \
         instead. Start postern as root, or delegate a cgroup to it.",
    )
}

/// Where a file system of that kind, with that option, is mounted.
fn mount_points<'a>(
    mounts: &'a str,
    kind: &'a str,
    option: &'a str,
) -> impl Iterator<Item = PathBuf> + 'a {
    mounts.lines().filter_map(move |line| {
        let mut fields = line.split(' ');
        let (_, dir, found, options) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let fits = option.is_empty() || options.split(',').any(|o| o == option);
        (found == kind && fits).then(|| PathBuf::from(dir))
    })
}

fn writable(dir: &Path) -> bool {
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_ok()
}

fn processes() -> Finding {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nproc).current;
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let pid_max: u64 = std::fs::read_to_string("/proc/sys/kernel/pid_max")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(u64::MAX);
    let branches = limit.unwrap_or(u64::MAX).min(pid_max) / PROCESSES_PER_BRANCH;
    let files = files.unwrap_or(u64::MAX);
    let found = format!("about {branches} running branches, {files} open files");
    if files < 4096 || branches < 100 {
        bad(
            "limits",
            found,
            "Each session takes two open files and each running branch one: raise `ulimit -n` \
             and `ulimit -u`.",
        )
    } else {
        good("limits", found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lack_says_what_it_costs() {
        let dir = tempfile::tempdir().unwrap();
        let findings = probe(dir.path(), Some(Path::new("/nowhere")), Some("nobody-here"));
        for finding in &findings {
            assert_eq!(finding.ok, finding.costs.is_none(), "{finding:?}");
        }
        let topics: Vec<_> = findings.iter().filter(|f| !f.ok).map(|f| f.topic).collect();
        assert!(topics.contains(&"postgresql") && topics.contains(&"server user"), "{topics:?}");
    }

    #[test]
    fn mounts_are_told_apart_by_kind_and_option() {
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\n\
                      cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let find = |kind, option| mount_points(mounts, kind, option).collect::<Vec<_>>();
        assert_eq!(find("cgroup", "cpu"), [Path::new("/sys/fs/cgroup/cpu")]);
        assert_eq!(find("cgroup2", ""), [Path::new("/sys/fs/cgroup/unified")]);
        assert!(find("cgroup", "memory").is_empty());
    }
}
