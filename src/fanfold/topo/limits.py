"""How large nets may be."""

MAX_HOSTS = 2**17
MAX_CABLES = 2**22
MAX_ROUTERS = 8192
"""Of a direct network, where every host is a group of its own."""
MAX_K = 64
"""Ports of a switch of a fat tree."""
