//! As whom, and behind which kernel walls, branch servers run.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{ErrorKind, SqlState, UserFacingError};

/// The user that servers run as when postern is root and none is named.
pub const DEFAULT_USER: &str = "postgres";

/// As whom servers run. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The servers' user name.
    pub user: String,
    /// The servers' user id; never 0.
    pub uid: u32,
    /// The servers' group id.
    pub gid: u32,
    /// Postern's own user name: the only operating-system user that may log in to a server.
    pub own_user: String,
    /// How a server is walled off by the kernel.
    pub walls: Walls,
}

/// The kernel's walls around a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walls {
    /// Postern is root: a network and an IPC namespace of its own, another user, no new rights.
    Root,
    /// Not root, but user namespaces are allowed: network and IPC namespaces, no new rights.
    UserNamespace,
    /// Not root and no namespaces: no new rights only. The server could open connections.
    NoNewPrivileges,
    /// `setpriv` is missing: nothing.
    None,
}

impl Walls {
    /// Does a server have a network of its own, with nothing in it?
    pub const fn network(self) -> bool {
        matches!(self, Self::Root | Self::UserNamespace)
    }

    /// Does the server's System V memory vanish with it? Else a killed one leaves a segment behind.
    pub const fn ipc(self) -> bool {
        self.network()
    }
}

impl Account {
    /// Finds out as whom servers run: `pg_user` (default `postgres`) when postern is root, else
    /// postern's own user. Tries whether the kernel allows the walls; blocks while it does.
    pub fn detect(pg_user: Option<&str>) -> Result<Self, AccountError> {
        let own_uid = rustix::process::geteuid().as_raw();
        let own = look_up(&own_uid.to_string())?.ok_or(AccountError::NoName { uid: own_uid })?;
        if own_uid != 0 {
            return match pg_user {
                Some(other) if other != own.name => {
                    Err(AccountError::NotRoot { user: other.to_owned() })
                }
                _ => Ok(Self {
                    user: own.name.clone(),
                    uid: own.uid,
                    gid: own.gid,
                    own_user: own.name,
                    walls: probe_unprivileged(),
                }),
            };
        }
        let name = pg_user.unwrap_or(DEFAULT_USER);
        let user = look_up(name)?.ok_or_else(|| AccountError::NoUser { user: name.to_owned() })?;
        if user.uid == 0 {
            return Err(AccountError::Root { user: user.name });
        }
        let account = Self {
            user: user.name,
            uid: user.uid,
            gid: user.gid,
            own_user: own.name,
            walls: Walls::Root,
        };
        account.try_out()?;
        Ok(account)
    }

    /// A command that runs `program` as the servers' user behind the walls. Its environment is
    /// empty save `PATH` and the locale: what postern was started with is not the server's matter.
    pub fn walled(&self, program: &Path) -> tokio::process::Command {
        command(&self.wall_words(), program)
    }

    /// A command that runs `program` as the servers' user, but with postern's own network: for
    /// programs such as `initdb` and `pg_dump` that have to reach something.
    pub fn plain(&self, program: &Path) -> tokio::process::Command {
        command(&self.user_words(), program)
    }

    /// Can servers pass through to what is in `dir`? A data directory below a closed home directory
    /// is the usual case that they cannot. Blocks.
    pub fn check_reach(&self, dir: &Path) -> Result<(), AccountError> {
        // The trailing dot asks for the right to pass through the directory itself.
        let dot = dir.join(".");
        let mut words = self.user_words();
        words.extend(["test".into(), "-x".into()]);
        run(&words, dot.as_os_str())
            .map_err(|_| AccountError::OutOfReach { user: self.user.clone(), dir: dir.to_owned() })
    }

    /// Does postern act as another user than the servers (so files must change owner)?
    pub const fn switches_user(&self) -> bool {
        matches!(self.walls, Walls::Root)
    }

