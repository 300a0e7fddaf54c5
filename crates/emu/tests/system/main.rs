//! Whole scenarios in real time, with real programs in namespaces of this machine; being late fails none of them. Where there are
//! no TUN devices or namespaces, they say so.

mod lab;
mod life;
mod programs;
#[path = "../results/mod.rs"]
mod results;
#[path = "../../../lab/tests/scenarios/mod.rs"]
mod scenarios;
#[path = "../skip/mod.rs"]
mod skip;
