use catnip_wire::FlowKey;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Number of slots per set. A connection can be stored in any slot of one set.
const WAYS: usize = 8;

/// Set-associative table of connections with a fixed size. In each set, a new connection replaces the least recently used one.
#[derive(Debug)]
pub(super) struct Table<T> {
    slots: Vec<Slot<T>>,
    /// Number of accesses so far, from which the least recently used connection is determined.
    accesses: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot<T> {
    key: Option<FlowKey>,
    last_used: u64,
    value: T,
}

impl<T: Copy + Default> Table<T> {
    /// Creates a table for `capacity` connections. `capacity` must be a power of two and at least [`WAYS`].
    pub(super) fn new(capacity: usize) -> Self {
        assert!(capacity.is_power_of_two() && capacity >= WAYS, "sets of {WAYS}");
        Self { slots: vec![Slot { key: None, last_used: 0, value: T::default() }; capacity], accesses: 0 }
    }

    /// Returns the entry of a connection. A connection without an entry gets a new one with the default value.
    #[inline]
    pub(super) fn get(&mut self, key: FlowKey) -> &mut T {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let sets = self.slots.len() / WAYS;
        let first = (hasher.finish() as usize & (sets - 1)) * WAYS;
        let set = &mut self.slots[first..first + WAYS];
        self.accesses += 1;
        let index = set.iter().position(|slot| slot.key == Some(key)).unwrap_or_else(|| {
            let oldest = (0..WAYS).min_by_key(|&i| set[i].last_used).unwrap_or(0);
            set[oldest] = Slot { key: Some(key), last_used: 0, value: T::default() };
            oldest
        });
        set[index].last_used = self.accesses;
        &mut set[index].value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddr};

    fn key(port: u16) -> FlowKey {
        let socket = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        FlowKey { protocol: 6, source: socket(port), destination: socket(80) }
    }

    #[test]
    fn the_longest_unused_goes_and_no_other() {
        let mut table = Table::new(WAYS);
        for port in 1..=8 {
            *table.get(key(port)) = port;
        }
        table.get(key(1));
        *table.get(key(9)) = 9;
        assert_eq!(*table.get(key(1)), 1);
        for port in 3..=9 {
            assert_eq!(*table.get(key(port)), port);
        }
        assert_eq!(*table.get(key(2)), 0, "it was the one unused for longest");
    }

    #[test]
    fn it_never_grows() {
        let mut table = Table::new(64);
        (0..=u16::MAX).for_each(|port| *table.get(key(port)) = port);
        assert_eq!((table.slots.len(), table.slots.capacity()), (64, 64));
        assert_eq!(*table.get(key(u16::MAX)), u16::MAX);
    }
}
