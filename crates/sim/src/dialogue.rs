//! What is said over a connection: messages both ways, and what each end is to hear of them.

use catnip_base::FlowContext;
use std::collections::VecDeque;

/// A part of a stream that its sender hands over at once and that means something as a whole: a request, a document, a
/// keystroke. Where it ends, the simulated peer knows; a real one reads it in the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Message {
    /// Its length. A message of nothing is heard as soon as all before it is, without a packet: in the papers, a request takes
    /// no time.
    pub bytes: u64,
    /// What its sender calls it; an answer has the same.
    pub tag: u64,
    /// The length of the answer that its sender wants.
    pub asks: u64,
    /// What its sender tells TCP of it.
    pub context: Option<FlowContext>,
}

/// A message, as the program hears of it to which it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Bytes of it that have arrived: all of them, unless its sender is outside and broke off.
    pub bytes: u64,
    /// What its sender calls it.
    pub tag: u64,
    /// The length of the answer that its sender wants.
    pub asks: u64,
}

/// What one end of a connection says and the other hears: a stream of messages.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Bytes written so far.
    written: u64,
    /// End of the messages that have arrived whole.
    heard: u64,
    /// Messages that have not. The first one stands beside the list: most connections carry one message, and then there is
    /// no list.
    first: Option<Underway>,
    later: VecDeque<Underway>,
    /// The listener wants to hear when so many bytes have arrived.
    notify_at: Option<u64>,
    /// Its sender will write no more, and has said so; the listener may have yet to hear it.
    pub(crate) closed: bool,
    /// The listener has heard that, behind all that was written.
    told_closed: bool,
    /// The listener has heard that the connection is open, or does not want to.
    told_open: bool,
    /// Its sender wants to hear when fewer bytes than these have yet to be sent for the first time.
    low_water: Option<u64>,
}

/// A message that has not arrived whole.
#[derive(Clone, Copy, Debug)]
struct Underway {
    end: u64,
    message: Heard,
}

/// What there is to say to the program at an end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum News {
    /// The connection is open.
    Open,
    /// This message has arrived whole.
    Message(Heard),
    /// As many bytes as were asked for have arrived of this message.
    Progress(u64),
    /// The other end will send no more.
    PeerClosed,
}

impl Stream {
    /// Nothing is said yet. Does the listener want to hear that the connection is open?
    pub(crate) fn new(tells_open: bool) -> Self {
        Self { told_open: !tells_open, ..Self::default() }
    }

    /// The sender hands over a message.
    pub(crate) fn push(&mut self, message: &Message) {
        let &Message { bytes, tag, asks, .. } = message;
        self.written += bytes;
        let underway = Underway { end: self.written, message: Heard { bytes, tag, asks } };
        if self.first.is_none() {
            self.first = Some(underway);
        } else {
            self.later.push_back(underway);
        }
    }

    /// The listener wants to hear when so many bytes of the next message have arrived.
    pub(crate) fn notify(&mut self, bytes: u64) {
        self.notify_at = Some(self.heard.saturating_add(bytes));
    }

    /// The sender wants to hear when fewer bytes than these have yet to be sent for the first time.
    pub(crate) fn notify_drained(&mut self, bytes: u64) {
        self.low_water = Some(bytes);
    }

    /// Does the sender want to hear of that?
    #[inline]
    pub(crate) fn awaits_drain(&self) -> bool {
        self.low_water.is_some()
    }

    /// All before `end` has been sent. Is it time to say so?
    pub(crate) fn is_drained(&mut self, end: u64) -> bool {
        let unsent = self.written - end.min(self.written);
        self.low_water.take_if(|low_water| unsent < *low_water).is_some()
    }

    /// There is nothing to say before so many bytes have arrived.
    pub(crate) fn news_at(&self) -> u64 {
        if !self.told_open {
            return 0;
        }
        let whole = self.first.map_or(u64::MAX, |first| first.end);
        self.notify_at.map_or(whole, |at| at.min(whole))
    }

    /// Of the next message, how much has arrived if `received` bytes have.
    pub(crate) fn arrived(&self, received: u64) -> u64 {
        received - self.heard
    }

