//! Laws of the kernel programs, compiled as C, against those of the simulator.

mod laws;
