use catnip_base::FlowContext;
use std::collections::VecDeque;

/// Range of the stream that the application wrote in one call, with its context.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Message {
    /// Start of the message.
    pub(crate) start: u64,
    /// End of the message (exclusive).
    pub(crate) end: u64,
    pub(crate) context: Option<FlowContext>,
}

/// Messages of a stream, except those that are completely acknowledged.
///
/// The oldest message is stored outside of the list. Most connections carry one message, so that their list is empty.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    oldest: Message,
    later: VecDeque<Message>,
}

impl Messages {
    /// Appends a message, and discards the messages that end at or below `snd_una`.
    pub(crate) fn push(&mut self, message: Message, snd_una: u64) {
        while self.oldest.end <= snd_una
            && let Some(next) = self.later.pop_front()
        {
            self.oldest = next;
        }
        if self.oldest.end <= snd_una {
            self.oldest = message;
        } else {
            self.later.push_back(message);
        }
    }

    /// Returns the message that contains byte `seq`, or the last message if `seq` is beyond its end.
    #[inline]
    pub(crate) fn at(&self, seq: u64) -> &Message {
        if seq < self.oldest.end {
            return &self.oldest;
        }
        let later = self.later.iter().find(|message| seq < message.end);
        later.or(self.later.back()).unwrap_or(&self.oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates messages. Each pair has the length of a message and the number of bytes that were acknowledged when it was appended.
    fn written(messages: &[(u64, u64)]) -> Messages {
        let (mut all, mut start) = (Messages::default(), 0);
        for &(bytes, snd_una) in messages {
            all.push(Message { start, end: start + bytes, context: None }, snd_una);
            start += bytes;
        }
        all
    }

    #[test]
    fn a_byte_belongs_to_the_message_in_which_it_was_written() {
        let all = written(&[(10, 0), (5, 0), (20, 0)]);
        let starts = [0, 9, 10, 14, 15, 34].map(|seq| all.at(seq).start);
        assert_eq!(starts, [0, 0, 10, 10, 15, 15]);
        assert_eq!(all.at(35).start, 15, "a FIN belongs to the last one");
    }

    #[test]
    fn what_is_acknowledged_is_forgotten_when_the_next_one_comes() {
        let all = written(&[(10, 0), (5, 10), (20, 15)]);
        assert_eq!((all.oldest.start, all.later.len()), (15, 0));
        let all = written(&[(10, 0), (5, 3), (20, 12)]);
        assert_eq!((all.oldest.start, all.later.len()), (10, 1), "a part of it may be lost yet");
    }
}
