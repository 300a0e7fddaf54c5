use crate::messages::{Message, Messages};
use catnip_base::FlowContext;

/// What the application has handed over: bytes in messages, and perhaps an end.
#[derive(Debug, Default)]
pub(super) struct Stream {
    written: u64,
    messages: Messages,
    /// Where the message ends in which the newest segment begins.
    message_end: u64,
    /// No more will be; the end is announced with a FIN.
    fin: bool,
}

impl Stream {
    /// One more message; what lies before `una` is needed no more. After a `last` one, a FIN.
    pub(super) fn write(&mut self, bytes: u64, context: Option<FlowContext>, last: bool, una: u64) {
        if bytes > 0 {
            let (start, end) = (self.written, self.written + bytes);
            self.messages.push(Message { start, end, context }, una);
            self.written = end;
        }
        self.fin |= last;
    }

    /// Behind the last byte of data.
    #[inline]
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Behind the last byte, or the FIN.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.written + u64::from(self.fin)
    }

    /// Was everything sent, if everything before `max` was?
    #[inline]
    pub(super) fn is_sent(&self, max: u64) -> bool {
        max >= self.end()
    }

    /// Bytes never sent of the message that is being sent, or comes next.
    #[inline]
    pub(super) fn unsent(&self, max: u64) -> u64 {
        self.messages.at(max).end.saturating_sub(max)
    }

    /// Of the message to which a byte belongs: where it begins, and what the application said about it.
    pub(super) fn message_at(&self, seq: u64) -> (u64, Option<FlowContext>) {
        let message = self.messages.at(seq);
        (message.start, message.context)
    }

    /// Behind the last byte of a segment that begins here; a FIN goes with the last data.
    #[inline]
    pub(super) fn segment_end(&self, seq: u64, segment: u64) -> u64 {
        let data_end = (seq + segment).min(self.written).max(seq);
        data_end + u64::from(self.fin && data_end == self.written)
    }

    /// RFC 896: "inhibit the sending of new TCP segments when new outgoing data arrives from the user if any previously
    /// transmitted data on the connection remains unacknowledged." RFC 1122, section 4.2.3.4: "or until the TCP can send a
    /// full-sized segment". A FIN says that no more will come.
    #[inline]
    pub(super) fn waits_for_more(&self, next: u64, is_unacknowledged: bool, segment: u64) -> bool {
        self.written.saturating_sub(next) < segment && !self.fin && is_unacknowledged
    }

    /// Does a segment that begins here begin in another message than the newest?
    #[inline]
    pub(super) fn begins_message(&self, seq: u64) -> bool {
        seq >= self.message_end
    }

    /// One that does leaves. False: only a FIN is left.
    pub(super) fn begin_message(&mut self, seq: u64) -> bool {
        let &Message { end, .. } = self.messages.at(seq);
        if end > seq {
            self.message_end = end;
        }
        end > seq
    }
}
