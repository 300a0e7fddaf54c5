//! TCP parameters of scenarios.

use crate::error::KeyError;
use crate::scenario::describe::{DEFAULT_DESCRIPTION, Profile};
use crate::scenario::kinds::Kinds;
use crate::scenario::sysctl::SysctlFile;
use crate::scenario::text::{OrNone, Text};
use catnip_base::{Bytes, Span};
use catnip_net::mark::MarkerSpec;
use catnip_tcp::control::ControlSpec;
use catnip_tcp::control::validated::ValidationSpec;
use catnip_tcp::pacing::PacingKind;
use catnip_tcp::recovery::RecoveryKind;
use catnip_tcp::{DelayedAck, EcnKind, RtoConfig, TcpConfig, profile};
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::{Value, json};

/// Parameters of TCP connections: a profile, and the parameters that differ from this profile.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "tcp", transform = describe_profile_defaults)]
pub(crate) struct TcpFile {
    /// Profile: a named set of parameters. The other keys change single parameters of the set.
    #[schemars(with = "Option<Profile>", example = &"ns2-2.35", extend("default" = PROFILE))]
    pub(crate) profile: Option<String>,
    /// Loss recovery: which segments are retransmitted, and when.
    #[schemars(example = &"newreno")]
    pub(crate) recovery: Option<Text<RecoveryKind>>,
    /// Congestion control: growth and reduction of the congestion window.
    #[schemars(with = "Option<Text<ControlSpec>>", example = &"cubic")]
    pub(crate) control: Option<String>,
    /// Pacing: distribution over time of the segments that the congestion window allows.
    #[schemars(example = &"rate:1")]
    pub(crate) pacing: Option<Text<PacingKind>>,
    /// Marking of packets with priorities. The packets of external hosts are marked where they enter the network.
    #[schemars(with = "Option<Text<OrNone<MarkerSpec>>>", example = &"spm", extend("default" = "none"))]
    pub(crate) marker: Option<String>,
    /// Data in a full segment, 1 to 65495 bytes.
    #[schemars(example = &"1460B")]
    pub(crate) segment: Option<Text<Bytes>>,
    /// Receive window, segments.
    #[schemars(range(min = 1), example = 64)]
    pub(crate) window_segments: Option<u32>,
    /// Initial congestion window, segments.
    #[schemars(range(min = 1), example = 10)]
    pub(crate) initial_window_segments: Option<u32>,
    /// Delayed ACKs: the receiver delays an ACK until a second segment arrives, but no longer than `ack_delay`.
    #[schemars(example = true)]
    pub(crate) delayed_ack: Option<bool>,
    /// Number of ACKs that are not delayed at the start of a connection and after an idle period longer than the minimum RTO (Linux).
    #[schemars(example = 16)]
    pub(crate) quick_acks: Option<u32>,
    /// Maximum delay of an ACK, up to 500ms (RFC 5681, section 4.2). In profile `linux-6` it replaces Linux's rules, by which the delay
    /// follows the time between segments.
    #[schemars(example = &"40ms")]
    pub(crate) ack_delay: Option<Text<Span>>,
    /// Weight of a connection, relative to other connections, at an output scheduler.
    #[schemars(range(min = 1), example = 2, extend("default" = WEIGHT))]
    pub(crate) weight: Option<u32>,
    /// Nagle's algorithm: a segment that is not full is held back while earlier data is unacknowledged (RFC 1122, section 4.2.3.4).
    #[schemars(example = true)]
    pub(crate) nagle: Option<bool>,
    /// Congestion window validation: reduction of a congestion window that the application does not use fully.
    #[schemars(example = &"newcwv")]
    pub(crate) validation: Option<Text<ValidationSpec>>,
    /// Explicit Congestion Notification: whether packets can be marked, and how the receiver reports marks to the sender.
    #[schemars(example = &"classic", extend("default" = "none"))]
    pub(crate) ecn: Option<Text<EcnKind>>,
    /// Segmentation offload: segments leave in units, and some wait for others, as a Linux sender of recovery `rack` hands them to a network
    /// device. A controller that sets the rate, such as `bbr`, sends each segment by itself.
    #[schemars(example = false)]
    pub(crate) segmentation_offload: Option<bool>,
    /// TCP timestamps (RFC 7323), with which a sender of recovery `rack` detects spurious retransmissions.
    #[schemars(example = true)]
    pub(crate) timestamps: Option<bool>,
    /// True if the congestion window grows even while it is not fully used, because the application or the receive window limits the
    /// sender.
    #[schemars(example = false)]
    pub(crate) grow_unused: Option<bool>,
    /// Limited transmit: each of the first two duplicate ACKs releases a new segment (RFC 3042).
    #[schemars(example = true)]
    pub(crate) limited_transmit: Option<bool>,
    /// Three-way handshake (SYN, SYN-ACK, ACK) at the start of connections; without a handshake, connections are established at once.
    #[schemars(example = true)]
    pub(crate) handshake: Option<bool>,
    /// True if the round trip of the handshake is the first RTT sample (RFC 6298, section 2); if false, or if there is no handshake, a loss
    /// before the first ACK of data costs `rto_first`.
    #[schemars(example = false)]
    pub(crate) times_handshake: Option<bool>,
    /// True if short data segments are padded to full size on the wire.
    #[schemars(example = false)]
    pub(crate) padded: Option<bool>,
    /// FIN in each direction at the end of connections; without FINs, connections end with their last byte.
    #[schemars(example = true)]
    pub(crate) fin: Option<bool>,
    /// Initial RTO (RFC 6298, rule 2.1): retransmission timeout before the first RTT sample, of SYNs and of data.
    #[schemars(example = &"1s")]
    pub(crate) rto_first: Option<Text<Span>>,
    /// Minimum retransmission timeout.
    #[schemars(example = &"200ms")]
    pub(crate) rto_min: Option<Text<Span>>,
    /// Maximum retransmission timeout.
    #[schemars(example = &"60s")]
    pub(crate) rto_max: Option<Text<Span>>,
    /// Granularity of the clock that measures round-trip times and triggers timeouts.
    #[schemars(example = &"10ms")]
    pub(crate) rto_tick: Option<Text<Span>>,
    /// Number of timeouts of a SYN after which the RTO is not doubled.
    #[schemars(example = 4)]
    pub(crate) syn_linear_timeouts: Option<u32>,
    /// Settings of a Linux host by the names of its sysctls, for profile `linux-6`.
    #[schemars(
        example = json!({ "tcp_slow_start_after_idle": 0 }),
        extend("x-default" = "those of a newly installed system")
    )]
    pub(crate) sysctl: Option<SysctlFile>,
}

