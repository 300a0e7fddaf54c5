use catnip_base::{Span, Time};
use catnip_sim::FlowId;
use catnip_sim::app::{AppAction, AppEvent, Application};

/// Sends small packets at even distances, to see what they meet on their way.
#[derive(Debug)]
pub struct Probe {
    flow: FlowId,
    gap: Span,
    left: u32,
}

impl Probe {
    pub fn new(flow: FlowId, gap: Span, packets: u32) -> Self {
        Self { flow, gap, left: packets }
    }
}

impl Application for Probe {
    fn on_event(&mut self, now: Time, _id: u32, _event: AppEvent, actions: &mut Vec<AppAction>) {
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            actions.push(AppAction::Send { flow: self.flow, bytes: 100 });
            actions.push(AppAction::TimerAt(now + self.gap));
        }
    }
}
