use super::{AppEvent, Application, Interest};
use crate::connection_spec::{CLIENT, ConnectionSpec};
use crate::host::Host;
use crate::message_stream::Message;
use catnip_base::Time;

/// Single transfer of a given size at a given time: pushed by the server or, if the client opens the connection, requested by the client.
#[derive(Debug)]
pub struct Bulk {
    spec: ConnectionSpec,
    message: Message,
    start: Time,
}

impl Bulk {
    /// Creates the transfer of a document between the ends of `spec`, over a connection opened at `start`.
    pub fn new(spec: ConnectionSpec, document: Message, start: Time) -> Self {
        Self { spec, message: document, start }
    }
}

impl Application for Bulk {
    fn interest(&self) -> Interest {
        Interest::MESSAGES
    }

    fn on_event(&mut self, event: AppEvent, host: &mut Host<'_>) {
        match event {
            AppEvent::Start => host.timer(self.start, 0),
            AppEvent::Timer(_) => {
                let conn = host.open(self.spec);
                if self.spec.opener == CLIENT {
                    host.send(conn, Message { response_bytes: self.message.bytes, ..Message::default() });
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
