use crate::socket::padding;
use catnip_sim::Message;
use std::collections::VecDeque;

/// Messages that a simulated client has sent to an external echo server, and the progress of their echoes.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    /// Messages whose echo is not complete, oldest first.
    pending: VecDeque<Message>,
    /// Number of bytes that have arrived of the oldest incomplete echo.
    current: u64,
    /// Number of bytes of all echoes that have arrived.
    total: u64,
    /// True if a byte of an echo differed from the byte that was sent.
    is_corrupted: bool,
}

impl Echo {
    pub(crate) fn send(&mut self, message: Message) {
        self.pending.push_back(message);
    }

    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        let expected = (self.total..).map(padding);
        self.is_corrupted |= bytes.iter().zip(expected).any(|(byte, expected)| *byte != expected);
        self.total += bytes.len() as u64;
        self.current += bytes.len() as u64;
    }

    /// Returns the oldest message if its echo is complete, and true if all bytes so far came back unchanged.
    pub(crate) fn next_response(&mut self) -> Option<(Message, bool)> {
        let first = self.pending.front().filter(|first| first.response_bytes <= self.current)?;
        self.current -= first.response_bytes;
        self.pending.pop_front().map(|message| (message, !self.is_corrupted))
    }

    /// Returns the number of bytes that have arrived of the oldest incomplete echo, and of all echoes.
    pub(crate) fn arrived(&self) -> [u64; 2] {
        [self.current, self.total]
    }

    /// Discards the messages without a complete echo and returns their number.
    pub(crate) fn abandon(&mut self) -> usize {
        self.pending.drain(..).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_must_be_what_was_said() {
        let message = |tag| Message { bytes: 3, response_bytes: 3, tag, context: None };
        let mut echo = Echo::default();
        echo.send(message(1));
        echo.send(message(2));
        echo.receive(b"ab");
        assert_eq!(echo.next_response(), None);
        echo.receive(b"cd");
        assert_eq!((echo.next_response(), echo.next_response()), (Some((message(1), true)), None));
        echo.receive(b"?f");
        assert_eq!(echo.next_response(), Some((message(2), false)));
    }
}
