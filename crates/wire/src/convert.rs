use crate::{Tcp, TcpFlags, TcpHeader, TcpOptions, TcpSackBlocks, WireError};
use catnip_tcp::{EcnBits, Flags, MAX_WINDOW_SCALE, SackBlocks, Segment, TcpConfig, Timestamps};

/// Translation between the segments of a simulated TCP endpoint and the TCP headers of a real endpoint. The sequence numbers of a
/// [`Segment`] count bytes from 0 and never wrap. A TCP header has 32-bit sequence numbers, a scaled window and options.
///
/// Byte 0 of the data has the sequence number after that of the SYN. The endpoint must be configured with a handshake, in which both
/// initial sequence numbers are exchanged. Data in a SYN is ignored, so that the peer retransmits the data.
#[derive(Clone, Debug)]
pub struct Translation {
    announcement: Announcement,
    /// Local initial sequence number.
    iss: u32,
    /// Peer's initial sequence number; `None` until the peer's SYN has arrived.
    irs: Option<u32>,
    /// Options of the peer's SYN.
    peer: TcpOptions,
    /// End of the sequence space sent by the local endpoint (SND.MAX).
    snd_max: u64,
    /// Highest acknowledgement sent by the local endpoint.
    last_ack_sent: u64,
    /// Right edge of the window advertised by the local endpoint.
    right_edge: u64,
    /// Latest in-order timestamp of the peer (TS.Recent).
    ts_recent: Option<u32>,
}

/// Options announced in the local SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Maximum segment size (MSS): largest number of data bytes in a segment to this host.
    pub mss: u16,
    /// Shift count of the local window, at most 14, or `None` for no scaling.
    pub window_scale: Option<u8>,
    /// SACK permitted. SACK blocks are sent only if the peer also permits SACK.
    pub sack: bool,
    /// Timestamps (RFC 7323), used only if the peer also announces timestamps.
    pub timestamps: bool,
}

impl Announcement {
    /// Returns the announcement of a host with this configuration. The shift count is the smallest with which the window fits into 16 bits.
    pub fn of(config: &TcpConfig) -> Self {
        let timestamps_len = if config.timestamps { TIMESTAMPS_LEN } else { 0 };
        Self {
            // RFC 6691: the MSS does not account for options; the sender subtracts the length of the options.
            mss: (config.segment_bytes + timestamps_len).min(u32::from(u16::MAX)) as u16,
            window_scale: Some(config.window_scale()),
            sack: config.recovery.uses_sack(),
            timestamps: config.timestamps,
        }
    }
}

/// Translated segment of the peer, for the simulated endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Incoming {
    /// Segment to pass to the endpoint.
    Segment(Segment),
    /// Reset of the connection.
    Reset,
    /// Segment to ignore: it belongs to another connection, or its sequence or acknowledgement number is outside the acceptable range (RFC
    /// 9293, section 3.10.7.4).
    Unacceptable,
}

/// Length of the timestamps option in each segment, bytes, padding included (RFC 7323, appendix A).
pub const TIMESTAMPS_LEN: u32 = 12;

impl Translation {
    /// Creates the translation of a new connection with the local initial sequence number `initial_sequence`.
    pub fn new(initial_sequence: u32, announcement: Announcement) -> Self {
        Self {
            announcement,
            iss: initial_sequence,
            irs: None,
            peer: TcpOptions::default(),
            snd_max: 0,
            last_ack_sent: 0,
            right_edge: 0,
            ts_recent: None,
        }
    }

    /// Creates the translation of an endpoint with a known peer, as if both endpoints had exchanged SYNs with the same announcement.
    pub fn between(initial_sequence: u32, irs: u32, announcement: Announcement) -> Self {
        let peer = Self::new(irs, announcement).syn_options(false);
        Self { irs: Some(irs), peer, ..Self::new(initial_sequence, announcement) }
    }

    /// Returns the header of a segment that the simulated endpoint sends. The caller sets the ports.
    pub fn outgoing(&mut self, segment: &Segment) -> TcpHeader {
        let flags = segment.flags;
        self.snd_max = self.snd_max.max(segment.seq + segment.seq_len());
        let sequence = if flags.syn { self.iss } else { wire_sequence(self.iss, segment.seq) };
        let irs = self.irs.filter(|_| flags.ack);
        let scale = if flags.syn { 0 } else { self.window_scales().0 };
        let window = (segment.window >> scale).min(u32::from(u16::MAX)) as u16;
        if irs.is_some() {
            self.last_ack_sent = self.last_ack_sent.max(segment.ack);
        }
        self.right_edge = self.right_edge.max(segment.ack + (u64::from(window) << scale));
        let mut options = if flags.syn { self.syn_options(flags.ack) } else { TcpOptions::default() };
        if options.timestamps.is_some() || self.uses_timestamps() {
            options.timestamps = Some((segment.timestamps.tsval, segment.timestamps.tsecr));
        }
        if let Some(irs) = irs.filter(|_| self.uses_sack()) {
            let numbers = |(start, end)| (wire_sequence(irs, start), wire_sequence(irs, end));
            options.sack = TcpSackBlocks::new(segment.sack.ranges(segment.ack).map(numbers));
        }
        TcpHeader {
            sequence,
            acknowledgement: irs.map_or(0, |irs| wire_sequence(irs, segment.ack)),
            flags: control_bits(segment),
            window,
            options,
            ..TcpHeader::default()
        }
    }

