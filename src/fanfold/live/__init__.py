"""Real sockets, clocks and processes around the core."""
