use super::{Stage, StageKind};
use crate::mark::{AnyMarker, MarkerKind, MarkerSpec, PacketMarker, Service};
use crate::{DropReason, Packet};
use catnip_base::notation::{Family, Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Time};

/// Configuration of a marker inside the network, which marks without the state of senders (RFC 2475, section 2.3.3.1).
#[derive(Clone, Debug, PartialEq)]
pub struct MarkSpec(MarkerSpec);

impl Kind for MarkSpec {
    const USAGE: &'static [Usage] =
        &[("mark:(MARKER)", "marker that needs no sender, as in mark:(srtcm:cir=1Mbit,cbs=4KB,ebs=8KB)")];
    const EXAMPLES: &'static [&'static str] = &["mark:(app:med)"];
    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let marker = text.next().and_then(|marker| marker.strip_prefix('(')?.strip_suffix(')'));
        let marker = MarkerSpec::read_any(marker.ok_or_else(|| text.error("a marker in parentheses"))?)?;
        if marker.needs_sender() {
            return Err(text.error(format!("a marker that needs no sender, not {marker}")));
        }
        Ok(Self(marker))
    }
    fn write(&self, to: &mut Written) {
        to.name("mark").value(format_args!("({})", self.0));
    }
}

impl StageKind for MarkSpec {
    type Stage = Box<Mark>;
    fn build(&self, rng: Rng) -> Box<Mark> {
        Box::new(Mark(self.0.build(Service::default(), &|| rng.clone())))
    }
}

/// Stage that applies a marker to every packet.
#[derive(Debug)]
pub struct Mark(AnyMarker);

impl Stage for Mark {
    fn pass(&mut self, now: Time, packet: &mut Packet) -> Result<(), DropReason> {
        self.0.mark(now, None, packet);
        Ok(())
    }
}
