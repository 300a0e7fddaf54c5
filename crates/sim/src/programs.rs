//! Programs at hosts, and the times for which they wait.

use crate::app::{AnyApp, Application, Wants};
use crate::parties::TcpId;
use crate::record::NOBODY;
use catnip_base::Time;
use catnip_net::NodeId;
use std::collections::BTreeMap;

/// Tells the numbers of servers from those of users.
pub(crate) const SERVERS: u32 = 1 << 29;

/// The programs of all hosts.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    pub(crate) users: Vec<Program>,
    pub(crate) servers: Vec<Program>,
    /// Who answers at a node those who connect with these parameters.
    pub(crate) services: BTreeMap<(NodeId, TcpId), u32>,
    /// How many users are sources of background traffic.
    pub(crate) sources: usize,
    /// Timers that run: theirs, and those of all others.
    pub(crate) source_timers: usize,
    pub(crate) timers: usize,
}

impl Programs {
    /// What is wanted at an end with this program, or with [`NOBODY`].
    pub(crate) fn wants(&self, number: u32) -> Wants {
        match number.checked_sub(SERVERS) {
            _ if number == NOBODY => Wants::MESSAGES,
            None => self.users[number as usize].wants,
            Some(server) => self.servers[server as usize].wants,
        }
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut Program {
        match number.checked_sub(SERVERS) {
            None => &mut self.users[number as usize],
            Some(server) => &mut self.servers[server as usize],
        }
    }

    /// How many timers run of sources, or of all others.
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

/// A program, and the times that it has asked for.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) app: AnyApp,
    pub(crate) wants: Wants,
    /// Of background traffic.
    pub(crate) is_source: bool,
    pub(crate) timers: Timers,
}

impl Program {
    pub(crate) fn new(app: AnyApp) -> Self {
        let (wants, is_source) = (app.wants(), matches!(app, AnyApp::Background(_)));
        Self { app, wants, is_source, timers: Timers::default() }
    }
}

/// Keys and the times at which a program hears of them, in the order in which it has asked for them. The first one may stand
/// beside the list, since most programs wait for one.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    first: Option<(u64, Time)>,
    others: Vec<(u64, Time)>,
}

impl Timers {
    /// Another time for a key; false if it had none.
    pub(crate) fn plan(&mut self, key: u64, at: Time) -> bool {
        let had_one = self.take(|(other, _)| *other == key).is_some();
        // What was asked for before stands before it.
        if self.first.is_none() && self.others.is_empty() {
            self.first = Some((key, at));
        } else {
            self.others.push((key, at));
        }
        had_one
    }

    /// Takes out the first one of which this is true.
    pub(crate) fn take(&mut self, mut is_it: impl FnMut(&(u64, Time)) -> bool) -> Option<u64> {
        if let Some((key, _)) = self.first.take_if(|first| is_it(first)) {
            return Some(key);
        }
        let at = self.others.iter().position(is_it)?;
        Some(self.others.remove(at).0)
    }
}
