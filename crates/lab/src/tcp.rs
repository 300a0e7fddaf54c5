//! What scenarios say of TCP.

use crate::error::Wrong;
use crate::kinds::Kinds;
use crate::text::option_from_text;
use catnip_base::{Bytes, Span, notation};
use catnip_net::mark::MarkerSpec;
use catnip_tcp::control::ControlSpec;
use catnip_tcp::control::validated::ValidationSpec;
use catnip_tcp::pacing::PacingKind;
use catnip_tcp::recovery::RecoveryKind;
use catnip_tcp::{DelayedAck, RtoConfig, TcpConfig, profile};
use serde::Deserialize;
use serde::de::{self, Deserializer};

/// What differs from a profile.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TcpFile {
    pub(crate) profile: Option<String>,
    #[serde(default, deserialize_with = "option_from_text")]
    pub(crate) recovery: Option<RecoveryKind>,
    pub(crate) control: Option<String>,
    #[serde(default, deserialize_with = "option_from_text")]
    pub(crate) pacing: Option<PacingKind>,
    #[serde(default, deserialize_with = "marker")]
    pub(crate) marker: Option<Option<MarkerSpec>>,
    #[serde(default, deserialize_with = "option_from_text")]
    pub(crate) segment: Option<Bytes>,
    pub(crate) window_segments: Option<u32>,
    pub(crate) initial_window_segments: Option<u32>,
    pub(crate) delayed_ack: Option<bool>,
    /// So many ACKs are not delayed at the start and after a silence of more than the least timeout (Linux).
    pub(crate) quick_acks: Option<u32>,
    /// No delayed ACK is later than this.
    #[serde(default, deserialize_with = "option_from_text")]
    pub(crate) ack_delay: Option<Span>,
    pub(crate) weight: Option<u32>,
    pub(crate) nagle: Option<bool>,
    #[serde(default, deserialize_with = "option_from_text")]
    pub(crate) validation: Option<ValidationSpec>,
    /// cwnd grows even while the application or the receive window keeps it unused.
    pub(crate) grow_unused: Option<bool>,
    pub(crate) limited_transmit: Option<bool>,
    pub(crate) handshake: Option<bool>,
    /// Every data segment has full size on the wire.
    pub(crate) padded: Option<bool>,
    pub(crate) fin: Option<bool>,
    #[serde(default, deserialize_with = "option_from_text")]
    pub(crate) rto_first: Option<Span>,
    #[serde(default, deserialize_with = "option_from_text")]
    pub(crate) rto_min: Option<Span>,
    #[serde(default, deserialize_with = "option_from_text")]
    pub(crate) rto_max: Option<Span>,
    #[serde(default, deserialize_with = "option_from_text")]
    pub(crate) rto_tick: Option<Span>,
}

fn marker<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Option<MarkerSpec>>, D::Error> {
    notation::optional(&String::deserialize(d)?).map(Some).map_err(de::Error::custom)
}

/// The parameters of a connection: a profile, what the scenario changes, what the traffic changes.
pub(crate) fn tcp_config(
    common: &TcpFile,
    own: &TcpFile,
    kinds: &Kinds,
) -> Result<(TcpConfig, Option<MarkerSpec>), Wrong> {
    let name = own.profile.as_ref().or(common.profile.as_ref()).map_or("rfc", String::as_str);
    let base = profile::by_name(name).map_err(|error| ("profile".to_string(), error.to_string()))?;
    let mut marker = None;
    let mut config = base.clone();
    for file in [common, own] {
        config = apply(config, file, kinds)?;
        marker = file.marker.unwrap_or(marker);
    }
    needs_modern(&config)?;
    Ok((config, marker))
}

/// The senders of ns-2 and of the papers are closed: what came later they do not know.
fn needs_modern(config: &TcpConfig) -> Result<(), Wrong> {
    let TcpConfig { recovery, validation, pacing, .. } = config;
    let wrong = |key: &str, value: String| {
        Err((key.to_string(), format!("{value:?}: needs recovery = \"sack\", not {:?}", recovery.name())))
    };
    match (validation, pacing) {
        _ if recovery.is_modern() => Ok(()),
        (ValidationSpec::Linux | ValidationSpec::Cwv | ValidationSpec::NewCwv(_), _) => {
            wrong("validation", validation.to_string())
        }
        (_, PacingKind::Rate(_)) => wrong("pacing", pacing.to_string()),
        _ => Ok(()),
    }
}

fn apply(base: TcpConfig, file: &TcpFile, kinds: &Kinds) -> Result<TcpConfig, Wrong> {
    let window_segments = base.receive_window_segments();
    let segment_bytes = match file.segment {
        None => base.segment_bytes,
        Some(bytes) if (1..=65_495).contains(&bytes.0) => bytes.0 as u32,
        Some(bytes) => return Err(("segment".into(), format!("{}: expected 1 to 65495 bytes", bytes.0))),
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
    let delayed_ack = match (delayed_ack, file.ack_delay) {
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
    let quick_after = file.rto_min.unwrap_or(base.rto.min);
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
    let tick = file.rto_tick.unwrap_or(base.rto.tick);
    for (key, span) in [("rto_tick", file.rto_tick), ("rto_first", file.rto_first), ("rto_max", file.rto_max)]
    {
        if span == Some(Span::ZERO) {
            return Err((key.into(), "0: expected a time above zero".into()));
        }
    }
    let (least, most) = (file.rto_min.unwrap_or(base.rto.min), file.rto_max.unwrap_or(base.rto.max));
    if least > most {
        return Err(match file.rto_min {
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
        initial_window: initial as u32,
        recovery: file.recovery.unwrap_or(base.recovery),
        control,
        pacing: file.pacing.unwrap_or(base.pacing),
        delayed_ack,
        nagle: file.nagle.unwrap_or(base.nagle),
        validation: file.validation.unwrap_or(base.validation),
        grow_unused: file.grow_unused.unwrap_or(base.grow_unused),
        limited_transmit: file.limited_transmit.unwrap_or(base.limited_transmit),
        handshake,
        fin: file.fin.unwrap_or(base.fin),
        rto: RtoConfig {
            tick,
            first: file.rto_first.unwrap_or(base.rto.first),
            min: least,
            max: most,
            ..base.rto
        },
        ..base
    })
}
