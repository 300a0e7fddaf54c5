//! Policy of the agent: the marks of packets, and the requests that applications may make.

use crate::skeleton::types;
use catnip_net::mark::{MarkerSpec, Service, SpmParameters, TcpStateSpec};
use catnip_net::{Dscp, Priority, Profile, Sla};
use serde::Serialize;

/// Marking policy.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Marker; `None` if packets are not marked.
    pub mark: Option<MarkerSpec>,
    /// DiffServ codepoints of HIGH, MED and LOW in all classes; `None` for the assured forwarding codepoints of each class (RFC 2597).
    pub codepoints: Option<Codepoints>,
    /// True if an ACK gets the priority of the data that it acknowledges.
    pub marks_acks: bool,
    /// Token buckets for the HIGH and MED packets of each user. Packets above these limits are demoted. `None` for no limits.
    pub user: Option<Sla>,
    /// Token bucket for the HIGH SYN-ACKs, which strangers cause.
    pub strangers: Profile,
    /// Service class of connections that have not requested a class.
    pub default_class: Service,
    /// Best service class that an application without privileges may request.
    pub best_class: Service,
    /// Largest congestion window thresholds of HIGH and MED that an application without privileges may request, segments.
    pub max_thresholds: [u32; 2],
    /// True if the agent reads HTTP/1 headers to find the ends of documents.
    pub reads_http: bool,
    /// True if marks set by applications themselves are removed.
    pub removes_app_marks: bool,
}

/// DiffServ codepoints of the priorities HIGH, MED and LOW.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Codepoints {
    /// Codepoint of HIGH.
    pub high: u8,
    /// Codepoint of MED.
    pub med: u8,
    /// Codepoint of LOW.
    pub low: u8,
}

/// Priorities, indexed by the numbers of their levels in the kernel programs.
pub(crate) const LEVELS: [Priority; 3] = [Priority::High, Priority::Medium, Priority::Low];
const CLASSES: [u8; 3] = [1, 2, 3];

impl Codepoints {
    /// Parses a text such as `high=AF11,med=AF12,low=AF13`. A codepoint is a name (AFxy, CSx, EF, LE) or a number below 64.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut found = [None; 3];
        for part in text.split(',') {
            let expected =
                || format!("{part:?}: expected high=, med= or low= and a codepoint such as AF11 or 10");
            let (level, value) = part.trim().split_once('=').ok_or_else(expected)?;
            let priority = Priority::by_name(level.trim()).ok_or_else(expected)?;
            let level_index = LEVELS.iter().position(|&other| other == priority).ok_or_else(expected)?;
            found[level_index] = Some(codepoint(value.trim()).ok_or_else(expected)?);
        }
        let [Some(high), Some(low)] = [found[0], found[2]] else {
            return Err(format!("{text:?}: expected high=…,low=…, and optionally med=…"));
        };
        let med = found[1].unwrap_or(low);
        if high == low || high == 0 || (med == high) {
            return Err(format!("{text:?}: HIGH needs a codepoint of its own other than 0"));
        }
        Ok(Self { high, med, low })
    }
}

/// Parses the name or number of a codepoint (RFC 2474, 2597, 3246, 8622).
fn codepoint(text: &str) -> Option<u8> {
    let upper = text.to_ascii_uppercase();
    let digits: Vec<u8> = upper.bytes().filter(u8::is_ascii_digit).map(|digit| digit - b'0').collect();
    match (upper.trim_end_matches(|c: char| c.is_ascii_digit()), digits.as_slice()) {
        ("AF", &[class @ 1..=4, precedence @ 1..=3]) => Some(class << 3 | precedence << 1),
        ("CS", &[class @ 0..=7]) => Some(class << 3),
        ("EF", []) => Some(46),
        ("LE", []) => Some(1),
        ("", _) => text.parse().ok().filter(|&number: &u8| number < 64),
        _ => None,
    }
}

