//! Tests of the simulated world.

mod conversations;
mod pages;
mod world;
