//! Links, routers and whole scenarios in real time, between real programs in namespaces of this machine. They measure time, so they
//! take turns. Where there are no TUN devices or namespaces, they say so.

mod lab;
mod life;
mod link;
mod options;
mod programs;
#[path = "../replay/mod.rs"]
mod replay;
#[path = "../results/mod.rs"]
mod results;
mod router;
#[path = "../../../lab/tests/scenarios/mod.rs"]
mod scenarios;
#[path = "../skip/mod.rs"]
mod skip;
