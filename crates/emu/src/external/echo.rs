use crate::socket::filling;
use catnip_sim::Message;
use std::collections::VecDeque;

/// What a simulated client has said to a real server that repeats all it hears, and what has come back.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    /// What has not come back whole.
    awaited: VecDeque<Message>,
    /// Bytes of the first of them that have.
    received: u64,
    /// Bytes that have come back in all.
    place: u64,
    /// One of them was another one than was sent.
    strange: bool,
}

impl Echo {
    pub(crate) fn say(&mut self, message: Message) {
        self.awaited.push_back(message);
    }

    pub(crate) fn hear(&mut self, bytes: &[u8]) {
        let expected = (self.place..).map(filling);
        self.strange |= bytes.iter().zip(expected).any(|(byte, expected)| *byte != expected);
        self.place += bytes.len() as u64;
        self.received += bytes.len() as u64;
    }

    /// The next message that has come back, and whether it is the same.
    pub(crate) fn answer(&mut self) -> Option<(Message, bool)> {
        let first = self.awaited.front().filter(|first| first.asks <= self.received)?;
        self.received -= first.asks;
        self.awaited.pop_front().map(|message| (message, !self.strange))
    }

    /// Bytes that have come back: of the first message that has not come back whole, and in all.
    pub(crate) fn arrived(&self) -> [u64; 2] {
        [self.received, self.place]
    }

    /// What has not come back, which is given up.
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
        echo.hear(b"ab");
        assert_eq!(echo.answer(), None);
        echo.hear(b"cd");
        assert_eq!((echo.answer(), echo.answer()), (Some((said(1), true)), None));
        echo.hear(b"?f");
        assert_eq!(echo.answer(), Some((said(2), false)));
    }
}
