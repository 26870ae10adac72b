"""Ports of tests that open sockets: two processes of a run may have tests of the same file."""

import os

STEP = 100


def own_port(first: int) -> int:
    """This process's own in place of ``first``."""
    return first + STEP * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
