//! Tables of results: declared by rows, filled by runs, summarized by traffic group.

pub(crate) mod activities;
pub(crate) mod bursts;
mod catalogue;
pub(crate) mod column;
pub(crate) mod fingerprint;
pub(crate) mod groups;
pub(crate) mod records;
pub mod rows;
pub(crate) mod series;
pub mod summary;
pub(crate) mod table;
