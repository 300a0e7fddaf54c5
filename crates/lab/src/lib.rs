//! The laboratory: scenario files, runs over all cores, and tables of results.

#![forbid(unsafe_code)]

mod bursts;
mod column;
mod define;
mod describe;
mod error;
mod files;
mod fingerprint;
mod groups;
mod har;
mod kinds;
mod logs;
pub mod memory;
mod network;
mod plan;
mod real;
mod records;
pub mod rows;
mod run;
mod scenario;
mod schema;
mod series;
mod single_flow;
mod site_file;
mod sla;
pub mod summary;
mod table;
mod tcp;
mod text;
pub mod tmix;
mod trace;
mod traffic;

pub use bursts::{Burst, Bursts};
pub use column::{Column, Columns, Heading, Texts};
pub use error::InputError;
pub use fingerprint::fingerprint;
pub use groups::WarmUp;
pub use har::{Dropped, HarPage, read_har, read_site};
pub use kinds::{Kinds, built_in};
pub use logs::{LogRequest, PacketLog, write_logs};
pub use network::NamedPorts;
pub use plan::{Group, Plan};
pub use real::{ObjectName, Paths, Protocol, RealNode, Service};
pub use records::Records;
pub use rows::{Row, TableName};
pub use run::{Progress, RunRequest, run_all};
pub use scenario::{Outline, Scenario};
pub use schema::{NOTATION, Notation, OLDER_NAME, OTHERWISE, notations, schema, schema_text};
pub use single_flow::{Marking, SingleFlow};
pub use site_file::{RecordedObject, RecordedPage, SiteFile};
pub use table::{Table, Tables};
pub use trace::{TraceRequest, TraceRow, trace};
