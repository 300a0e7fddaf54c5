use catnip_base::Span;
use catnip_sim::app::{AppEvent, Application};
use catnip_sim::{FlowId, Host};

/// Application that sends packets of 100 bytes at a constant interval, to measure the delay and loss of a path.
#[derive(Debug)]
pub(crate) struct Probe {
    flow: FlowId,
    gap: Span,
    left: u32,
}

impl Probe {
    pub(crate) fn new(flow: FlowId, gap: Span, packets: u32) -> Self {
        Self { flow, gap, left: packets }
    }
}

impl Application for Probe {
    fn on_event(&mut self, _event: AppEvent, host: &mut Host<'_>) {
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            host.datagram(self.flow, 100);
            host.timer(host.now() + self.gap, 0);
        }
    }
}
