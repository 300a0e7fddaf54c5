//! Message streams of a connection, and the events that they cause at their receivers.

use catnip_base::FlowContext;
use std::collections::VecDeque;

/// Part of a stream that its sender writes at once and that forms a unit: a request, a document, a keystroke. A simulated peer receives the
/// boundary of the message from the engine; an external peer finds it in the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Message {
    /// Length, bytes. An empty message needs no packet and is delivered as soon as all messages before it are delivered. The papers use
    /// such requests, which take no time.
    pub bytes: u64,
    /// Tag chosen by the sender; a response has the tag of its request.
    pub tag: u64,
    /// Length of the requested response, bytes.
    pub response_bytes: u64,
    /// Information on the message for the sender's TCP.
    pub context: Option<FlowContext>,
}

/// Message as delivered to the receiving application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// Bytes received: the whole message, unless an external sender has aborted it.
    pub bytes: u64,
    /// Tag chosen by the sender.
    pub tag: u64,
    /// Length of the requested response, bytes.
    pub response_bytes: u64,
}

/// Stream of messages from one end of a connection to the other.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Bytes written so far.
    written: u64,
    /// End of the messages that have arrived completely.
    delivered: u64,
    /// First message that has not arrived completely. Stored outside the list, since most connections carry a single message and need no
    /// list.
    first: Option<PendingMessage>,
    /// Messages after the first.
    rest: VecDeque<PendingMessage>,
    /// Stream offset at which the receiver has requested a progress event.
    notify_at: Option<u64>,
    /// True once the sender has closed the stream; the receiver may not have been notified yet.
    pub(crate) closed: bool,
    /// True once the receiver was notified of the close, after all data.
    close_reported: bool,
    /// True once the receiver was notified that the connection is open, or if the receiver has not requested this event.
    open_reported: bool,
    /// Number of unsent bytes below which the sender has requested a notification.
    low_water: Option<u64>,
}

/// Message that has not arrived completely.
#[derive(Clone, Copy, Debug)]
struct PendingMessage {
    end: u64,
    message: ReceivedMessage,
}

/// Event for the application at an end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum StreamEvent {
    /// Opening of the connection.
    Open,
    /// Complete message.
    Message(ReceivedMessage),
    /// Arrival of the requested number of bytes of the message with this tag.
    Progress(u64),
    /// Close of the peer's stream.
    PeerClosed,
}

impl Stream {
    /// Returns an empty stream; `reports_open` is true if the receiver requests the event of the open connection.
    pub(crate) fn new(reports_open: bool) -> Self {
        Self { open_reported: !reports_open, ..Self::default() }
    }

    /// Appends a message.
    pub(crate) fn push(&mut self, message: &Message) {
        let &Message { bytes, tag, response_bytes, .. } = message;
        self.written += bytes;
        let pending =
            PendingMessage { end: self.written, message: ReceivedMessage { bytes, tag, response_bytes } };
        if self.first.is_none() {
            self.first = Some(pending);
        } else {
            self.rest.push_back(pending);
        }
    }

    /// Requests a progress event for the receiver once `bytes` of the next message have arrived.
    pub(crate) fn notify(&mut self, bytes: u64) {
        self.notify_at = Some(self.delivered.saturating_add(bytes));
    }

    /// Requests a notification of the sender once fewer than `bytes` bytes are still unsent, not counting retransmissions.
    pub(crate) fn notify_drained(&mut self, bytes: u64) {
        self.low_water = Some(bytes);
    }

    /// Returns true if the sender waits for the notification that [`Stream::notify_drained`] requests.
    #[inline]
    pub(crate) fn awaits_drain(&self) -> bool {
        self.low_water.is_some()
    }

    /// Returns true if the data before `end` has been sent and fewer bytes are unsent than the sender has requested. Returns true only once
    /// per request.
    pub(crate) fn is_drained(&mut self, end: u64) -> bool {
        let unsent = self.written - end.min(self.written);
        self.low_water.take_if(|low_water| unsent < *low_water).is_some()
    }

    /// Returns the number of received bytes at which the next event is due.
    pub(crate) fn next_event_at(&self) -> u64 {
        if !self.open_reported {
            return 0;
        }
        let message_end = self.first.map_or(u64::MAX, |first| first.end);
        self.notify_at.map_or(message_end, |at| at.min(message_end))
    }

    /// Returns the number of bytes of the next message that have arrived, given the bytes `received` in total.
    pub(crate) fn arrived(&self, received: u64) -> u64 {
        received - self.delivered
    }

