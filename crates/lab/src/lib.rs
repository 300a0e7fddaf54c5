//! Laboratory: scenario files, their runs on all cores, and tables of results.

#![forbid(unsafe_code)]

mod error;
mod formats;
mod input;
mod results;
mod run;
mod scenario;
mod traffic;

pub use error::InputError;
pub use formats::capture::{CapturedBursts, read_bursts};
pub use formats::conversations::{CapturedVectors, read_vectors};
pub use formats::har::{Dropped, HarPage, read_har, read_site};
pub use formats::link_profile::LinkProfile;
pub use formats::logs::{LogFailure, LoggedRun, QlogOutput, check_capture, log_run};
#[cfg(not(target_family = "wasm"))]
pub use formats::logs::{LogRequest, PacketLog, write_logs};
pub use formats::path_file::PathFile;
pub use formats::site_file::{
    Holds, HttpVersion, Priorities, RecordedObject, RecordedPage, ResourceKind, SiteFile, SiteOptions,
};
pub use formats::tmix;
pub use results::activities::{ActivityKind, ActivityRow, ActivityTable};
pub use results::bursts::{Burst, Bursts};
pub use results::column::{Column, Columns, Heading, Texts};
pub use results::fingerprint::fingerprint;
pub use results::groups::WarmUp;
pub use results::records::Records;
pub use results::rows::{Row, TableName};
pub use results::table::{Table, Tables};
pub use results::{rows, summary};
pub use run::memory;
pub use run::timeline::{Timeline, TimelineRequest, timeline};
pub use run::trace::{TraceRequest, TraceRow, trace, trace_with_segments};
pub use run::{Progress, RunRequest, run_all, run_one};
pub use scenario::external::{ExternalNode, ObjectName, Paths, Protocol, Service};
pub use scenario::files::Bundle;
pub use scenario::kinds::{Kinds, built_in};
pub use scenario::network::NamedPorts;
pub use scenario::plan::{Group, Plan};
pub use scenario::schema::{
    DEFAULT_DESCRIPTION, NOTATION, Notation, OLDER_NAME, notations, schema, schema_text,
};
pub use scenario::single_flow::{Marking, SingleFlow};
pub use scenario::sweep::Sweep;
pub use scenario::{Outline, Scenario};
