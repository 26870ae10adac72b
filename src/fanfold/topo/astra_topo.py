"""Nets from the network file of ASTRA-sim's analytical backends (yml).

    topology: [ Ring, FullyConnected, Switch ]
    npus_count: [ 4, 2, 8 ]
    bandwidth: [ 200.0, 100.0, 50.0 ]   GB/s of a link and direction, 10^9 bytes
    latency: [ 50.0, 500.0, 2000.0 ]    ns of a link

Dimension 0 counts fastest. NPUs pass on what is not for them, so each is a host on a router of
its own; the host's cable is as fast as all links of its router and takes no time. All of a
Switch dimension hang on one switch; where that is the only dimension, hosts hang on it.
"""

import re
from fractions import Fraction
from itertools import combinations
from math import prod
from pathlib import Path
from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.nearest import one_of
from fanfold.topo.graph_net import short
from fanfold.topo.limits import MAX_CABLES
from fanfold.topo.net import Net
from fanfold.topo.sketch import Line, Sketch
from fanfold.topo.text_lines import Word
from fanfold.topo.yml_lists import yml_lists

KINDS = ("Ring", "FullyConnected", "Switch")
MAX_NPUS = 8192
"""Of routers, as of all direct networks."""
MAX_DIMS = 16
MAX_VALUE = 10**6
_NEEDED = ("topology", "npus_count")
_DECIMAL = re.compile(r"\d{1,9}(?:\.\d{0,9})?", re.ASCII)
_GBPS, _NS = 8 * 10**9, 1000


class _Dim(NamedTuple):
    kind: str
    n: int
    line: Line

    @property
    def degree(self) -> int:
        """Links of one NPU."""
        return {"Ring": min(self.n - 1, 2), "FullyConnected": self.n - 1, "Switch": 1}[
            self.kind
        ]


def load_astra_topo(path: Path, line: Line) -> Net:
    """Net of a file; ``line`` where it gives no bandwidth or no latency.

    Raises:
        ConfigError: no such file, another form, or lists that do not fit each other.
    """
    dims = _dims(path, line)
    n_npus = prod(dim.n for dim in dims)
    sketch = Sketch(n_npus)
    if [dim.kind for dim in dims] == ["Switch"]:
        (one,) = sketch.add("s", 1, 1).tolist()
        sketch.cable(sketch.hosts, one, dims[0].line)
        return sketch.build(str(path))
    routers = sketch.add("r", n_npus, 1)
    every = sum(dim.degree * dim.line.bps for dim in dims)
    sketch.cable(sketch.hosts, routers, Line(every, 0))
    stride = 1
    for d, dim in enumerate(dims):
        first = [at for at in range(n_npus) if at // stride % dim.n == 0]
        rows = [[int(routers[at + i * stride]) for i in range(dim.n)] for at in first]
        switches = sketch.add(f"s{d}.", len(rows), 2) if dim.kind == "Switch" else ()
        pairs = _pairs(dim, rows, [int(each) for each in switches])
        sketch.cable([a for a, _ in pairs], [b for _, b in pairs], dim.line)
        stride *= dim.n
    return sketch.build(str(path), sketch.hosts)


def _pairs(dim: _Dim, rows: list[list[int]], switches: list[int]) -> list[tuple[int, int]]:
    """Ends of the cables of one dimension; rows: NPUs that differ in it alone."""
    match dim.kind:
        case "Switch":
            return [(a, s) for row, s in zip(rows, switches, strict=True) for a in row]
        case "Ring" if dim.n > 2:
            return [(row[i], row[(i + 1) % dim.n]) for row in rows for i in range(dim.n)]
        case _:
            return [pair for row in rows for pair in combinations(row, 2)]


def _dims(path: Path, line: Line) -> list[_Dim]:
    lists = yml_lists(path)
    for key in _NEEDED:
        if not lists.get(key):
            raise ConfigError(
                f"{path}: {key}", "nothing", "a list, one value for each dimension"
            )
    n_dims = len(lists["topology"])
    for key in ("npus_count", "bandwidth", "latency"):
        words = lists.get(key, [])
        if words and len(words) != n_dims:
            allowed = f"{n_dims}, as many as topology has"
            raise ConfigError(f"{words[0].where} {key}", f"{len(words)} values", allowed)
    if n_dims > MAX_DIMS:
        raise ConfigError(f"{path}: topology", f"{n_dims} dimensions", f"at most {MAX_DIMS}")
    dims = []
    for i, kind in enumerate(lists["topology"]):
        if kind.text not in KINDS:
            where = f"{kind.where} topology[{i}]"
            raise ConfigError(where, short(kind.text), one_of(short(kind.text), KINDS))
        n = int(_number(lists["npus_count"][i], f"npus_count[{i}]", 2, MAX_NPUS, 1))
        rate = _given(lists, "bandwidth", i, 1, _GBPS) or line.bps
        delay = _given(lists, "latency", i, 0, _NS)
        dims.append(_Dim(kind.text, n, Line(rate, line.prop_ps if delay is None else delay)))
    _check_size(dims, str(path))
    return dims


def _check_size(dims: list[_Dim], source: str) -> None:
    n_npus = prod(dim.n for dim in dims)
    if n_npus > MAX_NPUS:
        raise ConfigError(
            f"{source}: npus_count", f"{n_npus} NPUs", f"at most {MAX_NPUS} in all"
        )
    n_cables = n_npus * (1 + sum(dim.degree for dim in dims))
    if n_cables > MAX_CABLES:
        raise ConfigError(f"{source}: npus_count", f"{n_cables} links", f"at most {MAX_CABLES}")


def _given(lists: dict[str, list[Word]], key: str, i: int, low: int, unit: int) -> int | None:
    """A value of a list in bits a second or ps; None where the file has no such list."""
    words = lists.get(key, [])
    return _number(words[i], f"{key}[{i}]", low, MAX_VALUE, unit) if words else None


def _number(word: Word, field: str, low: int, high: int, unit: int) -> int:
    """A number times its unit, where that is a whole one."""
    value = Fraction(word.text) * unit if _DECIMAL.fullmatch(word.text) else None
    if value is None or not low * unit <= value <= high * unit or value.denominator != 1:
        allowed = f"a number, {low}..{high}"
        raise ConfigError(f"{word.where} {field}", short(word.text), allowed)
    return int(value)
