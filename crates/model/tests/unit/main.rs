//! Tests of the models against published values, printed formulas and each other.

mod check_values;
mod claims;
mod formulas;
