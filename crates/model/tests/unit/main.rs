//! Tests of the models against published values, printed formulas and each other.
#![allow(
    clippy::disallowed_methods,
    reason = "formulas are checked with functions that the models do not use"
)]

mod check_values;
mod claims;
mod formulas;
