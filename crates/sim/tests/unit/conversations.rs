//! Tests of connections with several messages, against values calculated by hand: messages in both directions over persistent connections,
//! the events of each end and their times, and the effect of markers, pacing, congestion control and timers on later messages.

mod documents;
mod link;
mod messages;
mod programs;
mod replay;
mod timers;
mod together;
