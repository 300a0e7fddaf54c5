use super::{CaState, Sender};
use crate::TcpConfig;
use crate::control::validated::Burst;
use crate::control::{CongestionControl, Control, Phase};
use crate::modern::rack::tso::{self, Deferral, TsoInput};
use catnip_base::{Span, Time};

/// Transmission of new data: what may leave, what leaves together, and what follows from it for cwnd (tcp_write_xmit).
impl Sender {
    /// Returns true if the next new segment may leave: it fits into the peer's window, neither Nagle's algorithm nor segmentation offload
    /// delays it, or it belongs to the unit whose segments are leaving (tcp_write_xmit).
    #[inline]
    pub(super) fn may_send_new(&mut self, now: Time, config: &TcpConfig) -> bool {
        if self.snd_max < self.unit_end {
            return true;
        }
        let unsent = self.stream.written().saturating_sub(self.snd_max);
        if !self.fits_peer_window() {
            return false;
        }
        // Nagle's algorithm with Minshall's modification: a short segment waits for another short one only.
        let delays_short = config.nagle && self.short_end > self.snd_una();
        if unsent <= self.segment {
            if unsent < self.segment && delays_short && !self.stream.has_fin() {
                return false;
            }
            self.unit_end = self.stream.end();
            return true;
        }
        let is_last_of_cwnd = self.flight.packets_in_flight() + 1 == self.cwnd();
        let leaves_alone = !config.segmentation_offload || self.rate.is_some();
        if leaves_alone || is_last_of_cwnd && now.since(self.last_sent) > tso::MAX_WAIT {
            self.unit_end = self.stream.segment_end(self.snd_max, self.segment);
            return true;
        }
        self.begin_unit(now, unsent, delays_short)
    }

    /// Determines how many of `unsent` bytes leave together. Returns false if they wait for more.
    #[inline(never)]
    fn begin_unit(&mut self, now: Time, unsent: u64, delays_short: bool) -> bool {
        let cwnd = self.cwnd();
        let Control { cwnd: bytes, ssthresh } = self.control.control();
        let in_slow_start = ssthresh.is_none_or(|ssthresh| bytes < ssthresh / 2);
        let input = TsoInput {
            segment: self.segment,
            unsent,
            has_fin: self.stream.has_fin(),
            cwnd,
            packets_in_flight: self.flight.packets_in_flight(),
            peer_window: self.peer_window,
            send_window: (self.snd_una() + self.peer_window).saturating_sub(self.snd_max),
            in_slow_start,
            packets_out: self.flight.packets_out(),
            since_sent: now.since(self.last_sent),
            head_age: self.flight.head().map(|(_, sent)| now.since(sent)),
            srtt: self.rtt.srtt().unwrap_or(Span::ZERO),
            min_rtt: self.rtt.min_rtt(),
        };
        // tcp_sendmsg: each full unit of a long write is pushed by itself, and does not wait for more.
        let is_pushed =
            self.pushed_at == Some(now) && unsent >= tso::unit_goal(self.segment, self.peer_window);
        if self.ca_state < CaState::Recovery
            && !is_pushed
            && let Some(deferral) = input.deferral()
        {
            self.is_deferred_by_cwnd = deferral == Deferral::CwndLimited;
            return false;
        }
        let bytes = input.bytes(delays_short);
        self.unit_end = if bytes < unsent { self.snd_max + bytes } else { self.stream.end() };
        true
    }

    /// Returns true if the next new segment fits into the peer's window, at least with a full segment of what is unsent.
    pub(super) fn fits_peer_window(&self) -> bool {
        self.stream.segment_end(self.snd_max, self.segment) <= self.snd_una() + self.peer_window
    }

    /// Handles the end of a burst, when no further segment may be sent (tcp_cwnd_validate).
    #[inline(never)]
    pub(super) fn end_burst(&mut self, now: Time, config: &TcpConfig) {
        let is_cwnd_limited = std::mem::take(&mut self.is_deferred_by_cwnd) || self.is_cwnd_full();
        let has_unsent = !self.stream.is_sent(self.snd_max);
        if !(std::mem::take(&mut self.sent_in_burst) || has_unsent && is_cwnd_limited) {
            return;
        }
        let packets_out = self.flight.packets_out();
        self.cwnd_usage.on_sent(is_cwnd_limited, packets_out, self.snd_una(), self.snd_max);
        if self.control.needs_on_burst() {
            let in_slow_start = || self.control.phase(self.stream.unsent(self.snd_max)) == Phase::SlowStart;
            self.control.on_burst(&Burst {
                now,
                is_cwnd_limited: self.cwnd_usage.is_cwnd_limited(self.cwnd(), in_slow_start),
                in_flight: u64::from(packets_out) * self.segment,
                rto: self.rtt.timeout(&config.rto),
                is_open: self.ca_state == CaState::Open,
            });
        }
    }
}
