//! Laws of conversations, each worked out by hand: messages both ways over connections that stay open, what each end hears of
//! them and when, and what markers, pacing, congestion control and timers make of the second message.

#[path = "conversations/documents.rs"]
mod documents;
#[path = "conversations/link.rs"]
mod link;
#[path = "conversations/messages.rs"]
mod messages;
#[path = "conversations/programs.rs"]
mod programs;
#[path = "conversations/replay.rs"]
mod replay;
#[path = "conversations/timers.rs"]
mod timers;
#[path = "conversations/together.rs"]
mod together;
