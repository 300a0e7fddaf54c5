//! Comparison of the marking and congestion control code of the kernel programs, compiled as C for this host, with that of the simulator.

mod laws;
