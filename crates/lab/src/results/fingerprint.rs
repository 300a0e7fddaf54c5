use crate::Plan;
use catnip_base::Time;
use catnip_sim::app::{EchoRecord, ObjectRecord, PageRecord};
use catnip_sim::record::Activity;
use catnip_sim::{Event, Watch};
use std::hash::{Hash, Hasher};

/// Returns a hash of all events of a run. Runs with the same fingerprint have the same events.
pub fn fingerprint(plan: &Plan, seed: u64) -> u64 {
    plan.run(seed, Fingerprint(Fnv(0xcbf2_9ce4_8422_2325))).into_watch().0.0
}

struct Fingerprint(Fnv);

impl Watch for Fingerprint {
    const PACKETS: bool = true;
    fn record(&mut self, now: Time, event: &Event) {
        now.hash(&mut self.0);
        event.hash(&mut self.0);
    }
    fn activity(&mut self, now: Time, activity: &dyn Activity) {
        now.hash(&mut self.0);
        discriminant(activity).hash(&mut self.0);
        activity.hash_into(&mut self.0);
    }
}

/// Returns the discriminant that identifies the type of an activity in fingerprints. A type that was once a variant of [`Event`] keeps the
/// discriminant of that variant; all other types share one discriminant.
fn discriminant(activity: &dyn Activity) -> isize {
    let types = [
        (activity.downcast::<ObjectRecord>().is_some(), 5),
        (activity.downcast::<PageRecord>().is_some(), 6),
        (activity.downcast::<EchoRecord>().is_some(), 9),
    ];
    types.into_iter().find(|(is_it, _)| *is_it).map_or(10, |(_, number)| number)
}

/// FNV-1a hash of bytes in a fixed order, so that the hash is the same on every machine.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    fn write_u8(&mut self, value: u8) {
        self.write(&[value]);
    }
    fn write_u32(&mut self, value: u32) {
        self.write(&value.to_le_bytes());
    }
    fn write_u64(&mut self, value: u64) {
        self.write(&value.to_le_bytes());
    }
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }
}