    /// Translates a received segment. The data stays in the packet; the result has only the length of the data.
    pub fn incoming(&mut self, tcp: &Tcp<'_>) -> Result<Incoming, WireError> {
        let (bits, options) = (tcp.flags(), tcp.options()?);
        if bits.contains(TcpFlags::RST) {
            return Ok(if self.is_acceptable_reset(tcp) { Incoming::Reset } else { Incoming::Unacceptable });
        }
        let Some(ack) = self.ack_offset(tcp) else { return Ok(Incoming::Unacceptable) };
        if bits.contains(TcpFlags::SYN) && self.irs.is_none() {
            self.irs = Some(tcp.sequence());
            self.peer = options;
        }
        let Some(seq) = self.seq_offset(tcp).filter(|&seq| self.passes_paws(&options, seq)) else {
            return Ok(Incoming::Unacceptable);
        };
        if let Some((value, _)) = options.timestamps.filter(|_| seq <= self.last_ack_sent)
            && !self.is_older_than_recent(value)
        {
            self.ts_recent = Some(value);
        }
        Ok(Incoming::Segment(self.segment(tcp, &options, seq, ack)))
    }

    /// Returns the MSS announced by the peer. `None` stands for the default of 536 (IPv4) or 1220 (IPv6) (RFC 9293, section 3.7.1).
    pub fn peer_mss(&self) -> Option<u16> {
        self.peer.mss
    }

    /// Returns true if both sides permit SACK.
    pub fn uses_sack(&self) -> bool {
        self.announcement.sack && self.peer.sack_permitted
    }

    /// Returns true if both sides announce timestamps.
    pub fn uses_timestamps(&self) -> bool {
        self.announcement.timestamps && self.peer.timestamps.is_some()
    }

    /// Returns true if the timestamp of a segment is acceptable. If timestamps are negotiated, a segment without a timestamp is rejected
    /// (RFC 7323, section 3.2), and an old duplicate, whose timestamp is older than TS.Recent, as well (section 5.3, R1). A segment below
    /// the acknowledged data is always accepted, so that the endpoint can report it.
    fn passes_paws(&self, options: &TcpOptions, seq: u64) -> bool {
        if !self.uses_timestamps() {
            return true;
        }
        let Some((value, _)) = options.timestamps else { return false };
        !self.is_older_than_recent(value) || seq < self.last_ack_sent
    }

    /// Returns true if a timestamp is older than TS.Recent.
    fn is_older_than_recent(&self, value: u32) -> bool {
        self.ts_recent.is_some_and(|ts_recent| (value.wrapping_sub(ts_recent) as i32) < 0)
    }

    /// Returns the window shift counts of this host and of the peer. Both are zero if one of the sides does not announce a shift count.
    fn window_scales(&self) -> (u8, u8) {
        match (self.announcement.window_scale, self.peer.window_scale) {
            (Some(ours), Some(theirs)) => (ours.min(MAX_WINDOW_SCALE), theirs.min(MAX_WINDOW_SCALE)),
            _ => (0, 0),
        }
    }

    /// Returns the options of the local SYN. A SYN-ACK contains, apart from the MSS, only options that the peer has
    /// offered (RFC 7323, section 1.3).
    fn syn_options(&self, is_syn_ack: bool) -> TcpOptions {
        let Announcement { mss, window_scale, sack, timestamps } = self.announcement;
        TcpOptions {
            mss: Some(mss),
            window_scale: window_scale
                .filter(|_| !is_syn_ack || self.peer.window_scale.is_some())
                .map(|shift| shift.min(MAX_WINDOW_SCALE)),
            sack_permitted: sack && (!is_syn_ack || self.peer.sack_permitted),
            timestamps: (timestamps && (!is_syn_ack || self.peer.timestamps.is_some())).then_some((0, 0)),
            ..TcpOptions::default()
        }
    }