/// Profile of connections without the key `profile`.
const PROFILE: &str = "rfc";
/// Profile whose hosts have sysctls.
const LINUX: &str = "linux-6";
/// Default weight of a connection.
pub(crate) const WEIGHT: u32 = 1;

/// Longest processing time per packet of hosts with a profile of today's systems: within it, Linux 6.18 has acknowledged 95 to 99 % of the
/// packets that arrive at a virtual device, measured in its own captures.
const PROCESSING: Span = Span::from_micros(20);
/// Profiles whose hosts have a random processing time by default.
const PROCESSED: [&str; 2] = [PROFILE, LINUX];

impl TcpFile {
    /// Returns the longest processing time per packet of hosts without the key `processing`, which depends on the profile of `[tcp]`.
    pub(crate) fn processing(&self) -> Option<Span> {
        let profile = self.profile.as_deref().unwrap_or(PROFILE);
        PROCESSED.contains(&profile).then_some(PROCESSING)
    }
}

/// Describes the default of each key whose default depends on the profile.
fn describe_profile_defaults(schema: &mut Schema) {
    let keys = schema.get_mut("properties").and_then(Value::as_object_mut);
    for key in keys.into_iter().flat_map(|keys| keys.values_mut()).filter_map(Value::as_object_mut) {
        if !key.contains_key("default") && !key.contains_key(DEFAULT_DESCRIPTION) {
            key.insert(DEFAULT_DESCRIPTION.into(), "set by the profile".into());
        }
    }
}

/// Returns the parameters and the marker of the connections of a traffic group. The profile is changed by `common`, the table `[tcp]` of
/// the scenario, and then by `own`, the key `tcp` of the group.
pub(crate) fn tcp_config(
    group: &str,
    common: &TcpFile,
    own: &TcpFile,
    kinds: &Kinds,
) -> Result<(TcpConfig, Option<MarkerSpec>), KeyError> {
    let at = |file: &TcpFile, (key, message): KeyError| match std::ptr::eq(file, own) {
        true => (format!("traffic.{group}.tcp.{key}"), message),
        false => (format!("tcp.{key}"), message),
    };
    let setter = |key: &str| if own.sets(key) { own } else { common };
    let name = own.profile.as_ref().or(common.profile.as_ref()).map_or(PROFILE, String::as_str);
    let base = profile::by_name(name)
        .map_err(|error| at(setter("profile"), ("profile".to_string(), error.to_string())))?;
    if name != LINUX && [common, own].iter().any(|file| file.sysctl.is_some()) {
        let message = format!("needs profile = {LINUX:?}, not {name:?}");
        return Err(at(setter("sysctl"), ("sysctl".to_string(), message)));
    }
    let mut marker = None;
    let mut config = base.clone();
    for file in [common, own] {
        config = apply(config, file, kinds).map_err(|error| at(file, error))?;
        marker = file.marker(kinds).map_err(|error| at(file, error))?.unwrap_or(marker);
    }
    check_combination(&config).map_err(|error| at(setter(&error.0), error))?;
    Ok((config, marker))
}

