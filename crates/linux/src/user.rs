//! User accounts under which root runs commands.

use crate::sys;
use catnip_cli::failure::Failure;
use nix::unistd::{Uid, User as Account, getgrouplist};
use std::ffi::CString;
use std::path::Path;
use std::process::Command;

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

    /// Makes the command run as this user, with the user's home directory. Must be called after all settings that need more privileges.
    pub fn apply_to(&self, command: &mut Command) {
        let Account { name, dir, shell, uid, gid, .. } = &self.account;
        command.env("USER", name).env("LOGNAME", name).env("HOME", dir).env("SHELL", shell);
        let run_time = format!("/run/user/{uid}");
        if Path::new(&run_time).exists() {
            command.env("XDG_RUNTIME_DIR", run_time);
        } else {
            command.env_remove("XDG_RUNTIME_DIR");
        }
        sys::as_user(command, uid.as_raw(), gid.as_raw(), self.groups.clone());
    }
}
