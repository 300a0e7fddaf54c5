use super::{AppEvent, Application, Wants};
use crate::dialogue::Message;
use crate::host::Host;
use crate::parties::{CLIENT, Parties};
use catnip_base::Time;

/// Single transfer of a given size at a given time: pushed by the server or, if the client opens the connection, requested by the client.
#[derive(Debug)]
pub struct Bulk {
    parties: Parties,
    message: Message,
    start: Time,
}

impl Bulk {
    /// Returns the transfer of a document between these parties, over a connection opened at `start`.
    pub fn new(parties: Parties, document: Message, start: Time) -> Self {
        Self { parties, message: document, start }
    }
}

impl Application for Bulk {
    fn wants(&self) -> Wants {
        Wants::MESSAGES
    }

    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        match event {
            AppEvent::Start => host.timer(self.start, 0),
            AppEvent::Timer(_) => {
                let conn = host.open(self.parties);
                if self.parties.opener == CLIENT {
                    host.send(conn, Message { asks: self.message.bytes, ..Message::default() });
                } else {
                    host.send(conn, self.message);
                    host.close(conn);
                }
            }
            AppEvent::Message { conn, .. } => host.close(conn),
            _ => {}
        }
    }
}
