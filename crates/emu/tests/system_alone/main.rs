//! Tests of links and routers between real programs in namespaces of this machine. The tests measure time, so they run one after the other.
//! Where TUN devices or namespaces are missing, they report that they are skipped.

mod link;
mod options;
#[path = "../replay/mod.rs"]
mod replay;
mod router;
#[path = "../skip/mod.rs"]
mod skip;
