//! Observations of a run: counts, captures, logs, and the certificate that judges how exact the emulation was.

pub mod capture;
pub mod certificate;
mod chunks;
pub mod counts;
mod layout;
pub mod log;
pub mod monitor;
pub mod report;
