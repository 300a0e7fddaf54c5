use super::{MarkerKind, PacketKind, PacketMarker, SenderState, Service};
use crate::{Dscp, Packet, Priority};
use catnip_base::notation::{Kind, Notation, Usage, Written};
use catnip_base::{ParseError, Rng, Time};

/// Configuration of marking by application: all packets of an application have the same drop precedence (IDS-S14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApplicationSpec {
    /// Drop precedence; `None` selects the default of the service.
    pub priority: Option<Priority>,
    /// Assured forwarding class, 1 to 4; `None` selects the default of the service.
    pub class: Option<u8>,
}

impl Kind for ApplicationSpec {
    const USAGE: &'static [Usage] = &[(
        "app[:high|med|low][,class=]",
        "the same priority for all packets of an application; by default HIGH for Telnet, MED for the Web, LOW for other traffic",
    )];
    const EXAMPLES: &'static [&'static str] = &["app", "app:low,class=4"];

    fn read(text: &mut Notation<'_>) -> Result<Self, ParseError> {
        let priority = match text.next() {
            None => None,
            Some(name) => Some(Priority::by_name(name).ok_or_else(|| text.error("high, med or low"))?),
        };
        Ok(Self { priority, class: read_class(text)? })
    }

    fn write(&self, to: &mut Written) {
        to.name("app");
        if let Some(priority) = self.priority {
            to.value(priority.name());
        }
        write_class(to, self.class);
    }
}

/// Reads the option `class=`.
pub(super) fn read_class(text: &mut Notation<'_>) -> Result<Option<u8>, ParseError> {
    let class = text.take("class").map(|value| value.parse().ok().filter(|class| (1..=4).contains(class)));
    match class {
        Some(None) => Err(text.error("a class from 1 to 4")),
        class => Ok(class.flatten()),
    }
}

/// Writes the option `class=`.
pub(super) fn write_class(to: &mut Written, class: Option<u8>) {
    if let Some(class) = class {
        to.key("class", class);
    }
}

/// Marker that gives all packets of an application the same priority, and ACKs the priority of the data that they acknowledge.
#[derive(Clone, Copy, Debug)]
pub struct Application {
    class: u8,
    priority: Priority,
}

impl Application {
    /// Creates the marker of an application with the requirements `service`.
    pub fn new(spec: ApplicationSpec, service: Service) -> Self {
        let class = spec.class.unwrap_or(service.class());
        Self { class, priority: spec.priority.unwrap_or(service.priority()) }
    }
}

impl MarkerKind for ApplicationSpec {
    type Marker = Application;
    fn build(&self, service: Service, _rng: &dyn Fn() -> Rng) -> Application {
        Application::new(*self, service)
    }
    fn needs_sender(&self) -> bool {
        false
    }
}

impl PacketMarker for Application {
    fn mark(&mut self, _now: Time, sending: Option<&SenderState>, packet: &mut Packet) -> bool {
        let priority = match sending.map(|sending| sending.kind) {
            // An ACK sent before any data has arrived has the application's own priority.
            Some(PacketKind::Ack(Some(priority))) => priority,
            _ => self.priority,
        };
        packet.dscp = Dscp::assured(self.class, priority);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Route;

    #[test]
    fn telnet_is_high_the_web_medium_and_file_transfer_low() {
        let marked = |spec, service| {
            let mut packet = Packet::new(Time::ZERO, Route::default(), 100, 0);
            Application::new(spec, service).mark(Time::ZERO, None, &mut packet);
            packet.dscp
        };
        let default = ApplicationSpec::default();
        let kinds = [Service::Highly, Service::Interactive, Service::Other];
        // RFC 2597, section 6: AF11, AF22, AF33.
        assert_eq!(kinds.map(|service| marked(default, service).codepoint()), [10, 20, 30]);
        let own = ApplicationSpec { priority: Some(Priority::High), class: Some(4) };
        assert_eq!(marked(own, Service::Other).codepoint(), 34);
    }

    #[test]
    fn an_ack_has_the_priority_of_the_data_that_it_answers() {
        let mut packet = Packet::new(Time::ZERO, Route::default(), 40, 0);
        let sending = SenderState { kind: PacketKind::Ack(Some(Priority::High)), ..SenderState::default() };
        let mut marker = Application::new(ApplicationSpec::default(), Service::Other);
        marker.mark(Time::ZERO, Some(&sending), &mut packet);
        assert_eq!(packet.dscp, Dscp::assured(3, Priority::High));
    }
}
