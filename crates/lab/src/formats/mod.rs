//! File formats: HAR, page files, recorded paths, Tmix, pcapng, qlog.

pub(crate) mod capture;
pub(crate) mod conversations;
pub(crate) mod har;
pub(crate) mod link_profile;
pub(crate) mod logs;
pub(crate) mod path_file;
pub(crate) mod site_file;
pub mod tmix;
