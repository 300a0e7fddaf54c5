//! What scenarios say of TCP.

use crate::error::Wrong;
use crate::scenario::describe::{OTHERWISE, Profile};
use crate::scenario::kinds::Kinds;
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
use serde_json::Value;

/// Parameters of TCP connections: what differs from a profile.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "tcp", transform = as_the_profile_says)]
pub(crate) struct TcpFile {
    /// The parameters from which the others differ.
    #[schemars(with = "Option<Profile>", example = &"ns2-2.35", extend("default" = PROFILE))]
    pub(crate) profile: Option<String>,
    /// What is sent again, and when.
    #[schemars(example = &"newreno")]
    pub(crate) recovery: Option<Text<RecoveryKind>>,
    /// How the congestion window grows, and how much it is cut.
    #[schemars(with = "Option<Text<ControlSpec>>", example = &"cubic")]
    pub(crate) control: Option<String>,
    /// When segments leave that the window has room for.
    #[schemars(example = &"rate:1")]
    pub(crate) pacing: Option<Text<PacingKind>>,
    /// How packets are marked; with real hosts, where they enter the network.
    #[schemars(example = &"spm", extend("default" = "none"))]
    pub(crate) marker: Option<Text<OrNone<MarkerSpec>>>,
    /// Data in a full segment, 1 to 65495 bytes.
    #[schemars(example = &"1460B")]
    pub(crate) segment: Option<Text<Bytes>>,
    /// The receive window, segments.
    #[schemars(range(min = 1), example = 64)]
    pub(crate) window_segments: Option<u32>,
    /// The initial congestion window, segments.
    #[schemars(range(min = 1), example = 10)]
    pub(crate) initial_window_segments: Option<u32>,
    /// ACKs wait for a second segment, or until `ack_delay` is over.
    #[schemars(example = true)]
    pub(crate) delayed_ack: Option<bool>,
    /// So many ACKs are not delayed at the start and after a silence of more than the least timeout (Linux).
    #[schemars(example = 16)]
    pub(crate) quick_acks: Option<u32>,
    /// No delayed ACK is later than this, up to 500ms (RFC 5681, section 4.2).
    #[schemars(example = &"40ms")]
    pub(crate) ack_delay: Option<Text<Span>>,
    /// The share of a connection, beside those of others, where a queue makes connections take turns.
    #[schemars(range(min = 1), example = 2, extend("default" = WEIGHT))]
    pub(crate) weight: Option<u32>,
    /// A segment that is not full waits while something is not acknowledged (RFC 1122, section 4.2.3.4).
    #[schemars(example = true)]
    pub(crate) nagle: Option<bool>,
    /// What becomes of a window that is not used.
    #[schemars(example = &"newcwv")]
    pub(crate) validation: Option<Text<ValidationSpec>>,
    /// Whether packets can be marked, and how the ends tell each other of marks.
    #[schemars(example = &"classic", extend("default" = "none"))]
    pub(crate) ecn: Option<Text<EcnKind>>,
    /// Segments carry times (RFC 7323), by which a sender of recovery rack sees that it retransmitted in vain.
    #[schemars(example = true)]
    pub(crate) timestamps: Option<bool>,
    /// The congestion window grows even while the application or the receive window keeps it unused.
    #[schemars(example = false)]
    pub(crate) grow_unused: Option<bool>,
    /// The first two duplicate ACKs send a new segment each (RFC 3042).
    #[schemars(example = true)]
    pub(crate) limited_transmit: Option<bool>,
    /// Connections begin with SYN, SYN-ACK and ACK; otherwise they are there at once.
    #[schemars(example = true)]
    pub(crate) handshake: Option<bool>,
    /// Every data segment has full size on the wire.
    #[schemars(example = false)]
    pub(crate) padded: Option<bool>,
    /// Connections end with a FIN each way; otherwise they are gone with their last byte.
    #[schemars(example = true)]
    pub(crate) fin: Option<bool>,
    /// The retransmission timeout before the first round trip is measured.
    #[schemars(example = &"1s")]
    pub(crate) rto_first: Option<Text<Span>>,
    /// The least retransmission timeout.
    #[schemars(example = &"200ms")]
    pub(crate) rto_min: Option<Text<Span>>,
    /// The greatest retransmission timeout.
    #[schemars(example = &"60s")]
    pub(crate) rto_max: Option<Text<Span>>,
    /// The clock by which round trips are measured and timeouts expire.
    #[schemars(example = &"10ms")]
    pub(crate) rto_tick: Option<Text<Span>>,
}

/// Of whom nothing else is said.
const PROFILE: &str = "rfc";
/// The share of a connection of which nothing is said.
pub(crate) const WEIGHT: u32 = 1;

/// What is so of a key that has no default of its own.
fn as_the_profile_says(schema: &mut Schema) {
    let keys = schema.get_mut("properties").and_then(Value::as_object_mut);
    for key in keys.into_iter().flat_map(|keys| keys.values_mut()).filter_map(Value::as_object_mut) {
        if !key.contains_key("default") {
            key.insert(OTHERWISE.into(), "as the profile says".into());
        }
    }
}

