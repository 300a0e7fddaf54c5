use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Share, Span, kinds, math};

kinds! {
    /// Rule by which a client chooses the rate of the next segment of a video.
    pub enum RateRule {
        Fixed(Fixed),
        Throughput(Throughput),
        Bba(Bba),
        Bola(Bola),
    }
}

/// Rule of a single rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fixed;

/// Rule of the highest rate below a share of the throughput, as in dash.js. The throughput is the lower one of two averages over the time of
/// downloads, weighted exponentially with half lives of 3 and 8 s (Spiteri et al., MMSys 2018).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// Share of the throughput that the rate may take.
    safety: f64,
}

/// Rule BBA-0 of Huang et al. (SIGCOMM 2014): a map from the buffer to the rate. The lowest rate fits up to the reservoir, the highest one
/// from the end of the cushion on, and a rate changes when the map has reached the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bba {
    /// Playing time up to which the lowest rate is chosen; `None` for 3/8 of the buffer, as 90 s of 240 s in the paper.
    reservoir: Option<Span>,
    /// Playing time behind the reservoir over which the rate rises; `None` for 21/40 of the buffer, as 126 s of 240 s in the paper.
    cushion: Option<Span>,
}

/// Rule BOLA-BASIC of Spiteri et al. (INFOCOM 2016): the rate with the largest utility per bit, less a price that grows with the buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bola {
    /// Weight of playing without stalls against the rate: the product of γ and the time of a segment.
    gp: f64,
}

impl Kind for Fixed {
    const USAGE: &'static [Usage] = &[("fixed", "the same rate for all segments")];
    const EXAMPLES: &'static [&'static str] = &["fixed"];
    fn read(_text: &mut Notation<'_>) -> Result<Self, ParseError> {
        Ok(Self)
    }
    fn write(&self, to: &mut Written) {
        to.name("fixed");
    }
}

impl Kind for Throughput {
    const USAGE: &'static [Usage] = &[(
        "throughput[:safety=90%]",
        "the highest rate below this share of the throughput of recent segments",
    )];
    const EXAMPLES: &'static [&'static str] = &["throughput", "throughput:safety=0.7"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let Share(safety) = text.option("safety", Share(0.9))?;
        if safety > 0.0 && safety <= 10.0 { Ok(Self { safety }) } else { Err(text.error("a share above 0")) }
    }
    fn write(&self, to: &mut Written) {
        to.name("throughput").key("safety", self.safety);
    }
}

impl Kind for Bba {
    const USAGE: &'static [Usage] = &[(
        "bba[:reservoir=7s][,cushion=10s]",
        "a rate that rises with the buffer, beyond a reservoir (BBA-0)",
    )];
    const EXAMPLES: &'static [&'static str] = &["bba", "bba:reservoir=5s,cushion=10s"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let rule = Self { reservoir: text.optional("reservoir")?, cushion: text.optional("cushion")? };
        if rule.cushion == Some(Span::ZERO) { Err(text.error("a cushion above zero")) } else { Ok(rule) }
    }
    fn write(&self, to: &mut Written) {
        to.name("bba");
        for (key, time) in [("reservoir", self.reservoir), ("cushion", self.cushion)] {
            if let Some(time) = time {
                to.key(key, time);
            }
        }
    }
}

impl Kind for Bola {
    const USAGE: &'static [Usage] = &[(
        "bola[:gp=5]",
        "the rate with the largest utility per bit for what is in the buffer (BOLA-BASIC)",
    )];
    const EXAMPLES: &'static [&'static str] = &["bola", "bola:gp=7"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let gp = text.option("gp", 5.0)?;
        if gp > 0.0 && gp <= 1e6 { Ok(Self { gp }) } else { Err(text.error("a gp above 0")) }
    }
    fn write(&self, to: &mut Written) {
        to.name("bola").key("gp", self.gp);
    }
}

/// State of a rule at one client.
#[derive(Clone, Debug)]
pub(super) struct Chooser {
    rule: RateRule,
    throughput: Estimate,
}