impl TcpFile {
    /// Returns true if the table has one of the keys that need others, or that exclude a sysctl.
    pub(crate) fn sets(&self, key: &str) -> bool {
        match key {
            "profile" => self.profile.is_some(),
            "control" => self.control.is_some(),
            "validation" => self.validation.is_some(),
            "pacing" => self.pacing.is_some(),
            "marker" => self.marker.is_some(),
            "ecn" => self.ecn.is_some(),
            "sysctl" => self.sysctl.is_some(),
            "syn_linear_timeouts" => self.syn_linear_timeouts.is_some(),
            "timestamps" => self.timestamps.is_some(),
            "rto_min" => self.rto_min.is_some(),
            "rto_max" => self.rto_max.is_some(),
            _ => false,
        }
    }

    /// Returns the value of the key `marker`: `None` if the key is not set, `Some(None)` if its value is `none`.
    pub(crate) fn marker(&self, kinds: &Kinds) -> Result<Option<Option<MarkerSpec>>, KeyError> {
        let read = |text: &String| match text.as_str() {
            "none" => Ok(None),
            text => kinds.markers.read(text, MarkerSpec::Custom).map(Some),
        };
        self.marker.as_ref().map(read).transpose().map_err(|error| ("marker".to_string(), error.to_string()))
    }
}

/// Checks that congestion control, window validation, pacing and ECN are combined with the loss recovery and the ECN feedback that they
/// need. The classic senders of ns-2 and of the papers do not support these later mechanisms.
fn check_combination(config: &TcpConfig) -> Result<(), KeyError> {
    let TcpConfig { recovery, validation, pacing, ecn, control, .. } = config;
    let needs_sack = |key: &str, value: String| {
        Err((key.to_string(), format!("{value:?}: needs recovery = \"sack\", not {:?}", recovery.name())))
    };
    if matches!(control, ControlSpec::Dctcp(_)) && !ecn.is_exact() {
        let message =
            format!("{:?}: needs ecn = \"exact\" or \"l4s\", not {:?}", control.to_string(), ecn.name());
        return Err(("control".into(), message));
    }
    if matches!(control, ControlSpec::Prague(_)) && *ecn != EcnKind::L4s {
        let message = format!("{:?}: needs ecn = \"l4s\", not {:?}", control.to_string(), ecn.name());
        return Err(("control".into(), message));
    }
    let is_scalable =
        matches!(control, ControlSpec::Dctcp(_) | ControlSpec::Prague(_) | ControlSpec::Custom(_));
    if *ecn == EcnKind::L4s && !is_scalable {
        let message = format!(
            "{:?}: needs a scalable control, dctcp or prague, not {:?} (RFC 9331, section 4.3)",
            ecn.name(),
            control.to_string()
        );
        return Err(("ecn".into(), message));
    }
    if matches!(control, ControlSpec::Bbr(_) | ControlSpec::Bbr3(_)) && *recovery != RecoveryKind::Rack {
        let message =
            format!("{:?}: needs recovery = \"rack\", not {:?}", control.to_string(), recovery.name());
        return Err(("control".into(), message));
    }
    match (validation, pacing) {
        _ if recovery.is_modern() => Ok(()),
        _ if ecn.is_enabled() => needs_sack("ecn", ecn.to_string()),
        (ValidationSpec::Linux | ValidationSpec::Cwv | ValidationSpec::NewCwv(_), _) => {
            needs_sack("validation", validation.to_string())
        }
        (_, PacingKind::Rate(..) | PacingKind::Kernel) => needs_sack("pacing", pacing.to_string()),
        _ => Ok(()),
    }
}