    fn wall_words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = match self.walls {
            Walls::Root => words(&["unshare", "--net", "--ipc", "--"]),
            Walls::UserNamespace => {
                words(&["unshare", "--user", "--map-current-user", "--net", "--ipc", "--"])
            }
            Walls::NoNewPrivileges | Walls::None => Vec::new(),
        };
        words.extend(self.user_words());
        words
    }

    fn user_words(&self) -> Vec<OsString> {
        match self.walls {
            Walls::Root => words(&[
                "setpriv",
                &format!("--reuid={}", self.uid),
                &format!("--regid={}", self.gid),
                "--init-groups",
                "--no-new-privs",
                "--",
            ]),
            Walls::UserNamespace | Walls::NoNewPrivileges => {
                words(&["setpriv", "--no-new-privs", "--"])
            }
            Walls::None => Vec::new(),
        }
    }

    /// As root the walls are not optional: say what is missing instead of doing without.
    fn try_out(&self) -> Result<(), AccountError> {
        let words = self.wall_words();
        run(&words, "true".as_ref()).map_err(|why| AccountError::Walls { why })
    }
}

fn command(words: &[OsString], program: &Path) -> tokio::process::Command {
    let mut command = match words.split_first() {
        Some((first, rest)) => {
            let mut command = tokio::process::Command::new(first);
            command.args(rest).arg(program);
            command
        }
        None => tokio::process::Command::new(program),
    };
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()))
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null());
    command
}

/// Why servers cannot be run as wished.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// Only root may run servers as somebody else.
    #[error("servers cannot run as `{user}`: postern is not root")]
    NotRoot {
        /// The user that was asked for.
        user: String,
    },
    /// There is no such user.
    #[error("there is no user `{user}` to run servers as")]
    NoUser {
        /// The user that was asked for.
        user: String,
    },
    /// PostgreSQL refuses to run as root.
    #[error("servers cannot run as `{user}`: that is root")]
    Root {
        /// The user that was asked for.
        user: String,
    },
    /// PostgreSQL knows its client by name.
    #[error("user id {uid} has no name on this machine")]
    NoName {
        /// Postern's own user id.
        uid: u32,
    },
    /// The user database cannot be asked.
    #[error("cannot look up user `{user}`: {why}")]
    LookUp {
        /// Who was looked for.
        user: String,
        /// What went wrong.
        why: String,
    },
    /// The servers' user may not pass through to the data directory.
    #[error("`{user}`, as whom servers run, cannot reach {}", dir.display())]
    OutOfReach {
        /// The servers' user.
        user: String,
        /// The data directory.
        dir: PathBuf,
    },
    /// Namespaces or the change of user are not allowed.
    #[error("cannot wall off servers with unshare and setpriv: {why}")]
    Walls {
        /// What the programs said.
        why: String,
    },
}

impl UserFacingError for AccountError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::ControlPlane
    }

    fn sqlstate(&self) -> SqlState {
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE
    }

    fn hint(&self) -> Option<String> {
        Some(
            match self {
                Self::NotRoot { .. } => "Leave --pg-user out, or start postern as root.",
                Self::NoUser { .. } | Self::Root { .. } => {
                    "Name an unprivileged user with --pg-user."
                }
                Self::NoName { .. } => {
                    "Add an entry for it to /etc/passwd: PostgreSQL's peer authentication needs a name."
                }
                Self::LookUp { .. } => "`getent passwd` must work, or /etc/passwd be readable.",
                Self::OutOfReach { .. } => {
                    "Each directory above it must let that user pass (`chmod o+x`), or choose another data directory."
                }
                Self::Walls { .. } => {
                    "They come with util-linux; in a container, allow CAP_SYS_ADMIN, CAP_SETUID and CAP_SETGID, or run postern as an unprivileged user."
                }
            }
            .to_owned(),
        )
    }
}

struct PasswdEntry {
    name: String,
    uid: u32,
    gid: u32,
}

