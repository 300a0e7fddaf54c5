//! Laws of conversations, each worked out by hand: messages both ways over connections that stay open, what each end hears of
//! them and when, and what markers, pacing, congestion control and timers make of the second message.

mod documents;
mod link;
mod messages;
mod programs;
mod replay;
mod timers;
mod together;
