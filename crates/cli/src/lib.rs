//! The command lines of our programs: their help, their errors and what they print, in the style of `catnip`, as a part of which they are
//! mostly started.

#![forbid(unsafe_code)]

pub mod failure;
pub mod help;
pub mod out;
pub mod text;
