use crate::socket::filling;
use catnip_sim::Message;
use std::collections::VecDeque;

/// Messages that a simulated client has sent to an external echo server, and the progress of their echoes.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    /// Messages without a complete echo.
    awaited: VecDeque<Message>,
    /// Number of bytes of the first awaited echo that have arrived.
    received: u64,
    /// Number of bytes that have arrived in total.
    place: u64,
    /// True if a byte has come back changed.
    strange: bool,
}

impl Echo {
    pub(crate) fn say(&mut self, message: Message) {
        self.awaited.push_back(message);
    }

    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        let expected = (self.place..).map(filling);
        self.strange |= bytes.iter().zip(expected).any(|(byte, expected)| *byte != expected);
        self.place += bytes.len() as u64;
        self.received += bytes.len() as u64;
    }

    /// Returns the next message whose echo is complete, and true if all bytes so far came back unchanged.
    pub(crate) fn answer(&mut self) -> Option<(Message, bool)> {
        let first = self.awaited.front().filter(|first| first.asks <= self.received)?;
        self.received -= first.asks;
        self.awaited.pop_front().map(|message| (message, !self.strange))
    }

    /// Returns the number of bytes that have arrived: of the first incomplete echo, and in total.
    pub(crate) fn arrived(&self) -> [u64; 2] {
        [self.received, self.place]
    }

    /// Discards the messages without a complete echo and returns their number.
    pub(crate) fn give_up(&mut self) -> usize {
        self.awaited.drain(..).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_must_be_what_was_said() {
        let said = |tag| Message { bytes: 3, asks: 3, tag, context: None };
        let mut echo = Echo::default();
        echo.say(said(1));
        echo.say(said(2));
        echo.receive(b"ab");
        assert_eq!(echo.answer(), None);
        echo.receive(b"cd");
        assert_eq!((echo.answer(), echo.answer()), (Some((said(1), true)), None));
        echo.receive(b"?f");
        assert_eq!(echo.answer(), Some((said(2), false)));
    }
}
