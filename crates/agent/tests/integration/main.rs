//! Comparison of the laws of the kernel programs, compiled as C, with those of the simulator.

mod laws;
