"""Many that send to one at once: an aggregator of updates, an engine that prompts arrive at.

All links have one rate. Each sender begins with a window and then waits for the receiver; so
many windows minus the one that leaves meanwhile stand in the last queue. Letters: n = senders,
B = bytes of each, w = window, k = children of a rank in a tree.

    direct     n B into one link, a queue of (n - 1) min(B, w)
    tree       ranks add up k at a time: log_k(n) levels, k B into each link on the way
    folded     the network adds up: B into the link, no queue
"""

from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.work.push import send_ps


class Incast(NamedTuple):
    """One way. into_bytes: over the busiest link into a node. queue_bytes: in front of it."""

    way: str
    into_bytes: int
    queue_bytes: int
    time_ps: int


def direct(senders: int, n_bytes: int, window_bytes: int, rate_bps: int) -> Incast:
    """Each sends to the receiver itself."""
    _check(senders)
    total = senders * n_bytes
    queue = (senders - 1) * min(n_bytes, window_bytes)
    return Incast("direct", total, queue, send_ps(total, rate_bps))


def tree(
    senders: int, n_bytes: int, window_bytes: int, rate_bps: int, fan_in: int = 8
) -> Incast:
    """Through ranks that add up; levels one after the other, as whole sums."""
    _check(senders)
    if fan_in < 2:
        raise ConfigError("fan_in", fan_in, "2 or more")
    levels, reach = 0, 1
    while reach < senders:
        levels, reach = levels + 1, reach * fan_in
    k = min(fan_in, senders)
    one = direct(k, n_bytes, window_bytes, rate_bps)
    time_ps = max(levels, 1) * one.time_ps
    return Incast(f"tree of {fan_in}", one.into_bytes, one.queue_bytes, time_ps)


def folded(n_bytes: int, rate_bps: int) -> Incast:
    """Added up by the network on the way."""
    return Incast("folded", n_bytes, 0, send_ps(n_bytes, rate_bps))


def _check(senders: int) -> None:
    if senders < 1:
        raise ConfigError("senders", senders, "1 or more")
