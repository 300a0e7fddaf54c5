use super::{MarkerKind, PacketKind, PacketMarker, Position, SenderState, Service};
use crate::{Dscp, Packet, Priority};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Time, as_text};
use catnip_law::spm as law;

/// Parameters of selective packet marking (CATNIP paper, section III-B).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpmParameters {
    /// Number of leading packets of a document that are HIGH (catp25).
    pub leading: u32,
    /// Number of trailing packets of a document that are HIGH (catp26); 0 is the partial marking of the paper's Linux prototype, section
    /// V-G.
    pub trailing: u32,
    /// Congestion window, segments, below which all packets are HIGH. The paper specifies 4 (catp27), but its reported shares of HIGH
    /// packets fit 3 (docs/deviations.md).
    pub small_window: u32,
    /// Priority of SYN and SYN-ACK, HIGH or LOW. With `None`, senders leave these packets unmarked, so that queues treat them as LOW, and
    /// an edge marks them HIGH. The paper does not specify the priority, since its simulator has no handshakes.
    pub handshake: Option<Priority>,
    /// True if retransmissions and packets sent during a recovery are HIGH, regardless of offset and window.
    pub repairs: bool,
}

impl SpmParameters {
    /// Parameters of the paper's simulation: HIGH for the first three packets, the last three packets and small windows.
    pub const FULL: Self = Self { leading: 3, trailing: 3, small_window: 3, handshake: None, repairs: false };
    /// Parameters of the paper's kernel prototype, which cannot detect the end of a document.
    pub const PARTIAL: Self = Self { trailing: 0, ..Self::FULL };
    /// Parameters for today's hosts. With an initial window of ten segments, a sender recovers from the loss of the first segment without a
    /// timeout. Each additional HIGH packet would reduce the protection of the other HIGH packets.
    pub const LAST_ONLY: Self = Self { leading: 0, small_window: 0, repairs: true, ..Self::FULL };
}

impl Kind for SpmParameters {
    const USAGE: &'static [Usage] = &[
        (
            "spm[:leading=3,trailing=3,small_window=3,handshake=,repairs=]",
            "selective packet marking: HIGH for the first leading and the last trailing packets of a document and for packets sent while \
             the window is below small_window segments, LOW otherwise; handshake=high or low is the priority of SYN and SYN-ACK, which by \
             default an edge marks HIGH and a sender leaves unmarked; repairs=high marks retransmissions and packets sent during a \
             recovery HIGH",
        ),
        ("spm-partial[:…]", "spm with trailing=0"),
        ("last-only[:…]", "spm with leading=0, small_window=0 and repairs=high"),
    ];
    const EXAMPLES: &'static [&'static str] =
        &["spm", "spm:handshake=low,repairs=high", "spm-partial", "last-only"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let defaults = match text.name() {
            "spm" => Self::FULL,
            "spm-partial" => Self::PARTIAL,
            _ => Self::LAST_ONLY,
        };
        Ok(Self {
            leading: text.option("leading", defaults.leading)?,
            trailing: text.option("trailing", defaults.trailing)?,
            small_window: text.option("small_window", defaults.small_window)?,
            handshake: read_high_or_low(text, "handshake")?,
            repairs: read_high_or_low(text, "repairs")?
                .map_or(defaults.repairs, |priority| priority == Priority::High),
        })
    }

    fn write(&self, to: &mut Written) {
        to.name("spm")
            .option("leading", self.leading, Self::FULL.leading)
            .option("trailing", self.trailing, Self::FULL.trailing)
            .option("small_window", self.small_window, Self::FULL.small_window);
        if let Some(priority) = self.handshake {
            to.key("handshake", priority.name());
        }
        if self.repairs {
            to.key("repairs", Priority::High.name());
        }
    }
}

fn read_high_or_low(text: &mut Notation<'_>, key: &str) -> Result<Option<Priority>, ParseError> {
    let Some(name) = text.take(key) else { return Ok(None) };
    let priority = Priority::by_name(name).filter(|&priority| priority != Priority::Medium);
    priority.map(Some).ok_or_else(|| text.error(format!("{key}=high or {key}=low, not {name:?}")))
}

