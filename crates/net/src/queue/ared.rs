use super::red::{Red, RedLaw, RedParameters};
use super::{BufferBounds, Capacity, PortContext, QueueDiscipline, QueueKind, QueueTraits};
use crate::{Backlog, Packet, PacketEvents};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Span, Time, math};

/// Configuration of Adaptive RED (Floyd, Gummadi, Shenker, "Adaptive RED: an algorithm for increasing the robustness of RED's active queue
/// management", 2001): thresholds and weight follow from the line rate, and max_p is adapted to keep the average queue length halfway
/// between the thresholds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AredSpec {
    /// Buffer limit: packets that may wait besides the one in transmission.
    pub limit: Capacity,
    /// Target of the average queueing delay.
    pub target: Span,
    /// Mean packet size, bytes.
    pub mean_packet_bytes: u32,
    /// True if ECN-capable packets are marked instead of dropped early.
    pub ecn: bool,
}

impl Kind for AredSpec {
    const USAGE: &'static [Usage] = &[(
        "ared:LIMIT[,target=5ms,mean_packet=500,ecn=false]",
        "Adaptive RED (2001): gentle RED whose thresholds and weight follow from the line rate and whose max_p adapts every 0.5 s, so that the average queueing delay comes close to target; LIMIT in packets, excluding the packet in transmission",
    )];
    const EXAMPLES: &'static [&'static str] = &["ared:6", "ared:9,target=2ms,mean_packet=1000,ecn=true"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let spec = Self {
            limit: Capacity::read_waiting(text)?,
            target: text.option("target", TARGET)?,
            mean_packet_bytes: text.option("mean_packet", MEAN_PACKET_BYTES)?,
            ecn: text.option("ecn", false)?,
        };
        if spec.limit.is_in_bytes() || spec.target == Span::ZERO || spec.mean_packet_bytes == 0 {
            return Err(text.error("LIMIT in packets, target and mean_packet above zero"));
        }
        Ok(spec)
    }

    fn write(&self, to: &mut Written) {
        let Self { limit, target, mean_packet_bytes, ecn } = *self;
        limit
            .write_waiting(to.name("ared"))
            .option("target", target, TARGET)
            .option("mean_packet", mean_packet_bytes, MEAN_PACKET_BYTES)
            .option("ecn", ecn, false);
    }
}

/// Default target of the average queueing delay (section 4.2).
const TARGET: Span = Span::from_millis(5);
/// Default mean packet size, bytes, as in ns-2.
const MEAN_PACKET_BYTES: u32 = 500;
/// Time between adaptations of max_p (figure 1).
const INTERVAL: Span = Span::from_millis(500);
/// Lower and upper bound of max_p (figure 1).
const MAX_P_MIN: f64 = 0.01;
const MAX_P_MAX: f64 = 0.5;
/// Factor of a decrease, beta (figure 1).
const DECREASE: f64 = 0.9;

impl AredSpec {
    /// Returns the parameters of RED at a line rate in packets per second (sections 4.1 and 4.2).
    fn parameters(&self, packets_per_s: f64) -> RedParameters {
        let min_threshold = (self.target.as_secs() * packets_per_s / 2.0).max(5.0);
        RedParameters {
            min_threshold,
            max_threshold: 3.0 * min_threshold,
            weight: 1.0 - math::exp(-1.0 / packets_per_s),
            max_probability: 0.1,
            gentle: true,
            wait: true,
            mean_packet_bytes: self.mean_packet_bytes,
            ecn: self.ecn,
            hard: true,
        }
    }
}

impl QueueKind for AredSpec {
    type Queue = Box<dyn QueueDiscipline>;

    fn build(&self, context: &PortContext<'_>) -> Box<dyn QueueDiscipline> {
        let rate = context.line_rate();
        let packets_per_s = rate.bits_per_second() as f64 / (8.0 * f64::from(self.mean_packet_bytes));
        let law = RedLaw::new(self.parameters(packets_per_s), rate, context.drop_rng());
        Box::new(Ared { red: Red::new(self.limit, law), adapted: Time::ZERO })
    }

    /// Returns bounds with a lower bound of 0: packets may be dropped long before the buffer is full.
    fn buffer_bounds(&self) -> BufferBounds {
        BufferBounds { guaranteed: 0, ..self.limit.buffer_bounds() }
    }

    fn traits(&self) -> QueueTraits {
        QueueTraits { marks_ecn: self.ecn, is_random: true, ..QueueTraits::default() }
    }
}

/// RED queue with a max_p that adapts to the average queue length.
#[derive(Debug)]
struct Ared {
    red: Red,
    /// Time of the last adaptation.
    adapted: Time,
}