/// Video from which a rule chooses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer<'a> {
    /// Rates in ascending order, bit/s.
    pub ladder: &'a [f64],
    /// Playing time of a segment, s.
    pub segment_s: f64,
    /// Playing time that a client fetches ahead at most, s.
    pub buffer_s: f64,
}

impl Chooser {
    pub(super) fn new(rule: RateRule) -> Self {
        Self { rule, throughput: Estimate::default() }
    }

    /// Records the download of a segment, which took a time and had this throughput, bit/s.
    pub(super) fn fetched(&mut self, time_s: f64, bits_per_s: f64) {
        self.throughput.add(time_s, bits_per_s);
    }

    /// Returns the index of the rate of the next segment. `last` is that of the previous one, and `ahead_s` the playing time in the buffer, s.
    pub(super) fn next(&self, offer: Offer<'_>, last: usize, ahead_s: f64) -> usize {
        let Offer { ladder, segment_s, buffer_s } = offer;
        match self.rule {
            RateRule::Fixed(Fixed) => last,
            RateRule::Throughput(Throughput { safety }) => {
                let share = safety * self.throughput.bits_per_s();
                ladder.iter().rposition(|rate| *rate <= share).unwrap_or(0)
            }
            RateRule::Bba(Bba { reservoir, cushion }) => {
                let reservoir_s = reservoir.map_or(buffer_s * 3.0 / 8.0, Span::as_secs);
                let cushion_s = cushion.map_or(buffer_s * 21.0 / 40.0, Span::as_secs);
                by_buffer(ladder, last, (ahead_s - reservoir_s) / cushion_s)
            }
            RateRule::Bola(Bola { gp }) => {
                let utility = |rate: f64| math::ln(rate / ladder[0]);
                let v = (buffer_s - segment_s) / (utility(ladder[ladder.len() - 1]) + gp);
                let score = |rate: f64| (v * (utility(rate) + gp) - ahead_s) / rate;
                let mut best = 0;
                for index in 1..ladder.len() {
                    if score(ladder[index]) > score(ladder[best]) {
                        best = index;
                    }
                }
                best
            }
        }
    }
}

/// Returns the choice of BBA-0 for a position in the cushion, from 0 at its beginning to 1 at its end.
fn by_buffer(ladder: &[f64], last: usize, position: f64) -> usize {
    let top = ladder.len() - 1;
    if position <= 0.0 {
        return 0;
    }
    if position >= 1.0 {
        return top;
    }
    let mapped = ladder[0] + (ladder[top] - ladder[0]) * position;
    let (above, below) = (ladder[(last + 1).min(top)], ladder[last.saturating_sub(1)]);
    if mapped >= above {
        ladder.iter().rposition(|rate| *rate < mapped).unwrap_or(0)
    } else if mapped <= below {
        ladder.iter().position(|rate| *rate > mapped).unwrap_or(top)
    } else {
        last
    }
}

/// Averages of the throughput over the time of downloads, weighted exponentially.
#[derive(Clone, Debug, Default)]
struct Estimate {
    averages: [f64; 2],
    total_s: f64,
}

const HALF_LIVES_S: [f64; 2] = [8.0, 3.0];

impl Estimate {
    fn add(&mut self, time_s: f64, bits_per_s: f64) {
        for (average, half_life_s) in self.averages.iter_mut().zip(HALF_LIVES_S) {
            let kept = math::pow(0.5, time_s / half_life_s);
            *average = kept * *average + (1.0 - kept) * bits_per_s;
        }
        self.total_s += time_s;
    }

