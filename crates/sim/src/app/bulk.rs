use super::{AppAction, AppEvent, Application};
use crate::Transfer;
use catnip_base::Time;

/// One transfer of a given size that begins at a given time.
#[derive(Debug)]
pub struct Bulk {
    transfer: Transfer,
    start: Time,
}

impl Bulk {
    /// The transfer and when it is opened.
    pub fn new(transfer: Transfer, start: Time) -> Self {
        Self { transfer, start }
    }
}

impl Application for Bulk {
    fn on_event(&mut self, _now: Time, _id: u32, event: AppEvent, actions: &mut Vec<AppAction>) {
        match event {
            AppEvent::Start => actions.push(AppAction::TimerAt(self.start)),
            AppEvent::Timer => actions.push(AppAction::Open(self.transfer)),
            AppEvent::Reached { .. } | AppEvent::Complete { .. } => {}
        }
    }
}
