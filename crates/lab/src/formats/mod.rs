//! File formats: HAR, page files, Tmix, pcapng, qlog.

pub(crate) mod capture;
pub(crate) mod har;
pub(crate) mod logs;
pub(crate) mod site_file;
pub mod tmix;