    /// Returns the lower one of both averages, bit/s; zero before the first download.
    fn bits_per_s(&self) -> f64 {
        if self.total_s == 0.0 {
            return 0.0;
        }
        // The averages begin at zero.
        let of = |(average, half_life_s): (&f64, f64)| {
            average / (1.0 - math::pow(0.5, self.total_s / half_life_s))
        };
        self.averages.iter().zip(HALF_LIVES_S).map(of).fold(f64::INFINITY, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chooser(rule: &str) -> Chooser {
        Chooser::new(rule.parse().unwrap())
    }

    #[test]
    fn bola_chooses_as_sabre_does() {
        let bola = chooser("bola");
        for line in include_str!("data/bola.txt").lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let ladder: Vec<f64> =
                fields[0].split(',').map(|rate| rate.parse::<f64>().unwrap() * 1e3).collect();
            let [segment_s, buffer_s, ahead_s] = [1, 2, 3].map(|at| fields[at].parse::<f64>().unwrap() / 1e3);
            let offer = Offer { ladder: &ladder, segment_s, buffer_s };
            assert_eq!(bola.next(offer, 0, ahead_s), fields[4].parse::<usize>().unwrap(), "{line}");
        }
    }

    #[test]
    fn the_throughput_is_estimated_as_sabre_does() {
        let mut estimate = Estimate::default();
        assert_eq!(estimate.bits_per_s(), 0.0);
        for line in include_str!("data/ewma.txt").lines() {
            let numbers: Vec<f64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
            estimate.add(numbers[0] / 1e3, numbers[1] * 1e3);
            assert!((estimate.bits_per_s() / 1e3 - numbers[2]).abs() < 1e-5, "{line}");
        }
    }

    #[test]
    fn the_highest_rate_below_the_share_is_chosen() {
        let mut throughput = chooser("throughput:safety=0.5");
        let ladder = [1e6, 2e6, 4e6];
        let offer = Offer { ladder: &ladder, segment_s: 4.0, buffer_s: 30.0 };
        assert_eq!(throughput.next(offer, 2, 20.0), 0, "before anything is known");
        for (bits_per_s, expected) in [(8.1e6, 2), (7.9e6, 1), (4.1e6, 1), (3.9e6, 0), (1e5, 0)] {
            throughput = chooser("throughput:safety=0.5");
            throughput.fetched(1.0, bits_per_s);
            assert_eq!(throughput.next(offer, 0, 20.0), expected, "{bits_per_s}");
        }
    }

    #[test]
    fn the_map_of_bba_is_followed_by_whole_steps() {
        // Rates of 1 to 5 Mbit/s over a cushion of 8 s behind 4 s: half a megabit for each second.
        let bba = chooser("bba:reservoir=4s,cushion=8s");
        let ladder = [1e6, 2e6, 3e6, 5e6];
        let offer = Offer { ladder: &ladder, segment_s: 2.0, buffer_s: 20.0 };
        for (ahead_s, last, expected, reason) in [
            (4.0, 3, 0, "within the reservoir"),
            (12.0, 0, 3, "behind the cushion"),
            (5.9, 0, 0, "the map has not reached 2 Mbit/s"),
            (6.0, 0, 0, "the map is at 2 Mbit/s, and the highest rate below it is the lowest"),
            (6.1, 0, 1, "it is above 2 Mbit/s"),
            (9.0, 0, 2, "it is at 3.5 Mbit/s"),
            (9.0, 2, 2, "between 2 and 5 Mbit/s a rate of 3 stays"),
            (6.1, 2, 2, "it is still above 2 Mbit/s"),
            (6.0, 2, 2, "it is at 2 Mbit/s, and the lowest rate above it is 3"),
            (5.9, 2, 1, "it is below 2 Mbit/s, and the lowest rate above it is 2"),
        ] {
            assert_eq!(bba.next(offer, last, ahead_s), expected, "{reason}");
        }
        // Of a buffer of 240 s, 90 s are the reservoir, and the cushion ends at 216 s.
        let offer = Offer { buffer_s: 240.0, ..offer };
        let bba = chooser("bba");
        assert_eq!([90.0, 215.9, 216.0].map(|ahead_s| bba.next(offer, 2, ahead_s)), [0, 2, 3]);
    }
}
