//! The endpoint on real Linux: programs in the kernel mark what leaves a host, hear from applications what they know of their documents,
//! and control congestion. Everything ends with the process that has started it.

pub mod check;
pub mod kernel;
pub mod policy;
pub mod segments;
pub mod serve;
pub mod settings;
pub mod state;
pub mod statistics;
mod sys;

#[allow(clippy::all, missing_docs, unreachable_pub, non_camel_case_types, dead_code)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/agent.skel.rs"));
}
