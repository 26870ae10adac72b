"""A scenario through the simulator: for each scheme a program, for each program an outcome."""