as_text!(SpmParameters);

/// Selective packet marking: the packets whose loss would cost a timeout are HIGH, the others LOW.
///
/// The mark of each transmission and retransmission depends on cwnd at that time. If the application has not given the size of its
/// document, the trailing packets are unknown and get no special treatment.
#[derive(Clone, Copy, Debug)]
pub struct Spm {
    parameters: SpmParameters,
}

impl Spm {
    /// Creates a marker with these parameters.
    pub fn new(parameters: SpmParameters) -> Self {
        Self { parameters }
    }
}

impl Spm {
    const HIGH: Dscp = Dscp::assured(1, Priority::High);
    const LOW: Dscp = Dscp::assured(1, Priority::Low);

    /// Returns the mark of a packet with data at a position in a document, with segments of `segment` bytes.
    #[inline]
    pub fn mark_of(&self, position: &Position, segment: u32) -> Dscp {
        let SpmParameters { leading, trailing, small_window, .. } = self.parameters;
        let &Position { offset, bytes, window } = position;
        let position = law::Position { offset, bytes: bytes.unwrap_or(law::UNKNOWN), window };
        match law::reason(&law::Rules { leading, trailing, small_window }, &position, segment) {
            law::Reason::None => Self::LOW,
            _ => Self::HIGH,
        }
    }

    /// Returns the mark of a packet at its sender; `None` for packets that are not marked, such as ACKs.
    #[inline]
    pub fn mark_of_sending(&self, sending: &SenderState) -> Option<Dscp> {
        let &SenderState { kind, offset, window, .. } = sending;
        let repairs = sending.retransmission || sending.recovering;
        match kind {
            PacketKind::Data if self.parameters.repairs && repairs => Some(Self::HIGH),
            PacketKind::Data => {
                let bytes = sending.context.map(|context| context.bytes_left);
                Some(self.mark_of(&Position { offset, bytes, window }, sending.segment))
            }
            PacketKind::Syn => self.mark_of_handshake(),
            PacketKind::Ack(_) => None,
        }
    }
}

impl MarkerKind for SpmParameters {
    type Marker = Spm;
    fn build(&self, _service: Service, _rng: &dyn Fn() -> Rng) -> Spm {
        Spm::new(*self)
    }
}

