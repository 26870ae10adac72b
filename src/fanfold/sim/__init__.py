"""The compiled discrete-event simulator: packets, trains of packets, and fluid flows."""
