//! Analytical models of TCP: rates of long transfers and latencies of short transfers for a given loss probability and path. Every function
//! is pure; the sampling functions receive a random number generator.
//!
//! # Sources
//!
//! | name here | paper |
//! | --- | --- |
//! | hysteresis paper | "An accurate stochastic model for short-lived TCP flows", with the partial-CATNIP extension |
//! | WZK | Wang, Zhang, Keshav, "Understanding end-to-end performance" |
//! | PFTK | Padhye, Firoiu, Towsley, Kurose, "Modeling TCP throughput", SIGCOMM 1998; "Modeling TCP Reno performance", ToN 2000 |
//! | Cardwell-98 | Cardwell, Savage, Anderson, "Modeling the performance of short TCP connections", 1998 |
//! | Cardwell-00 | Cardwell, Savage, Anderson, "Modeling TCP latency", INFOCOM 2000 |
//! | Sikdar | Sikdar, Kalyanaraman, Vastola, "Analytic models for the latency and steady-state throughput of TCP", 2001, 2003 |
//! | Mathis | Mathis, Semke, Mahdavi, Ott, "The macroscopic behavior of the TCP congestion avoidance algorithm", 1997 |
//! | RFC 5348, RFC 9438 | TFRC; CUBIC |
//!
//! # Conventions
//!
//! Times are in seconds, windows and sizes in full packets, rates in packets per second. Every transmission of a data packet is lost
//! independently with the loss probability `p`; `0 <= p < 1`. The names of times end in their unit (`_s`). Latencies are measured from the
//! first packet sent to the ACK of the last packet; they exclude the connection set-up ([`terms::handshake`]).
//!
//! The documentation of an item states if its formula is a reconstruction, or if an edge case is defined here and not in a paper.
//! [`MODELS`] lists every model with its name, parameters and quantities.

#![forbid(unsafe_code)]

mod cardwell00;
mod cardwell98;
mod check;
mod error;
mod hysteresis;
mod model_c;
mod padhye;
mod partial_catnip;
mod path;
mod recursive;
mod registry;
mod sikdar;
pub mod terms;
mod throughput;
mod wzk;

pub use cardwell00::{Cardwell00, cardwell00};
pub use cardwell98::{Cardwell98, cardwell98};
pub use error::ModelError;
pub use hysteresis::{Cycle, Hysteresis, Moments, Options, Rule};
pub use model_c::{ModelC, model_c};
pub use padhye::padhye_latency;
pub use partial_catnip::PartialCatnip;
pub use path::Path;
pub use recursive::recursive_short_flow;
pub use registry::{MODELS, Model, Parameter, Quantity, ResultKind, by_name};
pub use sikdar::{
    SikdarThreeCase, sikdar_empirical, sikdar_grow, sikdar_packets, sikdar_rounds, sikdar_threecase,
};
pub use throughput::{
    Cubic, Rate, cubic, mathis, pftk_approx, pftk_full, pftk_td_only, pftk_throughput, tfrc_rfc5348,
};
pub use wzk::{Chain, WzkNew, round_trip_loss, wzk_new};
