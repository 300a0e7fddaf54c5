//! Scenarios, runs and results, compared with ns-2 and with values computed by hand.

mod axes;
mod background;
mod bundles;
mod bursts;
mod components;
mod ecn;
mod har;
mod har_dialects;
mod iperf;
#[path = "../kept/mod.rs"]
mod kept;
mod links;
mod logs;
mod mistakes;
mod notation;
mod ns2_traces;
mod over_time;
mod page;
#[path = "../recording/mod.rs"]
mod recording;
mod reference;
#[path = "../scenarios/mod.rs"]
mod scenarios;
mod short_scenarios;
mod tables;
mod tcp_behaviour;
mod timeline;
mod unfinished;
mod video;
mod whatever_happens;