/// Looks a user up by name or number, through the name service where there is one.
fn look_up(user: &str) -> Result<Option<PasswdEntry>, AccountError> {
    let failed = |why: String| AccountError::LookUp { user: user.to_owned(), why };
    // A name that starts with a dash would be read as an option, one with a colon cannot exist.
    if user.is_empty() || user.starts_with('-') || user.contains([':', '\n', '\0']) {
        return Ok(None);
    }
    let text = match Command::new("getent").args(["passwd", user]).stdin(Stdio::null()).output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            std::fs::read_to_string("/etc/passwd").map_err(|e| failed(e.to_string()))?
        }
        Err(e) => return Err(failed(e.to_string())),
    };
    Ok(text.lines().filter_map(parse_passwd).find(|e| e.name == user || e.uid.to_string() == user))
}

fn parse_passwd(line: &str) -> Option<PasswdEntry> {
    let mut fields = line.split(':');
    let name = fields.next()?.to_owned();
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    Some(PasswdEntry { name, uid, gid })
}

/// The strongest walls an unprivileged user gets here.
fn probe_unprivileged() -> Walls {
    let namespaces = ["unshare", "--user", "--map-current-user", "--net", "--ipc", "--"];
    let setpriv = ["setpriv", "--no-new-privs", "--"];
    if run(&words(&[&namespaces[..], &setpriv[..]].concat()), "true".as_ref()).is_ok() {
        Walls::UserNamespace
    } else if run(&words(&setpriv), "true".as_ref()).is_ok() {
        Walls::NoNewPrivileges
    } else {
        Walls::None
    }
}

/// Runs `words` with one more word; what it says on failure.
fn run(words: &[OsString], last: &OsStr) -> Result<(), String> {
    let mut words = words.iter().map(OsString::as_os_str).chain([last]);
    let Some(first) = words.next() else { return Ok(()) };
    let output = Command::new(first)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{}: {e}", first.to_string_lossy()))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

fn words(list: &[&str]) -> Vec<OsString> {
    list.iter().map(OsString::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwd_lines_are_read() {
        let entry = parse_passwd("postgres:x:101:104:PostgreSQL,,,:/var/lib:/bin/bash").unwrap();
        assert_eq!((entry.name.as_str(), entry.uid, entry.gid), ("postgres", 101, 104));
        assert!(parse_passwd("+::::::").is_none());
        assert!(parse_passwd("").is_none());
    }

    #[test]
    fn servers_never_run_as_root_or_nobody_known() {
        let root = rustix::process::geteuid().is_root();
        let error = Account::detect(Some("no-such-user-here")).unwrap_err();
        assert!(matches!(error, AccountError::NoUser { .. } | AccountError::NotRoot { .. }));
        if root {
            assert!(matches!(Account::detect(Some("root")), Err(AccountError::Root { .. })));
            assert!(matches!(Account::detect(Some("--help")), Err(AccountError::NoUser { .. })));
        }
    }

    #[test]
    fn a_closed_directory_is_told_early() {
        use std::os::unix::fs::PermissionsExt as _;
        let account = Account::detect(None).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("data");
        std::fs::create_dir(&inner).unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
        account.check_reach(&inner).unwrap();
        if account.switches_user() {
            std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
            let error = account.check_reach(&inner).unwrap_err();
            assert!(error.to_string().contains("cannot reach"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_walled_program_has_no_network_and_no_inherited_environment() {
        let account = Account::detect(None).unwrap();
        let script = "id -u; env | sort; cat /proc/net/route; grep NoNewPrivs /proc/self/status";
        let output =
            account.walled(Path::new("/bin/sh")).args(["-c", script]).output().await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().next(), Some(account.uid.to_string().as_str()), "{text}");
        assert!(!text.contains("CARGO"), "{text}");
        if account.walls != Walls::None {
            assert!(text.contains("NoNewPrivs:\t1"), "{text}");
        }
        if account.walls.network() {
            assert!(!text.contains("eth") && !text.contains("00000000\t"), "{text}");
        }
    }
}
