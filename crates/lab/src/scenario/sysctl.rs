//! Settings of Linux hosts by the names of their sysctls.

use crate::error::KeyError;
use catnip_base::Span;
use catnip_tcp::control::validated::ValidationSpec;
use catnip_tcp::control::{ControlSpec, LinuxCubicSpec, RenoSpec};
use catnip_tcp::{DelayedAck, EcnKind, RtoConfig, TcpConfig};
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::RangeInclusive;

/// Settings of a Linux host as `sysctl` prints them, without `net.ipv4.` (Documentation/networking/ip-sysctl.rst). Where a key of `tcp` has
/// the same meaning, only one of both may be given.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "sysctl")]
pub(crate) struct SysctlFile {
    /// Congestion control: `cubic`, `reno`, `bbr` or `dctcp`, which turns on `ecn = "exact"`.
    #[schemars(example = &"bbr", extend("default" = "cubic"))]
    tcp_congestion_control: Option<String>,
    /// 0 keeps the congestion window in idle periods and while it is not used, 1 reduces it (`validation`).
    #[schemars(range(min = 0, max = 1), example = 0, extend("default" = 1))]
    tcp_slow_start_after_idle: Option<i64>,
    /// Number of timeouts of a SYN after which the RTO is not doubled (`syn_linear_timeouts`).
    #[schemars(range(min = 0, max = 127), example = 0, extend("default" = 4))]
    tcp_syn_linear_timeouts: Option<i64>,
    /// Minimum RTO, microseconds (`rto_min`).
    #[schemars(range(min = 1, max = 120_000_000), example = 5000, extend("default" = 200_000))]
    tcp_rto_min_us: Option<i64>,
    /// Maximum RTO, milliseconds (`rto_max`).
    #[schemars(range(min = 1000, max = 120_000), example = 60_000, extend("default" = 120_000))]
    tcp_rto_max_ms: Option<i64>,
    /// Maximum delay of an ACK by SACK compression, nanoseconds; 0 turns it off.
    #[schemars(range(min = 0, max = 1_000_000_000), example = 0, extend("default" = 1_000_000))]
    tcp_comp_sack_delay_ns: Option<i64>,
    /// 0 or 1: timestamps of RFC 7323 (`timestamps`).
    #[schemars(range(min = 0, max = 1), example = 0, extend("default" = 1))]
    tcp_timestamps: Option<i64>,
    /// 1 requests ECN by RFC 3168 (`ecn = "classic"`); 0 and 2 do not, between two hosts with the same setting.
    #[schemars(range(min = 0, max = 2), example = 1, extend("default" = 2))]
    tcp_ecn: Option<i64>,
    /// 0 keeps the receive window, 1 tunes it to what the connection carries.
    #[schemars(range(min = 0, max = 1), example = 0, extend("default" = 1))]
    tcp_moderate_rcvbuf: Option<i64>,
}

impl SysctlFile {
    /// Changes `config` as these settings say. `sets` returns true if the table `tcp` sets a key; a key and a setting that mean the
    /// same exclude each other.
    pub(crate) fn apply(
        &self,
        mut config: TcpConfig,
        sets: impl Fn(&str) -> bool,
    ) -> Result<TcpConfig, KeyError> {
        let both = [
            ("tcp_congestion_control", self.tcp_congestion_control.is_some(), "control"),
            ("tcp_slow_start_after_idle", self.tcp_slow_start_after_idle.is_some(), "validation"),
            ("tcp_syn_linear_timeouts", self.tcp_syn_linear_timeouts.is_some(), "syn_linear_timeouts"),
            ("tcp_rto_min_us", self.tcp_rto_min_us.is_some(), "rto_min"),
            ("tcp_rto_max_ms", self.tcp_rto_max_ms.is_some(), "rto_max"),
            ("tcp_timestamps", self.tcp_timestamps.is_some(), "timestamps"),
            ("tcp_ecn", self.tcp_ecn.is_some(), "ecn"),
        ];
        if let Some((sysctl, _, key)) = both.iter().find(|(_, is_given, key)| *is_given && sets(key)) {
            return Err((key_of(sysctl), format!("the table has the key {key}, too, which means the same")));
        }
        if let Some(name) = &self.tcp_congestion_control {
            config.control = control(name)?;
            if matches!(config.control, ControlSpec::Dctcp(_)) {
                // TCP_CONG_NEEDS_ECN: DCTCP negotiates ECN whatever tcp_ecn says.
                config.ecn = EcnKind::Exact;
            }
        }
        if let Some(value) = within("tcp_slow_start_after_idle", self.tcp_slow_start_after_idle, 0..=1)? {
            config.validation = if value == 1 { ValidationSpec::Linux } else { ValidationSpec::None };
        }
        if let Some(value) = within("tcp_syn_linear_timeouts", self.tcp_syn_linear_timeouts, 0..=127)? {
            config.syn_linear_timeouts = value as u32;
        }
        let (least, most) = (
            within("tcp_rto_min_us", self.tcp_rto_min_us, 1..=120_000_000)?,
            within("tcp_rto_max_ms", self.tcp_rto_max_ms, 1000..=120_000)?,
        );
        config.rto = RtoConfig {
            min: least.map_or(config.rto.min, Span::from_micros),
            max: most.map_or(config.rto.max, Span::from_millis),
            ..config.rto
        };
        if config.rto.min > config.rto.max {
            let key = if least.is_some() { "tcp_rto_min_us" } else { "tcp_rto_max_ms" };
            let message =
                format!("a minimum RTO of {} is above the maximum, {}", config.rto.min, config.rto.max);
            return Err((key_of(key), message));
        }
        if let Some(delay) = within("tcp_comp_sack_delay_ns", self.tcp_comp_sack_delay_ns, 0..=1_000_000_000)?
        {
            let sack_delay = Span::from_nanos(delay);
            config.delayed_ack = config.delayed_ack.map(|every| DelayedAck { sack_delay, ..every });
        }
        if let Some(value) = within("tcp_timestamps", self.tcp_timestamps, 0..=1)? {
            config.timestamps = value == 1;
        }
        if let Some(value) = within("tcp_ecn", self.tcp_ecn, 0..=2)?
            && config.ecn != EcnKind::Exact
        {
            config.ecn = if value == 1 { EcnKind::Classic } else { EcnKind::None };
        }
        if let Some(value) = within("tcp_moderate_rcvbuf", self.tcp_moderate_rcvbuf, 0..=1)? {
            config.tunes_window = value == 1;
        }
        Ok(config)
    }
}

fn key_of(sysctl: &str) -> String {
    format!("sysctl.{sysctl}")
}

fn within(key: &str, value: Option<i64>, range: RangeInclusive<i64>) -> Result<Option<u64>, KeyError> {
    match value {
        Some(value) if !range.contains(&value) => {
            Err((key_of(key), format!("{value}: expected {} to {}", range.start(), range.end())))
        }
        value => Ok(value.map(|value| value as u64)),
    }
}

fn control(name: &str) -> Result<ControlSpec, KeyError> {
    match name {
        "cubic" => Ok(ControlSpec::LinuxCubic(LinuxCubicSpec::default())),
        "reno" => Ok(ControlSpec::Reno(RenoSpec::default())),
        "bbr" | "dctcp" => Ok(name.parse().expect("a congestion control with this name exists")),
        _ => Err((key_of("tcp_congestion_control"), format!("{name:?}: expected cubic, reno, bbr or dctcp"))),
    }
}
