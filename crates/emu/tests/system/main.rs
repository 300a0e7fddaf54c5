//! Tests of whole scenarios in real time, with real programs in namespaces of this machine. Lateness fails no test. Where TUN devices or
//! namespaces are missing, the tests report that they are skipped.

mod lab;
mod life;
mod programs;
#[path = "../results/mod.rs"]
mod results;
#[path = "../../../lab/tests/scenarios/mod.rs"]
mod scenarios;
#[path = "../skip/mod.rs"]
mod skip;