impl QueueDiscipline for Ared {
    fn enqueue(&mut self, now: Time, packet: Packet, events: &mut dyn PacketEvents) {
        self.red.enqueue(now, packet, events);
        // As in ns-2, a due adaptation is performed at the next arrival, and missed adaptations are omitted.
        if now.since(self.adapted) > INTERVAL {
            let law = self.red.law_mut();
            let average = law.average();
            if adapt(law.parameters_mut(), average) {
                self.adapted = now;
            }
        }
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn PacketEvents) -> Option<Packet> {
        self.red.dequeue(now, events)
    }

    fn backlog(&self) -> Backlog {
        self.red.backlog()
    }

    fn released(&mut self) {
        self.red.released();
    }
}

/// Adapts max_p to an average queue length (figure 1). Returns true if max_p changes.
fn adapt(p: &mut RedParameters, average: f64) -> bool {
    let width = p.max_threshold - p.min_threshold;
    let max_p = p.max_probability;
    // Figure 1: "if (avg > target and max_p <= 0.5) increase", "elseif (avg < target and max_p >= 0.01) decrease", with a target of
    // [min + 0.4 (max - min), min + 0.6 (max - min)].
    if average > p.min_threshold + 0.6 * width && max_p <= MAX_P_MAX {
        p.max_probability = max_p + (max_p / 4.0).min(0.01);
    } else if average < p.min_threshold + 0.4 * width && max_p >= MAX_P_MIN {
        p.max_probability = max_p * DECREASE;
    } else {
        return false;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Route;
    use crate::queue::QueueSpec;
    use catnip_base::Rate;

    fn spec(text: &str) -> AredSpec {
        AredSpec::read(&mut Notation::parse(text).unwrap()).unwrap()
    }

    #[test]
    fn thresholds_and_weight_follow_from_the_line_rate() {
        // 15 Mbit/s are 3750 packets of 500 bytes per second: 5 ms are 18.75 packets.
        let p = spec("ared:100").parameters(3750.0);
        assert_eq!((p.min_threshold, p.max_threshold), (9.375, 28.125));
        assert!((p.weight - (1.0 - math::exp(-1.0 / 3750.0))).abs() < 1e-15 && p.gentle);
        // At 1.5 Mbit/s the minimum threshold is five packets.
        assert_eq!(spec("ared:100").parameters(375.0).min_threshold, 5.0);
    }

    #[test]
    fn max_p_adapts_as_in_figure_1() {
        let at = |max_probability: f64, average: f64| {
            let mut p = RedParameters { max_probability, ..spec("ared:100").parameters(4000.0) };
            assert_eq!((p.min_threshold, p.max_threshold), (10.0, 30.0));
            (adapt(&mut p, average), (p.max_probability * 1e6).round() / 1e6)
        };
        // The target is 18 to 22 packets.
        assert_eq!([18.0, 20.0, 22.0].map(|average| at(0.1, average)), [(false, 0.1); 3]);
        assert_eq!([at(0.1, 17.9), at(0.1, 22.1)], [(true, 0.09), (true, 0.11)]);
        // An increase is at most a quarter of max_p, and max_p leaves the range from 0.01 to 0.5 by at most one step.
        assert_eq!(
            [at(0.02, 25.0), at(0.5, 25.0), at(0.51, 25.0)],
            [(true, 0.025), (true, 0.51), (false, 0.51)]
        );
        assert_eq!([at(0.01, 5.0), at(0.009, 5.0)], [(true, 0.009), (false, 0.009)]);
    }

    #[test]
    fn the_average_queue_comes_close_to_the_target_whatever_the_load() {
        struct Ignore;
        impl PacketEvents for Ignore {
            fn dropped(&mut self, _now: Time, _packet: Packet, _reason: crate::DropReason) {}
        }
        // A packet of 500 bytes takes a millisecond, so a target of 20 ms is 20 packets, with thresholds of 10 and 30 packets.
        let rate = Rate::from_bits_per_second(4_000_000).unwrap().into();
        for overload_pct in [3, 10, 25] {
            let text = "ared:200,target=20ms";
            let mut queue = text.parse::<QueueSpec>().unwrap().build(&PortContext::new(&rate, 7, 0));
            let (mut waiting, mut arrivals) = (0u64, 0);
            for ms in 0..200_000u64 {
                let now = Time::ZERO + Span::from_millis(ms);
                while arrivals * 100 < ms * (100 + overload_pct) {
                    queue.enqueue(now, Packet::new(now, Route::default(), 500, 0), &mut Ignore);
                    arrivals += 1;
                }
                queue.dequeue(now, &mut Ignore);
                waiting += if ms >= 100_000 { u64::from(queue.backlog().packets) } else { 0 };
            }
            let mean = waiting as f64 / 100_000.0;
            assert!((16.0..=24.0).contains(&mean), "{overload_pct} %: {mean}");
        }
    }
}