impl Policy {
    /// Returns true if the kernel programs support this marker.
    pub fn supports(mark: &MarkerSpec) -> bool {
        matches!(mark, MarkerSpec::Spm(_) | MarkerSpec::Application(_) | MarkerSpec::TcpState(_))
    }

    /// Returns the configuration of the kernel programs for this policy. `network` is the cookie of the agent's network namespace.
    pub(crate) fn config(&self, network: u64) -> types::config {
        let mut config = types::config {
            network,
            handshake: 0,
            acks: self.marks_acks.into(),
            http: self.reads_http.into(),
            removes_app_marks: self.removes_app_marks.into(),
            fixed_level: LEVELS.len() as u32,
            default_class: self.default_class.class().into(),
            best_class: self.best_class.class().into(),
            thresholds: thresholds([4, 8]),
            max_thresholds: thresholds(self.max_thresholds),
            ..types::config::default()
        };
        let mut class = None;
        match &self.mark {
            None => config.policy = types::policy::POLICY_NONE,
            Some(MarkerSpec::Spm(spm)) => {
                let SpmParameters { leading, trailing, small_window, handshake, repairs } = *spm;
                config.policy = types::policy::POLICY_SPM;
                config.spm = types::spm_rules { leading, trailing, small_window };
                config.handshake = number(handshake.unwrap_or(Priority::High));
                config.repairs = repairs.into();
                class = Some(1);
            }
            Some(MarkerSpec::TcpState(spec)) => {
                let TcpStateSpec { high, med, random, class: own, .. } = *spec;
                config.policy = types::policy::POLICY_TCP_STATE;
                config.random = random.into();
                config.sets_thresholds = (high.is_some() || med.is_some()).into();
                config.thresholds = thresholds(spec.thresholds(Service::Other).map(|threshold| threshold.0));
                class = own;
            }
            Some(MarkerSpec::Application(spec)) => {
                config.policy = types::policy::POLICY_APPLICATION;
                config.fixed_level = spec.priority.map_or(config.fixed_level, number);
                class = spec.class;
            }
            Some(other) => unreachable!("{other}: not a policy of the kernel's programs"),
        }
        (config.stranger_rate, config.stranger_depth) =
            (self.strangers.rate.bits_per_second(), self.strangers.depth.get());
        if let Some(sla) = &self.user {
            (config.high_rate, config.high_depth) = (sla.high.rate.bits_per_second(), sla.high.depth.get());
            config.share_pct = sla.share_pct;
            if let Some(med) = sla.med {
                (config.med_rate, config.med_depth) = (med.rate.bits_per_second(), med.depth.get());
            }
        }
        for of in CLASSES {
            for (level, &priority) in LEVELS.iter().enumerate() {
                let assured = Dscp::assured(class.unwrap_or(of), priority).codepoint();
                let specified = self.codepoints.map(|Codepoints { high, med, low }| [high, med, low][level]);
                config.codepoints[usize::from(of) * 4 + level] = specified.unwrap_or(assured);
            }
        }
        config
    }
}

fn thresholds([high, med]: [u32; 2]) -> types::thresholds {
    types::thresholds { high, med }
}

fn number(priority: Priority) -> u32 {
    LEVELS.iter().position(|&level| level == priority).unwrap_or(2) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codepoints_are_read_by_name_and_by_number() {
        let read = |text| Codepoints::read(text);
        assert_eq!(read("high=AF21,med=af22,low=0"), Ok(Codepoints { high: 18, med: 20, low: 0 }));
        assert_eq!(read("low=LE, high=EF"), Ok(Codepoints { high: 46, med: 1, low: 1 }));
        assert_eq!(read("high=CS5,low=63"), Ok(Codepoints { high: 40, med: 63, low: 63 }));
        for wrong in [
            "",
            "high",
            "high=AF11",
            "high=AF51,low=0",
            "high=64,low=0",
            "high=0,low=1",
            "high=10,low=10",
            "top=1,low=0",
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
