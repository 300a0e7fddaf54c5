"""Real servers and clients around emulated links: what the papers' testbeds did with machines in a room."""