    /// The next thing to say, if `received` bytes have arrived on a connection that is `open` for its listener; `ended` if
    /// behind them comes nothing more.
    pub(crate) fn news(&mut self, received: u64, open: bool, ended: bool) -> Option<News> {
        let due = self.first.filter(|first| first.end <= received);
        if !self.told_open && (open || due.is_some()) {
            self.told_open = true;
            return Some(News::Open);
        }
        if let Some(Underway { end, message }) = due {
            self.first = self.later.pop_front();
            self.heard = end;
            self.notify_at = None;
            return Some(News::Message(message));
        }
        if let Some(first) = &self.first
            && self.notify_at.take_if(|at| *at <= received).is_some()
        {
            return Some(News::Progress(first.message.tag));
        }
        if ended && received >= self.written && !self.told_closed {
            self.told_closed = true;
            return Some(News::PeerClosed);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: u64, tag: u64) -> Heard {
        Heard { bytes, tag, asks: 0 }
    }

    impl Stream {
        fn says(&mut self, Heard { bytes, tag, asks }: Heard) {
            self.push(&Message { bytes, tag, asks, context: None });
        }
    }

    /// All that is to be said once so many bytes have arrived.
    fn said(stream: &mut Stream, received: u64) -> Vec<News> {
        std::iter::from_fn(|| stream.news(received, true, stream.closed)).collect()
    }

    #[test]
    fn messages_are_heard_in_order_as_their_last_bytes_arrive() {
        let mut stream = Stream::default();
        let (a, b, c) = (message(100, 1), message(0, 2), message(50, 3));
        [a, b, c].into_iter().for_each(|it| stream.says(it));
        assert_eq!((said(&mut stream, 99), stream.news_at()), (vec![News::Open], 100));
        // A message of nothing comes with the one before it.
        assert_eq!(said(&mut stream, 120), [News::Message(a), News::Message(b)]);
        assert_eq!(stream.news_at(), 150);
        assert_eq!(said(&mut stream, 150), [News::Message(c)]);
        assert_eq!(stream.news_at(), u64::MAX);
    }

    #[test]
    fn progress_is_told_once_and_never_of_what_has_arrived_whole() {
        let mut stream = Stream::default();
        stream.says(message(1000, 7));
        stream.notify(300);
        assert_eq!(said(&mut stream, 299), [News::Open]);
        assert_eq!((stream.news_at(), said(&mut stream, 300)), (300, vec![News::Progress(7)]));
        assert_eq!(said(&mut stream, 999), []);
        stream.says(message(1000, 8));
        stream.notify(1500);
        let first = News::Message(message(1000, 7));
        assert_eq!(said(&mut stream, 1000), [first], "it was of this message that more was asked");
        stream.notify(100);
        assert_eq!(said(&mut stream, 1100), [News::Progress(8)]);
        stream.notify(100);
        assert_eq!(said(&mut stream, 2000), [News::Message(message(1000, 8))]);
        assert_eq!(said(&mut stream, 3000), [], "nothing is left of it");
    }

    #[test]
    fn a_stream_is_drained_once_when_fewer_bytes_than_asked_are_unsent() {
        let mut stream = Stream::default();
        stream.says(message(1000, 7));
        assert!(!stream.awaits_drain() && !stream.is_drained(950), "nobody asked");
        stream.says(message(1000, 8));
        stream.notify_drained(300);
        assert!(stream.awaits_drain() && !stream.is_drained(1700), "300 are left");
        assert!(stream.is_drained(1701));
        assert!(!stream.awaits_drain() && !stream.is_drained(2000), "it was said");
        stream.notify_drained(1);
        assert!(stream.is_drained(2000), "all was sent before");
    }

    #[test]
    fn an_end_is_heard_behind_all_that_was_written() {
        let mut stream = Stream::default();
        stream.says(message(10, 1));
        stream.closed = true;
        assert_eq!(said(&mut stream, 9), [News::Open]);
        assert_eq!(said(&mut stream, 10), [News::Message(message(10, 1)), News::PeerClosed]);
        assert_eq!(said(&mut stream, 10), []);
    }
}