    /// Returns the next event due, given the bytes `received` in total. `open` is true if the connection is open for the receiver. `ended`
    /// is true if the close of the stream may be reported after the last byte of the stream.
    pub(crate) fn next_event(&mut self, received: u64, open: bool, ended: bool) -> Option<StreamEvent> {
        let due = self.first.filter(|first| first.end <= received);
        if !self.open_reported && (open || due.is_some()) {
            self.open_reported = true;
            return Some(StreamEvent::Open);
        }
        if let Some(PendingMessage { end, message }) = due {
            self.first = self.rest.pop_front();
            self.delivered = end;
            self.notify_at = None;
            return Some(StreamEvent::Message(message));
        }
        if let Some(first) = &self.first
            && self.notify_at.take_if(|at| *at <= received).is_some()
        {
            return Some(StreamEvent::Progress(first.message.tag));
        }
        if ended && received >= self.written && !self.close_reported {
            self.close_reported = true;
            return Some(StreamEvent::PeerClosed);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: u64, tag: u64) -> ReceivedMessage {
        ReceivedMessage { bytes, tag, response_bytes: 0 }
    }

    impl Stream {
        fn push_message(&mut self, ReceivedMessage { bytes, tag, response_bytes }: ReceivedMessage) {
            self.push(&Message { bytes, tag, response_bytes, context: None });
        }
    }

    /// Returns all events due once `received` bytes have arrived.
    fn due_events(stream: &mut Stream, received: u64) -> Vec<StreamEvent> {
        std::iter::from_fn(|| stream.next_event(received, true, stream.closed)).collect()
    }

    #[test]
    fn messages_are_heard_in_order_as_their_last_bytes_arrive() {
        let mut stream = Stream::default();
        let (a, b, c) = (message(100, 1), message(0, 2), message(50, 3));
        [a, b, c].into_iter().for_each(|it| stream.push_message(it));
        assert_eq!((due_events(&mut stream, 99), stream.next_event_at()), (vec![StreamEvent::Open], 100));
        // An empty message is delivered with the message before it.
        assert_eq!(due_events(&mut stream, 120), [StreamEvent::Message(a), StreamEvent::Message(b)]);
        assert_eq!(stream.next_event_at(), 150);
        assert_eq!(due_events(&mut stream, 150), [StreamEvent::Message(c)]);
        assert_eq!(stream.next_event_at(), u64::MAX);
    }

    #[test]
    fn progress_is_told_once_and_never_of_what_has_arrived_whole() {
        let mut stream = Stream::default();
        stream.push_message(message(1000, 7));
        stream.notify(300);
        assert_eq!(due_events(&mut stream, 299), [StreamEvent::Open]);
        assert_eq!(
            (stream.next_event_at(), due_events(&mut stream, 300)),
            (300, vec![StreamEvent::Progress(7)])
        );
        assert_eq!(due_events(&mut stream, 999), []);
        stream.push_message(message(1000, 8));
        stream.notify(1500);
        let first = StreamEvent::Message(message(1000, 7));
        assert_eq!(due_events(&mut stream, 1000), [first], "it was of this message that more was asked");
        stream.notify(100);
        assert_eq!(due_events(&mut stream, 1100), [StreamEvent::Progress(8)]);
        stream.notify(100);
        assert_eq!(due_events(&mut stream, 2000), [StreamEvent::Message(message(1000, 8))]);
        assert_eq!(due_events(&mut stream, 3000), [], "nothing is left of it");
    }

    #[test]
    fn a_request_for_progress_ends_with_the_message_that_it_was_made_for() {
        let mut stream = Stream::default();
        stream.push_message(message(1000, 7));
        stream.push_message(message(1000, 8));
        stream.notify(1500);
        assert_eq!(
            due_events(&mut stream, 1000),
            [StreamEvent::Open, StreamEvent::Message(message(1000, 7))],
            "the request was for more than the message has"
        );
        assert_eq!(stream.next_event_at(), 2000);
        assert_eq!(due_events(&mut stream, 1999), [], "nothing was requested of the second message");
    }

    #[test]
    fn an_opening_is_delivered_before_all_data_even_where_the_data_opens_the_connection() {
        let mut stream = Stream::new(true);
        let m = message(100, 1);
        stream.push_message(m);
        assert_eq!(stream.next_event_at(), 0, "the opening needs no data");
        assert_eq!(stream.next_event(99, false, false), None, "neither open nor complete");
        // A message that has arrived shows that the connection is open.
        assert_eq!(stream.next_event(100, false, false), Some(StreamEvent::Open));
        assert_eq!(stream.next_event(100, false, false), Some(StreamEvent::Message(m)));
        assert_eq!(stream.next_event(100, true, false), None, "the opening was told");
        // A receiver that has not requested the event gets the message at once.
        let mut stream = Stream::new(false);
        stream.push_message(m);
        assert_eq!(stream.next_event(100, true, false), Some(StreamEvent::Message(m)));
    }

    #[test]
    fn a_stream_is_drained_once_when_fewer_bytes_than_asked_are_unsent() {
        let mut stream = Stream::default();
        stream.push_message(message(1000, 7));
        assert!(!stream.awaits_drain() && !stream.is_drained(950), "no notification is requested");
        stream.push_message(message(1000, 8));
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
        stream.push_message(message(10, 1));
        stream.closed = true;
        assert_eq!(due_events(&mut stream, 9), [StreamEvent::Open]);
        assert_eq!(
            due_events(&mut stream, 10),
            [StreamEvent::Message(message(10, 1)), StreamEvent::PeerClosed]
        );
        assert_eq!(due_events(&mut stream, 10), []);
    }
}
