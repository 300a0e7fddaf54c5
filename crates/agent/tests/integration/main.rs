//! The laws of the kernel's programs, which a C compiler makes, beside those of the simulator.

mod laws;
