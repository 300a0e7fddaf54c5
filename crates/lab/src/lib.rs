//! The laboratory: scenario files, runs over all cores, and tables of results.

#![forbid(unsafe_code)]

mod error;
mod fingerprint;
mod notation;
mod plan;
mod real;
mod run;
mod scenario;
mod single_flow;
mod table;
mod trace;

pub use error::InputError;
pub use fingerprint::fingerprint;
pub use notation::{QUEUES, RateText, control, jitter, loss, marker, pacing, queue, rate, recovery};
pub use plan::Plan;
pub use real::{Group, ObjectName, Paths, RealNode, Service};
pub use run::{Progress, RunRequest, TableName, run_all};
pub use scenario::Scenario;
pub use single_flow::{Marking, SingleFlow};
pub use table::{Column, Table};
pub use trace::{TraceRequest, TraceRow, trace};
