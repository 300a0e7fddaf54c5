use crate::messages::{Message, Messages};
use catnip_base::FlowContext;

/// Data written by the application: messages, and the end of the stream if the application has ended it.
#[derive(Debug, Default)]
pub(super) struct Stream {
    written: u64,
    messages: Messages,
    /// End of the message to which the first byte of the newest segment belongs.
    message_end: u64,
    /// True if the application has ended the stream, so that a FIN follows the data.
    fin: bool,
}

impl Stream {
    /// Appends a message of `bytes` bytes, and discards messages that end at or below `snd_una`. A FIN follows the `last` message.
    pub(super) fn write(&mut self, bytes: u64, context: Option<FlowContext>, last: bool, snd_una: u64) {
        if bytes > 0 {
            let (start, end) = (self.written, self.written + bytes);
            self.messages.push(Message { start, end, context }, snd_una);
            self.written = end;
        }
        self.fin |= last;
    }

    /// Returns the end of the data.
    #[inline]
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Returns true if a FIN follows the data.
    #[inline]
    pub(super) fn has_fin(&self) -> bool {
        self.fin
    }

    /// Returns the end of the stream, including the FIN.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.written + u64::from(self.fin)
    }

    /// Returns true if all data and the FIN were sent. `snd_max` is the end of the data sent so far.
    #[inline]
    pub(super) fn is_sent(&self, snd_max: u64) -> bool {
        snd_max >= self.end()
    }

    /// Returns the number of unsent bytes of the current message, or of the next message if the current message is sent completely.
    /// `snd_max` is the end of the data sent so far.
    #[inline]
    pub(super) fn unsent(&self, snd_max: u64) -> u64 {
        self.messages.at(snd_max).end.saturating_sub(snd_max)
    }

    /// Returns the start and the context of the message to which byte `seq` belongs.
    pub(super) fn message_at(&self, seq: u64) -> (u64, Option<FlowContext>) {
        let message = self.messages.at(seq);
        (message.start, message.context)
    }

    /// Returns the end of a segment that begins at `seq`. A FIN is sent with the last data.
    #[inline]
    pub(super) fn segment_end(&self, seq: u64, segment: u64) -> u64 {
        let data_end = (seq + segment).min(self.written).max(seq);
        data_end + u64::from(self.fin && data_end == self.written)
    }

    /// Returns true if Nagle's algorithm delays a short segment. RFC 896: "inhibit the sending of new TCP segments when new outgoing data
    /// arrives from the user if any previously transmitted data on the connection remains unacknowledged." RFC 1122, section 4.2.3.4: "or
    /// until the TCP can send a full-sized segment". No data follows a FIN, so a segment with a FIN is not delayed.
    #[inline]
    pub(super) fn is_nagle_delayed(&self, snd_nxt: u64, is_unacknowledged: bool, segment: u64) -> bool {
        self.written.saturating_sub(snd_nxt) < segment && !self.fin && is_unacknowledged
    }

    /// Returns true if a segment at `seq` begins in a later message than the newest segment.
    #[inline]
    pub(super) fn begins_message(&self, seq: u64) -> bool {
        seq >= self.message_end
    }

    /// Begins the message at `seq`. Returns false if only the FIN is left.
    pub(super) fn begin_message(&mut self, seq: u64) -> bool {
        let &Message { end, .. } = self.messages.at(seq);
        if end > seq {
            self.message_end = end;
        }
        end > seq
    }
}
