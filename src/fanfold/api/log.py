"""Lines that a node writes while it runs: one for each push, and for each failure."""

import sys
from datetime import UTC, datetime

from fanfold.live.clock import unix_ns


def log_line(text: str) -> None:
    """One line on stderr with the time; no byte of a peer can break it or colour it."""
    at = datetime.fromtimestamp(unix_ns() / 1e9, UTC)
    plain = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    line = f"{at:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + f"Z {plain}\n"
    sys.stderr.write(line)  # at once: nodes of a lab share a log
    sys.stderr.flush()