    /// Returns the position that the segment acknowledges, 0 without an ACK bit; `None` if this position is beyond the data sent.
    fn ack_offset(&self, tcp: &Tcp<'_>) -> Option<u64> {
        match tcp.flags().contains(TcpFlags::ACK) {
            true => stream_offset(self.iss, tcp.acknowledgement(), self.snd_max)
                .filter(|ack| *ack <= self.snd_max),
            false => Some(0),
        }
    }

    /// Returns the position of the segment's first byte; `None` if the position is beyond the window or before the first byte of the
    /// connection.
    fn seq_offset(&self, tcp: &Tcp<'_>) -> Option<u64> {
        let irs = self.irs?;
        match tcp.flags().contains(TcpFlags::SYN) {
            true => (tcp.sequence() == irs).then_some(0),
            false => {
                stream_offset(irs, tcp.sequence(), self.last_ack_sent).filter(|seq| *seq <= self.right_edge)
            }
        }
    }

    fn segment(&self, tcp: &Tcp<'_>, options: &TcpOptions, seq: u64, ack: u64) -> Segment {
        let bits = tcp.flags();
        let syn = bits.contains(TcpFlags::SYN);
        let scale = if syn { 0 } else { self.window_scales().1 };
        let sack = if self.uses_sack() { options.sack } else { TcpSackBlocks::default() };
        // A first block below the acknowledgement reports a duplicate (RFC 2883). The endpoint uses these reports only with timestamps.
        let accepts_dsack = self.announcement.timestamps;
        let ranges = sack.as_slice().iter().enumerate().filter_map(|(at, &(start, end))| {
            let (start, end) = (stream_offset(self.iss, start, ack)?, stream_offset(self.iss, end, ack)?);
            let is_duplicate = at == 0 && accepts_dsack && end <= ack;
            ((ack < start || is_duplicate) && start < end && end <= self.snd_max).then_some((start, end))
        });
        Segment {
            seq,
            ack,
            len: if syn { 0 } else { tcp.payload().len() as u32 },
            window: u32::from(tcp.window()) << scale,
            flags: Flags {
                syn,
                ack: bits.contains(TcpFlags::ACK),
                fin: bits.contains(TcpFlags::FIN) && !syn,
            },
            sack: SackBlocks::new(ack, ranges),
            ecn: EcnBits::new(bits.contains(TcpFlags::ECE), bits.contains(TcpFlags::CWR)),
            timestamps: match options.timestamps.filter(|_| self.uses_timestamps()) {
                Some((tsval, tsecr)) => Timestamps { tsval, tsecr },
                None => Timestamps::default(),
            },
        }
    }

    /// Returns true if a reset is acceptable: its sequence number is in the window, or it acknowledges the local SYN. The check of RFC
    /// 5961, section 3.2, needs the next expected sequence number, which only the endpoint has.
    fn is_acceptable_reset(&self, tcp: &Tcp<'_>) -> bool {
        match self.irs {
            Some(_) => self.seq_offset(tcp).is_some_and(|seq| seq >= self.last_ack_sent),
            None => {
                tcp.flags().contains(TcpFlags::ACK) && tcp.acknowledgement() == wire_sequence(self.iss, 0)
            }
        }
    }
}

/// Returns the value nearest to `reference` whose low 32 bits are `low`; `None` if that value would be negative.
#[inline]
pub fn unwrap_sequence(reference: u64, low: u32) -> Option<u64> {
    let distance = low.wrapping_sub(reference as u32) as i32;
    reference.checked_add_signed(i64::from(distance))
}

/// Returns the sequence number of the byte at position `byte`. The SYN precedes byte 0.
fn wire_sequence(initial: u32, byte: u64) -> u32 {
    initial.wrapping_add(1).wrapping_add(byte as u32)
}

/// Returns the position nearest to `reference` that has the sequence number `sequence`; `None` if that position would precede byte 0.
pub(crate) fn stream_offset(initial: u32, sequence: u32, reference: u64) -> Option<u64> {
    unwrap_sequence(reference, sequence.wrapping_sub(initial).wrapping_sub(1))
}

fn control_bits(segment: &Segment) -> TcpFlags {
    let (flags, ecn) = (segment.flags, segment.ecn);
    let bit = |set: bool, bit: TcpFlags| if set { bit } else { TcpFlags::default() };
    bit(flags.syn, TcpFlags::SYN)
        | bit(flags.ack, TcpFlags::ACK)
        | bit(flags.fin, TcpFlags::FIN)
        | bit(ecn.ece(), TcpFlags::ECE)
        | bit(ecn.cwr(), TcpFlags::CWR)
}

#[cfg(test)]
mod tests;
