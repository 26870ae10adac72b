"""Queue pairs of messages over planes: what each carries, and by which links.

draft-xu-rtgwg-fare-in-sun section 3. A pair of hosts has queue pairs in every plane that leads
from one to the other, and what a plane carries follows path bandwidth. flows (3.1): queue pairs
for each sub-port, each with an entropy of its own, so that a plane's part is even over them and
each keeps one path. packets (3.2): one queue pair a plane, packet by packet over all paths.

Shares are dealt in whole packets: of N packets and weights w of sum W the one from c to c + w
has (N (c + w) + p) // W - (N c + p) // W of them, where p picks who has what is left over.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from math import lcm
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.scenario.settings import Settings
from fanfold.streams import stream_key
from fanfold.topo.net import Net
from fanfold.topo.path_weights import shares, to_integers
from fanfold.topo.plane_paths import AUTO, PlanePaths, planes_asked
from fanfold.topo.routes import Routes

I64 = NDArray[np.int64]
NO_LINK = -1
_MASK = 2**64 - 1


class Lane(NamedTuple):
    """One link by which a queue pair sends.

    weight: of its part. path: number that picks its paths. last: link into its receiver, where
    its end has the address of a sub-port; NO_LINK: by path.
    """

    nic: int
    pair: int
    weight: int
    path: int
    last: int


class Dealt(NamedTuple):
    """Streams of messages, (S,) each, in the order of messages.

    owner: message. n_pkts: packets, at least one. nic, pair, path, last: of its lane; pairs
    count over all. first, n: streams of the same queue pair and message.
    """

    owner: I64
    n_pkts: I64
    nic: I64
    pair: I64
    path: I64
    last: I64
    first: I64
    n: I64


class QueuePairs:
    """Queue pairs of all pairs of hosts of a net as it stands."""

    def __init__(self, net: Net, routes: Routes, settings: Settings, seed: int) -> None:
        self.net, self.settings = net, settings
        self.planes = planes_asked(settings.planes or AUTO, net) or ()
        self._paths = PlanePaths(net, routes)
        self._key = stream_key(seed, "sim/queue-pairs") & _MASK
        self._known: dict[tuple[int, int], list[Lane]] = {}
        self._ports: dict[tuple[int, int], list[int]] = {}
        self._n_pairs = 0

    def lanes(self, src: int, dst: int) -> list[Lane]:
        """Links and weights of a pair of hosts.

        Raises:
            ConfigError: no plane leads from one to the other.
        """
        found = self._known.get((src, dst))
        if found is None:
            found = self._known[src, dst] = self._built(src, dst)
        return found

    def phase(self, src: int, dst: int, turn: int) -> int:
        """Which queue pairs have what a message does not share out evenly."""
        return _mixed(self._code(src, dst) + turn)

    def _built(self, src: int, dst: int) -> list[Lane]:
        carried = dict(self._paths.bps_of(src, dst, self.planes))
        if not carried:
            ends = f"{self.net.node_name(src)} to {self.net.node_name(dst)}"
            raise ConfigError(
                "receiver", f"no plane from {ends}", "hosts with a plane in common"
            )
        by_plane = {plane: self._of_plane(src, dst, plane) for plane in carried}
        planes = [plane for plane, row in by_plane.items() if row]
        if not planes:
            ends = f"{self.net.node_name(src)} to {self.net.node_name(dst)}"
            raise ConfigError(
                "settings.bound_pairs", ends, "sub-ports that are up at both ends"
            )
        weights = _weights(tuple(carried[plane] for plane in planes))
        rows = [by_plane[plane] for plane in planes]
        each = lcm(*(len(row) for row in rows))
        return [
            Lane(nic, pair, weight * (each // len(row)), path, last)
            for weight, row in zip(weights, rows, strict=True)
            for nic, pair, path, last in row
        ]

    def _of_plane(self, src: int, dst: int, plane: int) -> list[tuple[int, int, int, int]]:
        """First link, queue pair, path and last link of each lane of one plane."""
        net, code = self.net, self._code(src, dst) + plane
        every, ends = self._legs(src, plane), self._legs(dst, plane)
        live = [at for at in every if net.is_up[at]]
        if self.settings.routing == "packets":
            pair = self._new_pair()
            return [(nic, pair, _mixed(code) >> 33, NO_LINK) for nic in live]
        rows = []
        for q in range(len(every) * self.settings.queue_pairs):
            drawn = _mixed(code + (q + 1) * 0x9E3779B97F4A7C15)
            nic, last = live[drawn % len(live)], NO_LINK
            if self.settings.bound_pairs:
                nic, end = every[q % len(every)], ends[q % len(ends)]
                if not (net.is_up[nic] and net.is_up[end]):
                    continue
                last = int(net.reverse[end])
            rows.append((nic, self._new_pair(), drawn >> 33, last))
        return rows

    def _legs(self, host: int, plane: int) -> list[int]:
        """Links of a host in a plane, those that are down too."""
        if (host, plane) not in self._ports:
            first, end = int(self.net.first_out[host]), int(self.net.first_out[host + 1])
            (mine,) = np.nonzero(self.net.plane[first:end] == plane)
            self._ports[host, plane] = (first + mine).tolist()
        return self._ports[host, plane]

    def _new_pair(self) -> int:
        self._n_pairs += 1
        return self._n_pairs - 1

    def _code(self, src: int, dst: int) -> int:
        return _mixed((src * self.net.n_hosts + dst) << 8 ^ self._key)


@lru_cache(maxsize=1 << 12)
def _weights(carried: tuple[int, ...]) -> tuple[int, ...]:
    return to_integers(shares([Fraction(bps) for bps in carried]))


def deal_messages(pairs: QueuePairs, src: I64, dst: I64, n_pkts: I64) -> Dealt:
    """All messages, (F,) each, dealt to queue pairs by whole packets."""
    turn: dict[tuple[int, int], int] = defaultdict(int)
    rows: list[tuple[int, ...]] = []
    for f, (a, b, n) in enumerate(
        zip(src.tolist(), dst.tolist(), n_pkts.tolist(), strict=True)
    ):
        lanes = pairs.lanes(a, b)
        counts = counts_of(n, [lane.weight for lane in lanes], pairs.phase(a, b, turn[a, b]))
        turn[a, b] += 1
        mine = [(lane, count) for lane, count in zip(lanes, counts, strict=True) if count]
        for first, n_same, (lane, count) in _grouped(mine, len(rows)):
            row = f, count, lane.nic, lane.pair, lane.path, lane.last, first, n_same
            rows.append(row)
    table = np.array(rows, np.int64).reshape(-1, 8)
    return Dealt(*np.ascontiguousarray(table.T))


def counts_of(n: int, weights: Sequence[int], phase: int) -> list[int]:
    """N packets by weights, each within one of its share."""
    whole = sum(weights)
    edges = accumulate(weights, initial=0)
    at = [(n * edge + phase % whole) // whole for edge in edges]
    return [b - a for a, b in pairwise(at)]


def _grouped(
    mine: Sequence[tuple[Lane, int]], at: int
) -> Iterator[tuple[int, int, tuple[Lane, int]]]:
    """Lanes of a message, each with the first row of its queue pair and how many there are."""
    k = 0
    while k < len(mine):
        n = 1
        while k + n < len(mine) and mine[k + n][0].pair == mine[k][0].pair:
            n += 1
        for i in range(k, k + n):
            yield at + k, n, mine[i]
        k += n


def _mixed(code: int) -> int:
    """Finisher of SplitMix64 (Steele et al. 2014)."""
    code &= _MASK
    code = (code ^ code >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    code = (code ^ code >> 27) * 0x94D049BB133111EB & _MASK
    return code ^ code >> 31
