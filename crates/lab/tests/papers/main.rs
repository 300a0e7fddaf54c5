//! Tests of whole scenarios, and tests with thousands of transfers: comparisons with ns-2, and measurements for the reproductions of the
//! papers.

#[path = "../brief/mod.rs"]
mod brief;
mod components_diffserv;
#[path = "../kept/mod.rs"]
mod kept;
mod ns2_measurements;
mod ns2_tree;
mod runs;
#[path = "../scenarios/mod.rs"]
mod scenarios;
