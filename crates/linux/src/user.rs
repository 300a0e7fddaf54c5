//! User accounts under which root runs commands.

use crate::sys;
use catnip_cli::failure::Failure;
use nix::unistd::{Uid, User as Account, getgrouplist};
use std::ffi::{CString, OsStr};
use std::path::Path;
use std::process::Command;

/// Folders with the programs of root and of other users (ENV_SUPATH and ENV_PATH of Debian's login.defs).
const ROOT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games";
/// Variables of the caller that a command of another user gets, besides those that begin with one of `HANDED_ON_PREFIXES`.
const HANDED_ON: [&str; 5] = ["TERM", "COLORTERM", "LANG", "LANGUAGE", "TZ"];
const HANDED_ON_PREFIXES: [&str; 2] = ["LC_", "CATNIP_"];

/// User account under which root runs a command.
#[derive(Clone, Debug)]
pub struct User {
    account: Account,
    groups: Vec<u32>,
}

impl User {
    /// Returns the user account `name`. Error messages begin with the option `key`.
    pub fn named(key: &str, name: &str) -> Result<Self, Failure> {
        if !Uid::effective().is_root() {
            return Err(Failure::new(key, "only root can run a command as another user; omit the option"));
        }
        let cannot = |error: nix::Error| Failure::new(key, format!("cannot look up {name:?}: {error}"));
        let account = Account::from_name(name).map_err(cannot)?;
        let account = account.ok_or_else(|| Failure::new(key, format!("there is no user {name:?}")))?;
        let group_name = CString::new(name).map_err(|_| cannot(nix::Error::EINVAL))?;
        let groups = getgrouplist(&group_name, account.gid).map_err(cannot)?;
        Ok(Self { account, groups: groups.into_iter().map(|group| group.as_raw()).collect() })
    }

    /// ID of the user.
    pub fn id(&self) -> u32 {
        self.account.uid.as_raw()
    }

    /// Makes the command run as this user, with the environment of a new login: of the caller's variables, the command gets those of
    /// terminal and language, and those that begin with CATNIP_. Variables that are set for the command stay. Must be called after all
    /// settings that need more privileges.
    pub fn apply_to(&self, command: &mut Command) {
        let Account { name, dir, shell, uid, gid, .. } = &self.account;
        let set = command.get_envs().filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())));
        let set: Vec<_> = std::env::vars_os().filter(|(key, _)| is_handed_on(key)).chain(set).collect();
        command.env_clear().envs(set).env("PATH", if uid.is_root() { ROOT_PATH } else { PATH });
        command.env("USER", name).env("LOGNAME", name).env("HOME", dir).env("SHELL", shell);
        let run_time = format!("/run/user/{uid}");
        if Path::new(&run_time).exists() {
            command.env("XDG_RUNTIME_DIR", run_time);
        }
        sys::as_user(command, uid.as_raw(), gid.as_raw(), self.groups.clone());
    }
}

fn is_handed_on(key: &OsStr) -> bool {
    let key = key.to_string_lossy();
    HANDED_ON.contains(&&*key) || HANDED_ON_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}
