//! Applications at hosts and their timers.

use crate::app::{AnyApp, Application, Interest};
use crate::connection_spec::TcpId;
use crate::record::NO_APP;
use catnip_base::Time;
use catnip_net::NodeId;
use std::collections::BTreeMap;

/// First application number of servers; users have lower numbers.
pub(crate) const SERVERS: u32 = 1 << 29;

/// Applications of all hosts.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    pub(crate) users: Vec<Program>,
    pub(crate) servers: Vec<Program>,
    /// Listener of each node and set of TCP parameters.
    pub(crate) services: BTreeMap<(NodeId, TcpId), u32>,
    /// Number of users that are sources of background traffic.
    pub(crate) sources: usize,
    /// Number of running timers of these sources.
    pub(crate) source_timers: usize,
    /// Number of running timers of all other applications.
    pub(crate) timers: usize,
}

impl Programs {
    /// Returns the events requested by the application with this number; for [`NO_APP`], messages only.
    pub(crate) fn interest(&self, number: u32) -> Interest {
        match number.checked_sub(SERVERS) {
            _ if number == NO_APP => Interest::MESSAGES,
            None => self.users[number as usize].interest,
            Some(server) => self.servers[server as usize].interest,
        }
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut Program {
        match number.checked_sub(SERVERS) {
            None => &mut self.users[number as usize],
            Some(server) => &mut self.servers[server as usize],
        }
    }

    /// Returns the counter of running timers of background sources if `of_sources` is true, otherwise of all other applications.
    pub(crate) fn running(&mut self, of_sources: bool) -> &mut usize {
        if of_sources { &mut self.source_timers } else { &mut self.timers }
    }

    pub(crate) fn clear(&mut self) {
        let Self { users, servers, services, sources, source_timers, timers } = self;
        users.clear();
        servers.clear();
        services.clear();
        (*sources, *source_timers, *timers) = (0, 0, 0);
    }
}

/// Application with its timers.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) app: AnyApp,
    pub(crate) interest: Interest,
    /// True for a source of background traffic.
    pub(crate) is_source: bool,
    pub(crate) timers: Timers,
}

impl Program {
    pub(crate) fn new(app: AnyApp) -> Self {
        let (interest, is_source) = (app.interest(), matches!(app, AnyApp::Background(_)));
        Self { app, interest, is_source, timers: Timers::default() }
    }
}

/// Timers of an application as pairs of key and expiry time, in the order in which they were set. The first timer may be stored outside the
/// list, since most applications have a single timer.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    first: Option<(u64, Time)>,
    others: Vec<(u64, Time)>,
}

impl Timers {
    /// Sets the expiry time of the timer `key`. Returns true if this replaces an earlier expiry time.
    pub(crate) fn plan(&mut self, key: u64, at: Time) -> bool {
        let was_set = self.take(|(other, _)| *other == key).is_some();
        // Timers that were set earlier come first.
        if self.first.is_none() && self.others.is_empty() {
            self.first = Some((key, at));
        } else {
            self.others.push((key, at));
        }
        was_set
    }

    /// Removes the first timer for which `matches` returns true, and returns its key.
    pub(crate) fn take(&mut self, mut matches: impl FnMut(&(u64, Time)) -> bool) -> Option<u64> {
        if let Some((key, _)) = self.first.take_if(|first| matches(first)) {
            return Some(key);
        }
        let at = self.others.iter().position(matches)?;
        Some(self.others.remove(at).0)
    }
}
