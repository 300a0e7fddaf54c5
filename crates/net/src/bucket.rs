use crate::Priority;
use catnip_base::notation::{Notation, Written};
use catnip_base::{Bytes, ParseError, Rate, Time};
use catnip_law::bucket as law;
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// Traffic profile (RFC 2475, section 2.3.1): the rate and depth of a token bucket, written `250kbit/6000B`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Token rate.
    pub rate: Rate,
    /// Depth of the bucket, bytes.
    pub depth: NonZeroU64,
}

impl Profile {
    /// Returns true if a packet of this size can ever conform.
    pub fn fits(self, len: u32) -> bool {
        u64::from(len) <= self.depth.get()
    }
}

impl FromStr for Profile {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let parts = text.split_once('/').and_then(|(rate, depth)| {
            let Bytes(depth) = depth.parse().ok()?;
            let depth = NonZeroU64::new(depth).filter(|depth| depth.get() <= law::MAX_DEPTH)?;
            Some(Self { rate: rate.parse().ok()?, depth })
        });
        let expected = "RATE/DEPTH such as 250kbit/6000B (both above zero, DEPTH at most 2GB)";
        parts.ok_or_else(|| ParseError::new(text, expected))
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.rate, Bytes(self.depth.get()))
    }
}

/// Token bucket with [`Time`] as its unit of time; see [`law::Bucket`].
#[derive(Clone, Debug)]
pub struct Bucket(law::Bucket);

impl Bucket {
    /// Creates a bucket that is full at time zero.
    pub fn new(profile: Profile) -> Self {
        Self(law::Bucket::new(profile.rate.bits_per_second(), profile.depth.get()))
    }

    /// Returns true if the bucket has tokens for a packet of `len` bytes.
    pub fn conforms(&self, now: Time, len: u32) -> bool {
        self.0.conforms(now.as_nanos(), len)
    }

    /// Takes the tokens of a packet, which must conform.
    pub fn take(&mut self, now: Time, len: u32) {
        let conforms = self.0.admits(now.as_nanos(), len);
        debug_assert!(conforms, "a packet that does not conform takes no tokens");
    }

    /// Adds tokens for a share of a packet of `len` bytes, percent.
    pub fn earn(&mut self, len: u32, share_pct: u32) {
        self.0.earn(len, share_pct);
    }

    /// Returns the earliest time at which a packet of `len` bytes conforms if no other packet takes tokens; [`Time::NEVER`] if the bucket
    /// is too small for the packet.
    pub fn ready_at(&self, len: u32) -> Time {
        Time::from_nanos(self.0.ready_at(len))
    }
}

/// Contract of a user (DiffServ paper): a profile for HIGH packets and a profile for MED packets, which all connections of the user share.
/// LOW packets are never limited. Sources shape their packets to the contract; edge routers police and mark packets by the contract.
/// Written `high=250kbit/6000B,med=500kbit/6000B`, with a share of HIGH packets `high=250kbit/6000B,share=50%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sla {
    /// Profile of HIGH packets.
    pub high: Profile,
    /// Profile of MED packets; `None` if no MED packet conforms.
    pub med: Option<Profile>,
    /// Share of all packets of the user, percent of bytes, that may be HIGH beyond the rate of [`Self::high`], and as many MED. Each packet
    /// of any priority adds tokens for this share of itself to both buckets. 0 where packets wait for tokens, because a share brings none
    /// while nothing is sent.
    pub share_pct: u32,
}

impl Sla {
    /// Reads a contract from the keys `high`, `med` and `share` in `text`, which may also contain other keys.
    pub fn read_with_share(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let share = text.take("share").map_or(Some(0), whole_pct);
        let share_pct = share.ok_or_else(|| text.error("share=PERCENT from 1% to 100%"))?;
        Ok(Self { share_pct, ..Self::read(text)? })
    }

