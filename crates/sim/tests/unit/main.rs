//! Tests of the simulated world.

mod conversations;
mod diffserv;
mod pages;
mod world;