impl PacketMarker for Spm {
    #[inline]
    fn mark(&mut self, _now: Time, sending: Option<&SenderState>, packet: &mut Packet) -> bool {
        // A marker inside the network does not have the state of the sender.
        let mark = sending.and_then(|sending| self.mark_of_sending(sending));
        packet.dscp = mark.unwrap_or(packet.dscp);
        mark.is_some()
    }
    #[inline]
    fn depends_only_on_position(&self) -> bool {
        !self.parameters.repairs
    }
    #[inline]
    fn mark_of_data_at(&self, position: &Position, segment: u32) -> Option<Dscp> {
        Some(self.mark_of(position, segment))
    }
    #[inline]
    fn mark_of_handshake(&self) -> Option<Dscp> {
        self.parameters.handshake.map(|priority| Dscp::assured(1, priority))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Route;
    use crate::mark::AnyMarker;
    use catnip_base::FlowContext;

    #[test]
    fn repairs_are_high_where_they_are_told_to_be_and_last_only_marks_the_end_and_them() {
        let position = |offset: u64, retransmission, recovering| SenderState {
            context: Some(FlowContext::document(20_000)),
            offset,
            segment: 1000,
            window: 1000,
            retransmission,
            recovering,
            ..SenderState::default()
        };
        for (text, expected) in [
            ("last-only", [false, true, true, true]),
            ("last-only:repairs=low", [false, false, false, true]),
            ("spm:leading=0,small_window=0", [false, false, false, true]),
            ("spm:leading=0,small_window=0,repairs=high", [false, true, true, true]),
        ] {
            let spm = Spm::new(text.parse().unwrap());
            let sendings = [
                position(0, false, false),
                position(0, true, false),
                position(0, false, true),
                position(17_000, false, false),
            ];
            let found = sendings.map(|sending| spm.mark_of_sending(&sending) == Some(Spm::HIGH));
            assert_eq!(found, expected, "{text}");
        }
    }

    fn high(
        parameters: SpmParameters,
        packet_number: u64,
        of: u64,
        window_segments: u64,
        context: bool,
    ) -> bool {
        let mut packet = Packet::new(Time::ZERO, Route::default(), 512, 0);
        let sending = SenderState {
            context: context.then(|| FlowContext::document(of * 512 - 100)),
            offset: (packet_number - 1) * 512,
            segment: 512,
            window: window_segments * 512,
            ..SenderState::default()
        };
        Spm::new(parameters).mark(Time::ZERO, Some(&sending), &mut packet);
        packet.dscp.priority() == Priority::High
    }

    #[test]
    fn first_three_last_three_and_small_windows_are_high() {
        for number in 1..=16 {
            assert_eq!(
                high(SpmParameters::FULL, number, 16, 8, true),
                number <= 3 || number > 13,
                "{number}"
            );
            assert!(high(SpmParameters::FULL, number, 16, 2, true), "window 2 is small");
            assert_eq!(high(SpmParameters::PARTIAL, number, 16, 8, true), number <= 3);
        }
    }

    #[test]
    fn the_window_bound_is_strict_and_a_parameter() {
        assert!(!high(SpmParameters::FULL, 8, 16, 3, true));
        assert!(high(SpmParameters { small_window: 4, ..SpmParameters::FULL }, 8, 16, 3, true));
    }

    #[test]
    fn what_ends_a_document_is_high_unless_nobody_looks_at_the_end() {
        // After all 16 packets, only a FIN remains to be sent.
        assert!(high(SpmParameters::FULL, 17, 16, 8, true));
        assert!(!high(SpmParameters::PARTIAL, 17, 16, 8, true));
    }

    #[test]
    fn handshakes_are_marked_as_said_and_acks_never() {
        let marked = |handshake, kind| {
            let mut packet = Packet::new(Time::ZERO, Route::default(), 40, 0);
            let sending = SenderState { kind, segment: 512, ..SenderState::default() };
            let parameters = SpmParameters { handshake, ..SpmParameters::FULL };
            Spm::new(parameters).mark(Time::ZERO, Some(&sending), &mut packet);
            packet.dscp
        };
        assert_eq!(marked(None, PacketKind::Syn), Dscp::default());
        for (priority, mark) in [(Priority::High, Spm::HIGH), (Priority::Low, Spm::LOW)] {
            assert_eq!(marked(Some(priority), PacketKind::Syn), mark);
            assert_eq!(marked(Some(priority), PacketKind::Ack(None)), Dscp::default());
            assert_eq!(marked(Some(priority), PacketKind::Data), Spm::HIGH, "small windows stay HIGH");
        }
    }

    #[test]
    fn the_mark_of_handshakes_is_high_or_low() {
        let read = |text: &str| text.parse::<SpmParameters>();
        assert_eq!(read("spm-partial:handshake=low").unwrap().handshake, Some(Priority::Low));
        assert_eq!(read("spm").unwrap().to_string(), "spm", "what is not said is not written");
        let error = read("spm:handshake=med").unwrap_err().to_string();
        assert!(error.contains("handshake=high or handshake=low, not \"med\""), "{error}");
    }

    #[test]
    fn who_has_no_marker_leaves_packets_as_they_are() {
        let sending = SenderState { segment: 512, window: 8 * 512, ..SenderState::default() };
        for (parameters, priority) in [(None, Priority::Medium), (Some(SpmParameters::FULL), Priority::High)]
        {
            let packet = Packet::new(Time::ZERO, Route::default(), 512, 0);
            let mut packet = Packet { dscp: Priority::Medium.into(), ..packet };
            let spm = |parameters| AnyMarker::Spm(Spm::new(parameters));
            parameters.map_or_else(AnyMarker::default, spm).mark(Time::ZERO, Some(&sending), &mut packet);
            assert_eq!(packet.dscp.priority(), priority);
        }
    }

    #[test]
    fn without_context_full_marking_degrades_to_partial() {
        for number in 1..=16 {
            assert_eq!(high(SpmParameters::FULL, number, 16, 8, false), number <= 3);
        }
    }
}