fn apply(base: TcpConfig, file: &TcpFile, kinds: &Kinds) -> Result<TcpConfig, KeyError> {
    let base = match &file.sysctl {
        Some(settings) => settings.apply(base, |key| file.sets(key))?,
        None => base,
    };
    let time = |value: Option<Text<Span>>| value.map(|Text(span)| span);
    let [ack_delay, rto_first] = [file.ack_delay, file.rto_first].map(time);
    let [rto_min, rto_max, rto_tick] = [file.rto_min, file.rto_max, file.rto_tick].map(time);
    let window_segments = base.receive_window_segments();
    let segment_bytes = match file.segment {
        None => base.segment_bytes,
        Some(Text(bytes)) if (1..=65_495).contains(&bytes.0) => bytes.0 as u32,
        Some(Text(bytes)) => {
            return Err(("segment".into(), format!("{}: expected 1 to 65495 bytes", bytes.0)));
        }
    };
    let positive = |key: &str, value: Option<u32>, default: u64| match value {
        Some(0) => Err((key.to_string(), "0: at least one segment is needed".to_string())),
        Some(n) => Ok(u64::from(n)),
        None => Ok(default),
    };
    let window = positive("window_segments", file.window_segments, window_segments)?;
    let initial =
        positive("initial_window_segments", file.initial_window_segments, base.initial_window.into())?;
    let delayed_ack = match file.delayed_ack {
        None => base.delayed_ack,
        Some(false) => None,
        Some(true) => base.delayed_ack.or(Some(profile::delayed_ack(&base))),
    };
    let delayed_ack = match (delayed_ack, ack_delay) {
        // RFC 5681, section 4.2: "MUST be generated within 500 ms".
        (_, Some(delay)) if delay == Span::ZERO || delay > Span::from_millis(500) => {
            return Err((
                "ack_delay".into(),
                format!("{} s: expected more than 0 and at most 0.5 s", delay.as_secs()),
            ));
        }
        (None, Some(_)) => {
            return Err(("ack_delay".into(), "needs delayed_ack = true".into()));
        }
        (Some(every), Some(max_delay)) => Some(DelayedAck { max_delay, linux: false, ..every }),
        (delayed_ack, None) => delayed_ack,
    };
    let quick_after = rto_min.unwrap_or(base.rto.min);
    let delayed_ack = match (delayed_ack, file.quick_acks) {
        (None, Some(_)) => {
            return Err(("quick_acks".into(), "needs delayed_ack = true".into()));
        }
        (Some(every), Some(quick)) => {
            Some(DelayedAck { quick, quick_after, linux: every.linux && quick > 0, ..every })
        }
        (delayed_ack, None) => delayed_ack,
    };
    let control = match &file.control {
        None => base.control.clone(),
        Some(text) => (kinds.controls.read(text, ControlSpec::Custom))
            .map_err(|error| ("control".to_string(), error.to_string()))?,
    };
    if file.weight == Some(0) {
        return Err(("weight".into(), "0: expected at least 1".into()));
    }
    let tick = rto_tick.unwrap_or(base.rto.tick);
    for (key, span) in [("rto_tick", rto_tick), ("rto_first", rto_first), ("rto_max", rto_max)] {
        if span == Some(Span::ZERO) {
            return Err((key.into(), "0: expected a time above zero".into()));
        }
    }
    let (min, max) = (rto_min.unwrap_or(base.rto.min), rto_max.unwrap_or(base.rto.max));
    if min > max {
        return Err(match rto_min {
            Some(_) => ("rto_min".into(), format!("{min}: expected at most rto_max, {max}")),
            None => ("rto_max".into(), format!("{max}: expected at least rto_min, {min}")),
        });
    }
    let recovery = file.recovery.map_or(base.recovery, |value| value.0);
    if file.segmentation_offload == Some(true) && recovery != RecoveryKind::Rack {
        let message = format!("true: needs recovery = \"rack\", not {:?}", recovery.name());
        return Err(("segmentation_offload".into(), message));
    }
    let handshake = file.handshake.unwrap_or(base.handshake);
    Ok(TcpConfig {
        segment_bytes,
        // Behaviour of ns-2 if no SYN is simulated.
        first_without_header: base.first_without_header && !handshake,
        pads_segments: file.padded.unwrap_or(base.pads_segments),
        receive_window: window * u64::from(segment_bytes),
        // A receive window set in the scenario turns off autotuning, as SO_RCVBUF does in Linux.
        tunes_window: base.tunes_window && file.window_segments.is_none(),
        segmentation_offload: file.segmentation_offload.unwrap_or(base.segmentation_offload),
        timestamps: file.timestamps.unwrap_or(base.timestamps),
        initial_window: initial as u32,
        recovery,
        control,
        pacing: file.pacing.map_or(base.pacing, |value| value.0),
        delayed_ack,
        nagle: file.nagle.unwrap_or(base.nagle),
        validation: file.validation.map_or(base.validation, |value| value.0),
        ecn: file.ecn.map_or(base.ecn, |value| value.0),
        grow_unused: file.grow_unused.unwrap_or(base.grow_unused),
        limited_transmit: file.limited_transmit.unwrap_or(base.limited_transmit),
        handshake,
        times_handshake: file.times_handshake.unwrap_or(base.times_handshake),
        fin: file.fin.unwrap_or(base.fin),
        syn_linear_timeouts: file.syn_linear_timeouts.unwrap_or(base.syn_linear_timeouts),
        rto: RtoConfig { tick, first: rto_first.unwrap_or(base.rto.first), min, max, ..base.rto },
        ..base
    })
}
