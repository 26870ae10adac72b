"""Numbers that the maker of plane routes and those who look at them have alike."""

TABLE = 179
"""Kernel table of weighted routes, looked up before the main one."""
CONTROL = "planes"
"""Name of the agent's control socket in a lab's folder."""
