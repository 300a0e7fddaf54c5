//! No code: the features of other libraries that any part of the workspace asks for, asked for once.
//!
//! Cargo builds a library once for each set of features, and everything that rests on it as often. The module, the programs and
//! the tests ask for different sets, and would each build the simulator anew.

#![forbid(unsafe_code)]