    /// Reads a contract without a share from the keys `high` and `med` in `text`, which may also contain other keys.
    pub fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let (high, med) = (profile(text, "high")?, profile(text, "med")?);
        let high = high.ok_or_else(|| text.error("high=RATE/DEPTH, as in high=250kbit/6000B"))?;
        Ok(Self { high, med, share_pct: 0 })
    }

    /// Writes the keys from which [`Sla::read_with_share`] reads the same contract.
    pub fn write<'a>(&self, to: &'a mut Written) -> &'a mut Written {
        to.key("high", self.high);
        let to = self.med.iter().fold(to, |to, med| to.key("med", med));
        if self.share_pct > 0 { to.key("share", format!("{}%", self.share_pct)) } else { to }
    }

    /// Returns the profile that limits packets of this priority: `None` if they are not limited, `Some(None)` if none of them conforms.
    fn limit(&self, priority: Priority) -> Option<Option<Profile>> {
        match priority {
            Priority::High => Some(Some(self.high)),
            Priority::Medium => Some(self.med),
            Priority::Low => None,
        }
    }

    /// Returns true if a packet of this priority and size can ever conform.
    pub fn fits(&self, priority: Priority, len: u32) -> bool {
        self.limit(priority).is_none_or(|profile| profile.is_some_and(|profile| profile.fits(len)))
    }

    /// Returns the smallest depth of the token buckets, bytes, which is the size of the largest packet that conforms to every profile. The
    /// largest packets of a path should not exceed this size.
    pub fn min_depth(&self) -> u64 {
        self.med.map_or(self.high.depth, |med| med.depth.min(self.high.depth)).get()
    }
}

/// Parses a whole number of percent from 1 to 100.
fn whole_pct(text: &str) -> Option<u32> {
    text.strip_suffix('%')?.parse().ok().filter(|share_pct| (1..=100).contains(share_pct))
}

fn profile(text: &mut Notation<'_>, key: &str) -> Result<Option<Profile>, ParseError> {
    let Some(profile) = text.take(key) else { return Ok(None) };
    let expected = || {
        text.error(format!(
            "{key}=RATE/DEPTH, as in {key}=250kbit/6000B (both above zero, DEPTH at most 2GB)"
        ))
    };
    profile.parse().map(Some).map_err(|_| expected())
}

impl FromStr for Sla {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut text = Notation::nameless(text);
        let sla = Self::read_with_share(&mut text)?;
        text.finish()?;
        Ok(sla)
    }
}

impl fmt::Display for Sla {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "high={}", self.high)?;
        self.med.map_or(Ok(()), |med| write!(f, ",med={med}"))?;
        if self.share_pct > 0 { write!(f, ",share={}%", self.share_pct) } else { Ok(()) }
    }
}

/// Meter of an [`Sla`], with a token bucket for each limited priority.
#[derive(Clone, Debug)]
pub struct Meter {
    high: Bucket,
    med: Option<Bucket>,
    share_pct: u32,
}

impl Meter {
    /// Creates a meter whose buckets are full.
    pub fn new(sla: &Sla) -> Self {
        Self { high: Bucket::new(sla.high), med: sla.med.map(Bucket::new), share_pct: sla.share_pct }
    }

    /// Adds the tokens that a packet of `len` bytes brings by the share of the contract. Each packet is counted once, before it is checked.
    pub fn earn(&mut self, len: u32) {
        self.high.earn(len, self.share_pct);
        self.med.iter_mut().for_each(|med| med.earn(len, self.share_pct));
    }

    /// Returns true if a packet of this priority and size conforms.
    pub fn conforms(&self, now: Time, priority: Priority, len: u32) -> bool {
        match priority {
            Priority::High => self.high.conforms(now, len),
            Priority::Medium => self.med.as_ref().is_some_and(|med| med.conforms(now, len)),
            Priority::Low => true,
        }
    }

    /// Returns true if a packet of this priority and size conforms. If it conforms, takes its tokens.
    pub fn admits(&mut self, now: Time, priority: Priority, len: u32) -> bool {
        let conforms = self.conforms(now, priority, len);
        match priority {
            Priority::High if conforms => self.high.take(now, len),
            Priority::Medium if conforms => self.med.iter_mut().for_each(|med| med.take(now, len)),
            _ => {}
        }
        conforms
    }

