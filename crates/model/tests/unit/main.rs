//! The models against published values, the papers' formulas and each other.

mod check_values;
mod claims;
mod formulas;
