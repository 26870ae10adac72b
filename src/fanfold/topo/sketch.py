"""A net while it is drawn: tiers of nodes, then cables between them, then the Net."""

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fanfold.errors import ConfigError
from fanfold.topo.limits import MAX_CABLES, MAX_HOSTS
from fanfold.topo.net import Cables, Net, Stands, build_net

I64 = NDArray[np.int64]
PS_PER_KM = 5_000_000
"""Light in fibre."""


class Line(NamedTuple):
    """A kind of cable: bits per second, propagation in ps."""

    bps: int = 100_000_000_000
    prop_ps: int = 1_000_000


LINE = Line()
"""What cables are where nothing else is asked for."""


class Sketch:
    """Hosts come first, h0, h1 and so on, then routers in the order they are added."""

    def __init__(self, n_hosts: int) -> None:
        if not 1 <= n_hosts <= MAX_HOSTS:
            raise ConfigError("hosts", n_hosts, f"1..{MAX_HOSTS}")
        self._prefixes = ["h"]
        self._firsts = [0]
        self._numbers = [0]
        self._tiers = [np.zeros(n_hosts, np.int64)]
        self._n_nodes = n_hosts
        self._parts: list[Cables] = []
        self.hosts = np.arange(n_hosts)

    def add(self, prefix: str, n: int, tier: int, first: int = 0) -> I64:
        """Draw n routers named ``prefix`` and a number, ``first`` on; their node indices."""
        self._prefixes.append(prefix)
        self._firsts.append(self._n_nodes)
        self._numbers.append(first)
        self._tiers.append(np.full(n, tier, np.int64))
        self._n_nodes += n
        return np.arange(self._n_nodes - n, self._n_nodes)

    def cable(self, a: ArrayLike, b: ArrayLike, line: Line, plane: ArrayLike = 0) -> None:
        """Draw a cable for each pair of nodes; a, b and plane broadcast against each other."""
        ends = np.broadcast_arrays(np.asarray(a), np.asarray(b), np.asarray(plane))
        n_cables = ends[0].size + sum(part.a.size for part in self._parts)
        if n_cables > MAX_CABLES:
            raise ConfigError("topology", f"{n_cables} cables", f"at most {MAX_CABLES}")
        low, high, planes = (x.reshape(-1).astype(np.int64) for x in ends)
        bps, prop_ps = (np.full(low.size, v, np.int64) for v in line)
        self._parts.append(Cables(low, high, bps, prop_ps, planes))

    def build(self, name: str, rack: ArrayLike = 0, pod: ArrayLike = 0) -> Net:
        """Net of what was drawn; rack and pod of each host."""
        n_hosts = self.hosts.size
        stands = (np.broadcast_to(np.asarray(x, np.int64), n_hosts) for x in (rack, pod))
        tiers = Stands(np.concatenate(self._tiers), *stands)
        columns = zip(*(part[:5] for part in self._parts), strict=True)
        cables = Cables(*(np.concatenate(column) for column in columns))
        return build_net(name, n_hosts, cables, tiers, self._name_of)

    def _name_of(self, node: int) -> str:
        at = bisect_right(self._firsts, node) - 1
        return f"{self._prefixes[at]}{self._numbers[at] + node - self._firsts[at]}"


def direct_sketch(n_hosts: int, line: Line) -> tuple[Sketch, I64]:
    """Sketch of a direct network, each host on a router of its own; and those routers."""
    sketch = Sketch(n_hosts)
    routers = sketch.add("r", n_hosts, 1)
    sketch.cable(sketch.hosts, routers, line)
    return sketch, routers


def check_divides(field: str, value: int, by: str, divisor: int) -> int:
    """The quotient, or ConfigError where it is not whole."""
    if value % divisor:
        raise ConfigError(field, value, f"a multiple of {by} = {divisor}")
    return value // divisor
