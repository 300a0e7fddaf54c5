//! Links and routers between real programs in namespaces of this machine. They measure time, so they take turns. Where there are no TUN
//! devices or namespaces, they say so.

mod link;
mod options;
#[path = "../replay/mod.rs"]
mod replay;
mod router;
#[path = "../skip/mod.rs"]
mod skip;
