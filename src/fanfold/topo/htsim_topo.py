"""Fat trees and leaf-spines from the topology files of csg-htsim.

    Nodes N  Tiers T  Podsize P       hosts, 2 or 3, hosts of a pod (of all, with two tiers)
    Tier t                            0 edge, 1 aggregation or spine, 2 core; below it:
    Downlink_speed_Gbps               of its cables down
    Downlink_Latency_ns               propagation of those
    Switch_Latency_ns                 of its switches; counted to the links that lead into them
    Radix_Down, Radix_Up              ports
    Bundle                            parallel cables to each switch below
    Oversubscribed                    what goes down over what goes up, checked
    Queue_Up, Queue_Down              not read: queues are settings of a run

Keys in any case, ``#`` starts a comment line. Switches of a tier are numbered pod by pod.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from fanfold.errors import ConfigError
from fanfold.nearest import one_of
from fanfold.topo.graph_net import short
from fanfold.topo.limits import MAX_HOSTS
from fanfold.topo.net import Net
from fanfold.topo.sketch import Line, Sketch, check_divides
from fanfold.topo.text_lines import text_of

_HEAD = ("nodes", "tiers", "podsize")
_ROWS = {
    "downlink_speed_gbps": "speed_gbps",
    "downlink_latency_ns": "latency_ns",
    "switch_latency_ns": "switch_ns",
    "radix_down": "down",
    "radix_up": "up",
    "bundle": "bundle",
    "oversubscribed": "oversubscribed",
    "queue_up": "queue_up",
    "queue_down": "queue_down",
}
MAX_VALUE = 10**9


class Tier(NamedTuple):
    """One tier as written; 0 is left open."""

    speed_gbps: int = 0
    latency_ns: int = 0
    switch_ns: int = 0
    down: int = 0
    up: int = 0
    bundle: int = 1
    oversubscribed: int = 0
    queue_up: int = 0
    queue_down: int = 0

    @property
    def line(self) -> Line:
        """Its cables down."""
        return Line(self.speed_gbps * 10**9, self.latency_ns * 1000)


class _File(NamedTuple):
    nodes: int
    podsize: int
    tiers: tuple[Tier, ...]


def load_htsim_topo(path: Path, line: Line) -> Net:
    """Net of a file; ``line`` where a tier leaves speed or latency open.

    Raises:
        ConfigError: no such file, an unknown key, or numbers that do not fit each other.
    """
    file = _parsed(path, line)
    _check(file, str(path))
    edge, agg = file.tiers[:2]
    pods = file.nodes // file.podsize
    edges, aggs = file.podsize // edge.down, edge.up // agg.bundle
    sketch = Sketch(file.nodes)
    low = sketch.add("edge", pods * edges, 1)
    mid = sketch.add("agg" if file.tiers[2:] else "spine", pods * aggs, 2)
    rack = sketch.hosts // edge.down
    sketch.cable(sketch.hosts, low[rack], edge.line)
    bundle = np.zeros((1, 1, 1, agg.bundle), np.int64)
    ends = (low.reshape(pods, edges, 1, 1) + bundle, mid.reshape(pods, 1, aggs, 1))
    sketch.cable(*ends, agg.line)
    for core in file.tiers[2:]:
        each = agg.up // core.bundle
        top = sketch.add("core", aggs * each, 3).reshape(1, aggs, each, 1)
        bundle = np.zeros((1, 1, 1, core.bundle), np.int64)
        sketch.cable(mid.reshape(pods, aggs, 1, 1) + bundle, top, core.line)
    net = sketch.build(str(path), rack, sketch.hosts // file.podsize)
    switch_ps = np.array([0, *(1000 * tier.switch_ns for tier in file.tiers)], np.int64)
    return net._replace(prop_ps=net.prop_ps + switch_ps[net.tier[net.dst]])


def _parsed(path: Path, line: Line) -> _File:
    lines = text_of(path).splitlines()
    head: dict[str, int] = {}
    tiers: dict[int, dict[str, int]] = {}
    at = -1
    for n, text in enumerate(lines, 1):
        words = text.split()
        if not words or words[0].startswith("#"):
            continue
        key, where = words[0].lower(), f"{path}: line {n}"
        known = (*_HEAD, "tier") if at < 0 else ("tier", *_ROWS)
        if key not in known:
            raise ConfigError(where, short(words[0]), one_of(short(key), known))
        value = _number(words[1:], f"{where} {words[0]}")
        if key == "tier":
            at = value
        table, name = (head, key) if at < 0 else (tiers.setdefault(at, {}), _ROWS.get(key, ""))
        if name in table:
            raise ConfigError(f"{where} {words[0]}", value, "one value for each tier")
        if name:
            table[name] = value
    return _file_of(head, tiers, line, str(path))


def _number(words: list[str], field: str) -> int:
    text = " ".join(words)
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_VALUE))
    if not is_number or int(text) > MAX_VALUE:
        raise ConfigError(field, short(text), f"one whole number, at most {MAX_VALUE}")
    return int(text)


def _file_of(
    head: dict[str, int], tiers: dict[int, dict[str, int]], line: Line, source: str
) -> _File:
    for key in _HEAD:
        if not head.get(key):
            raise ConfigError(
                f"{source}: {key}", head.get(key, "nothing"), "a number from 1 on"
            )
    if head["tiers"] not in (2, 3):
        raise ConfigError(f"{source}: tiers", head["tiers"], "2, 3")
    if sorted(tiers) != list(range(head["tiers"])):
        allowed = f"Tier 0 to Tier {head['tiers'] - 1}, each once"
        raise ConfigError(f"{source}: tiers described", sorted(tiers), allowed)
    rows = []
    for at in range(head["tiers"]):
        row = Tier(**tiers[at])
        rows.append(
            row._replace(
                speed_gbps=row.speed_gbps or line.bps // 10**9,
                latency_ns=row.latency_ns or line.prop_ps // 1000,
            )
        )
    return _File(head["nodes"], head["podsize"], tuple(rows))


def _check(file: _File, source: str) -> None:
    """Ports of neighbouring tiers must fit each other."""
    if file.nodes > MAX_HOSTS:
        raise ConfigError(f"{source}: nodes", file.nodes, f"at most {MAX_HOSTS}")
    _check_given(file, source)
    below = file.tiers[0]
    pods = check_divides(f"{source}: nodes", file.nodes, "podsize", file.podsize)
    n_below = check_divides(f"{source}: podsize", file.podsize, "Tier 0 Radix_Down", below.down)
    if len(file.tiers) == 2 and pods > 1:
        raise ConfigError(f"{source}: podsize", file.podsize, f"{file.nodes}, with two tiers")
    for at, tier in enumerate(file.tiers[1:], 1):
        where = f"{source}: Tier {at - 1} Radix_Up"
        check_divides(where, below.up, f"Tier {at} Bundle", tier.bundle)
        if tier.down != n_below * tier.bundle:
            allowed = f"{n_below * tier.bundle}: {n_below} switches below, {tier.bundle} each"
            raise ConfigError(f"{source}: Tier {at} Radix_Down", tier.down, allowed)
        _check_share(below, tier, f"{source}: Tier {at - 1} Oversubscribed")
        below, n_below = tier, pods


def _check_given(file: _File, source: str) -> None:
    """What no tier may leave open."""
    for at, tier in enumerate(file.tiers):
        up = (("Radix_Up", tier.up),) if at + 1 < len(file.tiers) else ()
        for key, value in (("Radix_Down", tier.down), ("Bundle", tier.bundle), *up):
            if not value:
                raise ConfigError(f"{source}: Tier {at} {key}", value, "a number from 1 on")
    if file.tiers[0].bundle != 1:
        raise ConfigError(f"{source}: Tier 0 Bundle", file.tiers[0].bundle, "1")


def _check_share(below: Tier, tier: Tier, field: str) -> None:
    down, up = below.down * below.speed_gbps, below.up * tier.speed_gbps
    if below.oversubscribed and down != below.oversubscribed * up:
        allowed = f"{down} Gbit/s down over {up} up"
        raise ConfigError(field, below.oversubscribed, allowed)