/// The parameters of a connection: a profile, what the scenario changes, what the traffic changes.
pub(crate) fn tcp_config(
    common: &TcpFile,
    own: &TcpFile,
    kinds: &Kinds,
) -> Result<(TcpConfig, Option<MarkerSpec>), Wrong> {
    let name = own.profile.as_ref().or(common.profile.as_ref()).map_or(PROFILE, String::as_str);
    let base = profile::by_name(name).map_err(|error| ("profile".to_string(), error.to_string()))?;
    let mut marker = None;
    let mut config = base.clone();
    for file in [common, own] {
        config = apply(config, file, kinds)?;
        marker = file.marker.map_or(marker, |said| said.0.0);
    }
    needs_modern(&config)?;
    Ok((config, marker))
}

/// The senders of ns-2 and of the papers are closed: what came later they do not know.
fn needs_modern(config: &TcpConfig) -> Result<(), Wrong> {
    let TcpConfig { recovery, validation, pacing, ecn, control, .. } = config;
    let wrong = |key: &str, value: String| {
        Err((key.to_string(), format!("{value:?}: needs recovery = \"sack\", not {:?}", recovery.name())))
    };
    if matches!(control, ControlSpec::Dctcp(_)) && !ecn.is_exact() {
        let why =
            format!("{:?}: needs ecn = \"exact\" or \"l4s\", not {:?}", control.to_string(), ecn.name());
        return Err(("control".into(), why));
    }
    if matches!(control, ControlSpec::Prague(_)) && *ecn != EcnKind::L4s {
        let why = format!("{:?}: needs ecn = \"l4s\", not {:?}", control.to_string(), ecn.name());
        return Err(("control".into(), why));
    }
    if matches!(control, ControlSpec::Bbr(_) | ControlSpec::Bbr3(_)) && *recovery != RecoveryKind::Rack {
        let why = format!("{:?}: needs recovery = \"rack\", not {:?}", control.to_string(), recovery.name());
        return Err(("control".into(), why));
    }
    match (validation, pacing) {
        _ if recovery.is_modern() => Ok(()),
        _ if ecn.is_wanted() => wrong("ecn", ecn.to_string()),
        (ValidationSpec::Linux | ValidationSpec::Cwv | ValidationSpec::NewCwv(_), _) => {
            wrong("validation", validation.to_string())
        }
        (_, PacingKind::Rate(..) | PacingKind::Kernel) => wrong("pacing", pacing.to_string()),
        _ => Ok(()),
    }
}

fn apply(base: TcpConfig, file: &TcpFile, kinds: &Kinds) -> Result<TcpConfig, Wrong> {
    let time = |said: Option<Text<Span>>| said.map(|Text(span)| span);
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
    let at_least_one = |key: &str, value: Option<u32>, default: u64| match value {
        Some(0) => Err((key.to_string(), "0: at least one segment is needed".to_string())),
        Some(n) => Ok(u64::from(n)),
        None => Ok(default),
    };
    let window = at_least_one("window_segments", file.window_segments, window_segments)?;
    let initial =
        at_least_one("initial_window_segments", file.initial_window_segments, base.initial_window.into())?;
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
            return Err(("ack_delay".into(), "no ACK is delayed: set delayed_ack, too".into()));
        }
        (Some(every), Some(max_delay)) => Some(DelayedAck { max_delay, ..every }),
        (delayed_ack, None) => delayed_ack,
    };
    let quick_after = rto_min.unwrap_or(base.rto.min);
    let delayed_ack = match (delayed_ack, file.quick_acks) {
        (None, Some(_)) => {
            return Err(("quick_acks".into(), "no ACK is delayed: set delayed_ack, too".into()));
        }
        (Some(every), Some(quick)) => Some(DelayedAck { quick, quick_after, ..every }),
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
    let (least, most) = (rto_min.unwrap_or(base.rto.min), rto_max.unwrap_or(base.rto.max));
    if least > most {
        return Err(match rto_min {
            Some(_) => ("rto_min".into(), format!("{least}: expected at most rto_max, {most}")),
            None => ("rto_max".into(), format!("{most}: expected at least rto_min, {least}")),
        });
    }
    let handshake = file.handshake.unwrap_or(base.handshake);
    Ok(TcpConfig {
        segment_bytes,
        // What ns-2 does where no SYN is simulated.
        first_without_header: base.first_without_header && !handshake,
        pads_segments: file.padded.unwrap_or(base.pads_segments),
        receive_window: window * u64::from(segment_bytes),
        // As a program that sets SO_RCVBUF.
        tunes_window: base.tunes_window && file.window_segments.is_none(),
        timestamps: file.timestamps.unwrap_or(base.timestamps),
        initial_window: initial as u32,
        recovery: file.recovery.map_or(base.recovery, |said| said.0),
        control,
        pacing: file.pacing.map_or(base.pacing, |said| said.0),
        delayed_ack,
        nagle: file.nagle.unwrap_or(base.nagle),
        validation: file.validation.map_or(base.validation, |said| said.0),
        ecn: file.ecn.map_or(base.ecn, |said| said.0),
        grow_unused: file.grow_unused.unwrap_or(base.grow_unused),
        limited_transmit: file.limited_transmit.unwrap_or(base.limited_transmit),
        handshake,
        fin: file.fin.unwrap_or(base.fin),
        rto: RtoConfig {
            tick,
            first: rto_first.unwrap_or(base.rto.first),
            min: least,
            max: most,
            ..base.rto
        },
        ..base
    })
}