    /// Returns the earliest time at which a packet of this priority and size conforms; [`Time::NEVER`] if such a packet never conforms.
    pub fn ready_at(&self, priority: Priority, len: u32) -> Time {
        match priority {
            Priority::High => self.high.ready_at(len),
            Priority::Medium => self.med.as_ref().map_or(Time::NEVER, |med| med.ready_at(len)),
            Priority::Low => Time::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catnip_base::Span;
    use proptest::prelude::*;

    /// Tokens per byte.
    const BYTE: u128 = 8 * 1_000_000_000;

    fn ms(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn bucket(text: &str) -> Bucket {
        Bucket::new(text.parse().unwrap())
    }

    #[test]
    fn a_bucket_by_hand() {
        // 250 kbit/s are 31.25 bytes per millisecond.
        let mut bucket = bucket("250kbit/6000B");
        assert!(bucket.conforms(ms(0), 6000) && !bucket.conforms(ms(0), 6001), "it is full at first");
        bucket.take(ms(0), 6000);
        assert_eq!(
            [0, 1, 31, 32, 1000].map(|len| bucket.conforms(ms(1), len)),
            [true, true, true, false, false]
        );
        assert_eq!(bucket.ready_at(1000), ms(32));
        assert!(bucket.conforms(ms(32), 1000) && !bucket.conforms(Time::from_nanos(31_999_999), 1000));
        bucket.take(ms(36), 1000);
        assert_eq!([125, 126].map(|len| bucket.conforms(ms(36), len)), [true, false]);
        assert_eq!(bucket.ready_at(100), ms(36), "it is ready");
        assert_eq!((bucket.ready_at(6000), bucket.ready_at(6001)), (ms(36 + 188), Time::NEVER));
        assert!(bucket.conforms(ms(100_000), 6000) && !bucket.conforms(ms(100_000), 6001), "it overflows");
    }

    proptest! {
        #[test]
        fn what_conforms_never_exceeds_rate_times_time_and_depth(
            bits in 1u64..10_000_000, depth in 1u64..20_000,
            arrivals in prop::collection::vec((0u64..50_000_000, 1u32..3000), 1..80)
        ) {
            let mut bucket = bucket(&format!("{bits}bit/{depth}B"));
            let (mut now, mut sent) = (0, Vec::new());
            for (gap, len) in arrivals {
                now += gap;
                if bucket.conforms(Time::from_nanos(now), len) {
                    bucket.take(Time::from_nanos(now), len);
                    sent.push((now, len));
                }
            }
            for first in 0..sent.len() {
                let mut bytes = 0;
                for &(at, len) in &sent[first..] {
                    bytes += u128::from(len);
                    let earned = u128::from(bits) * u128::from(at - sent[first].0);
                    prop_assert!(bytes * BYTE <= earned + u128::from(depth) * BYTE);
                }
            }
        }

        #[test]
        fn what_is_high_never_exceeds_the_share_of_all_packets_beyond_rate_and_depth(
            bits in 1u64..10_000_000, depth in 1u64..20_000, share in 1u32..=100,
            arrivals in prop::collection::vec((0u64..5_000_000, 1u32..3000, any::<bool>()), 1..80)
        ) {
            let sla: Sla = format!("high={bits}bit/{depth}B,share={share}%").parse().unwrap();
            let mut meter = Meter::new(&sla);
            let (mut now, mut packets) = (0, Vec::new());
            for (gap, len, is_high) in arrivals {
                now += gap;
                meter.earn(len);
                let conforms = is_high && meter.admits(Time::from_nanos(now), Priority::High, len);
                packets.push((now, len, conforms));
            }
            for first in 0..packets.len() {
                let (mut high, mut all) = (0, 0);
                for &(at, len, conforms) in &packets[first..] {
                    all += u128::from(len);
                    high += if conforms { u128::from(len) } else { 0 };
                    let earned = u128::from(bits) * u128::from(at - packets[first].0);
                    let shared = all * u128::from(share) * (BYTE / 100);
                    prop_assert!(high * BYTE <= earned + shared + u128::from(depth) * BYTE);
                }
            }
        }

        #[test]
        fn a_packet_conforms_from_the_nanosecond_on_that_is_foretold(
            bits in 1u64..10_000_000_000, depth in 1u64..20_000, takes in prop::collection::vec((0u64..9_999_999, 1u32..3000), 0..20),
            len in 0u32..21_000
        ) {
            let mut bucket = bucket(&format!("{bits}bit/{depth}B"));
            let mut now = Time::ZERO;
            for (gap, len) in takes {
                now += Span::from_nanos(gap);
                if bucket.conforms(now, len) {
                    bucket.take(now, len);
                }
            }
            let ready = bucket.ready_at(len);
            prop_assert_eq!(ready == Time::NEVER, u64::from(len) > depth);
            if ready != Time::NEVER {
                prop_assert!(bucket.conforms(ready, len));
                let before = Time::from_nanos(ready.as_nanos().saturating_sub(1));
                prop_assert!(ready <= now || !bucket.conforms(before, len), "not a nanosecond before");
            }
        }

        #[test]
        fn a_source_that_waits_for_tokens_gets_all_of_them(
            bits in 1_000u64..10_000_000, len in 1u32..1500, at_once in 1u64..7
        ) {
            // No drift: regardless of the number of packets, the last packet leaves in the nanosecond in which its tokens are complete. The
            // bucket is one byte deeper than the packets need, to hold the tokens that arrive between that moment and the next whole
            // nanosecond.
            let mut bucket = bucket(&format!("{bits}bit/{}B", u64::from(len) * at_once + 1));
            let (mut now, packets) = (Time::ZERO, 3_000);
            for _ in 0..packets {
                now = now.max(bucket.ready_at(len));
                bucket.take(now, len);
            }
            let waited_for = u128::from(packets - at_once) * u128::from(len) - 1;
            prop_assert_eq!(u128::from(now.as_nanos()), (waited_for * BYTE).div_ceil(u128::from(bits)));
        }
    }

    #[test]
    fn a_share_by_hand() {
        // One bit per second brings nothing in these milliseconds.
        let sla: Sla = "high=1bit/3000B,share=50%".parse().unwrap();
        let mut meter = Meter::new(&sla);
        let mut admits = |priority, len| {
            meter.earn(len);
            meter.admits(ms(1), priority, len)
        };
        // Each HIGH packet costs its size and brings half of it: 3000, 2000, 1500, 1000, 500.
        assert!(admits(Priority::High, 2000), "the bucket stays full while it earns");
        assert_eq!(
            [1000, 1000, 1000, 1000, 1000].map(|len| admits(Priority::High, len)),
            [true, true, false, true, false],
            "a refused packet brings tokens, too"
        );
        assert!(admits(Priority::Low, 4000) && admits(Priority::High, 2500));
        let both: Sla = "high=1bit/1000B,med=1bit/1000B,share=50%".parse().unwrap();
        let mut meter = Meter::new(&both);
        let admitted = [Priority::High, Priority::Medium, Priority::Medium].map(|priority| {
            meter.earn(1000);
            meter.admits(ms(1), priority, 1000)
        });
        assert_eq!(admitted, [true, true, false], "each has a bucket of its own, which earns");
    }

    #[test]
    fn what_is_wrong_with_a_contract_is_named() {
        for (text, named) in [
            ("", "high=RATE/DEPTH"),
            ("med=250kbit/6000B", "high=RATE/DEPTH"),
            ("high=250kbit", "high=RATE/DEPTH"),
            ("high=250kbit/0B", "above zero"),
            ("high=0bit/6000B", "above zero"),
            ("high=250kbit/6000B,med=6000B/250kbit", "med=RATE/DEPTH"),
            ("high=250kbit/6000B,low=250kbit/6000B", "unknown parameter \"low\""),
            ("high=250kbit/6000B,share=0.5", "share=PERCENT"),
            ("high=250kbit/6000B,share=101%", "share=PERCENT"),
            ("share=50%", "high=RATE/DEPTH"),
        ] {
            let error = text.parse::<Sla>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")) && error.contains(named), "{error}");
        }
        let error = "6000B".parse::<Profile>().unwrap_err().to_string();
        assert!(error.contains("RATE/DEPTH"), "{error}");
    }

    #[test]
    fn a_contract_is_written_as_it_is_read_and_has_an_answer_for_each_priority() {
        use Priority::{High, Low, Medium};
        let texts =
            ["high=250kbit/6000B", "high=250kbit/6000B,med=500kbit/3KB", "high=250kbit/6000B,share=50%"];
        let [one, two, three] = texts.map(|text| {
            let sla: Sla = text.parse().unwrap();
            assert_eq!(sla.to_string(), text);
            sla
        });
        assert_eq!([one.min_depth(), two.min_depth()], [6000, 3072]);
        assert_eq!([one, two, three].map(|sla| sla.share_pct), [0, 0, 50]);
        assert_eq!([High, Medium, Low].map(|priority| one.fits(priority, 6000)), [true, false, true]);
        assert_eq!([High, Medium, Low].map(|priority| two.fits(priority, 3073)), [true, false, true]);
        let mut meter = Meter::new(&two);
        assert!(meter.admits(ms(0), High, 6000) && meter.admits(ms(0), Medium, 3072));
        assert_eq!(
            [High, Medium, Low].map(|priority| meter.admits(ms(1), priority, 63)),
            [false, false, true]
        );
        assert_eq!(
            [High, Medium, Low].map(|priority| meter.admits(ms(1), priority, 62)),
            [false, true, true]
        );
        assert_eq!(
            [High, Medium, Low].map(|priority| meter.ready_at(priority, 62)),
            [1_984_000, 1_984_000, 0].map(Time::from_nanos)
        );
        let none = Meter::new(&one);
        assert_eq!((none.conforms(ms(0), Medium, 0), none.ready_at(Medium, 0)), (false, Time::NEVER));
    }
}
