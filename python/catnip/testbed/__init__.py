"""Real Web servers and clients around emulated links, in place of the papers' testbeds of machines."""
