"""What each fan takes of links that many share, where queues are bounded.

The ranks of a collective know how many of them send to one host, as ranks of NCCL or MPI do.
Without that the first windows of all would meet in one queue. Letters: H = receivers, M =
links of the longest path, L = links.
"""

from typing import NamedTuple

import numpy as np

from fanfold.scenario.settings import Settings
from fanfold.schemes.program import NO_TREE
from fanfold.sim.fan_crowd import Part, Roads
from fanfold.sim.fan_sizes import fan_head_bytes
from fanfold.sim.loop.ways import NONE
from fanfold.topo.byte_time import byte_times

PER_MILLE = 990
"""Of its share that a fan takes: words come over the same links."""


class Share(NamedTuple):
    """Rate of a fan, and how long its source waits so that senders take turns."""

    bps: int
    wait_ps: int


def shares(roads: Roads, parts: list[Part], settings: Settings) -> list[Share]:
    """Of each part: its link's rate where queues have no limit, else a share of its way.

    Half of its receivers or more can take so much: those behind slower links get a lane.
    """
    net = roads.net
    own = [Share(int(net.bps[part.nic]), 0) for part in parts]
    if settings.queue_bytes == 0 or not parts:
        return own
    paths = [roads.path(part) for part in parts]
    sources = sorted({part.fan.source for part in parts})
    place = {source: turn for turn, source in enumerate(sources)}
    used = np.concatenate(
        [
            np.unique(path[path != NONE]).astype(np.int64) * len(sources)
            + place[part.fan.source]
            for part, path in zip(parts, paths, strict=True)
        ]
    )
    n_on = np.bincount(np.unique(used) // len(sources), minlength=net.n_links)
    times = byte_times(net)
    found = []
    for part, path, (bps, _) in zip(parts, paths, own, strict=True):
        share = np.where(path == NONE, bps, net.bps[path] // np.maximum(n_on[path], 1))
        worst = share.min(axis=1)
        host = int(np.argsort(worst, kind="stable")[(worst.size - 1) // 2])
        if worst[host] >= bps:
            found.append(Share(bps, 0))
            continue
        link = int(path[host, np.argmin(share[host])])
        turn = place[part.fan.source] % int(n_on[link])
        is_tree = part.fan.tree != NO_TREE
        full = settings.payload_bytes + fan_head_bytes(settings, is_tree=is_tree)
        wait_ps = turn * int(times.at(slice(link, link + 1), full)[0])
        found.append(Share(int(worst[host]) * PER_MILLE // 1000, wait_ps))
    return found
