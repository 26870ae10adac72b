"""Failures of a scenario: the words of `fanfold lab fail` and `lab heal`, with times.

link leaf1-spine1       all cables between two nodes are cut: what is on them is lost
node spine2             it ends: all its links are cut
pause h3 3s             it stands still: as if its links were cut for so long
gray leaf1-spine1 1%    each end loses so many of the packets that come
port-corrupt leaf1-spine1 1%    of what comes to leaf1 from spine1 so many are damaged, and lost
port h3-plane2          all cables of a host in a plane are cut
half-cable h3-plane2    one of them, the last, of several
leaf plane2             the one router of a plane ends
"""

from typing import NamedTuple

import numpy as np

from fanfold.errors import ConfigError
from fanfold.scenario.settings import Protection, Settings
from fanfold.schemes.program import Program
from fanfold.topo.net import Net
from fanfold.units import PPB_ONE, parse_duration, parse_probability

KINDS = ("link", "node", "pause", "gray", "port-corrupt")
LOSES = ("gray", "port-corrupt")
PLANE_KINDS = ("port", "half-cable", "leaf")
FIELD = "settings.failures"


class Fault(NamedTuple):
    """One thing that fails.

    kind: of KINDS, or port or half-cable. name: of a node or port, or of a link by its nodes in
    the order given. links: directed ones, both ways. nodes: those that end or stand still, else
    the ends of the link.
    loss_ppb: of a link that loses or damages. until_ps: when it is mended again, NONE: never.
    """

    at_ps: int
    kind: str
    name: str
    links: tuple[int, ...]
    nodes: tuple[int, ...]
    loss_ppb: int = 0
    until_ps: int = -1

    @property
    def cuts(self) -> bool:
        """Its links carry nothing."""
        return self.kind not in LOSES

    @property
    def is_at_start(self) -> bool:
        """It cuts, and did so before anything is sent."""
        return self.cuts and self.at_ps == 0


def has_words(settings: Settings) -> bool:
    """Some failure is said in words, so that neighbours watch each other."""
    return any(one.fail or one.heal for one in settings.failures)


def protection_of(settings: Settings, program: Program) -> Protection:
    """What fans by BIFTs do when a neighbour is lost; trees have their protocol."""
    if not has_words(settings) or program.protocol:
        return "reroute"
    if settings.protection != "auto":
        return settings.protection
    return "notice" if program.folds else "reroute"


def new_paths_ps(settings: Settings) -> int:
    """When unicast routing has followed the last failure in words, 0 without any."""
    last_ps = max((one.at_ps for one in settings.failures if one.fail or one.heal), default=0)
    return last_ps + settings.detect_ps + settings.reroute_ps if has_words(settings) else 0


def check_failures(settings: Settings, prefix: str) -> None:
    """Raise ConfigError for a failure that is neither words nor a cable."""
    for i, one in enumerate(settings.failures):
        where = f"{prefix}failures[{i}]"
        n_forms = bool(one.a or one.b) + bool(one.fail) + bool(one.heal)
        if n_forms != 1:
            got = "nothing" if n_forms == 0 else "several of them"
            raise ConfigError(where, got, "fail, or heal, or a and b")
        for field, value in (("a", one.a), ("b", one.b)):
            if (one.a or one.b) and not value:
                raise ConfigError(f"{where}.{field}", "nothing", "the name of a node")


def read_faults(settings: Settings, net: Net) -> list[Fault]:
    """All that fails in words, by time, each until it is mended.

    Raises:
        ConfigError: words that say nothing, no such node or link, or nothing to mend.
    """
    if not has_words(settings):
        return []
    index = {net.node_name(n): n for n in range(net.n_nodes)}
    found: list[Fault] = []
    in_time = sorted(enumerate(settings.failures), key=lambda pair: pair[1].at_ps)
    for i, one in in_time:
        if one.fail:
            where = f"{FIELD}[{i}].fail"
            found.append(_read(one.fail, one.at_ps, index, net, where))
        elif one.heal:
            _heal(found, one.heal, one.at_ps, f"{FIELD}[{i}].heal")
    return found


def _read(words: str, at_ps: int, index: dict[str, int], net: Net, where: str) -> Fault:
    kind, *rest = words.split()
    n_words = 2 if kind in ("pause", *LOSES) else 1
    if kind not in (*KINDS, *PLANE_KINDS) or len(rest) != n_words:
        allowed = '"link A-B", "node A", "pause A 3s", "gray A-B 1%" or "port-corrupt A-B 1%"'
        if np.unique(net.plane).size > 1:
            allowed = f'{allowed}; "port h3-plane2", "half-cable h3-plane2" or "leaf plane2"'
        raise ConfigError(where, words, allowed)
    name = rest[0]
    if kind in PLANE_KINDS:
        return _read_plane(kind, name, at_ps, net, where)
    if kind in ("link", *LOSES):
        a, b = _ends(name, index, net, where)
        links = _between(net, a, b)
        if kind == "port-corrupt":
            links = tuple(link for link in links if net.dst[link] == a)
        loss = parse_probability(rest[1], where) if kind in LOSES else 0
        if loss >= PPB_ONE:
            raise ConfigError(where, rest[1], "below 100%; a link that carries nothing is cut")
        return Fault(at_ps, kind, name, links, (a, b), loss)
    if name not in index:
        raise ConfigError(where, name, "a node of the topology")
    node = index[name]
    links = tuple(np.nonzero((net.src == node) | (net.dst == node))[0].tolist())
    until_ps = at_ps + parse_duration(rest[1], where) if kind == "pause" else -1
    return Fault(at_ps, kind, name, links, (node,), until_ps=until_ps)


def _read_plane(kind: str, name: str, at_ps: int, net: Net, where: str) -> Fault:
    """What of a plane fails, by the names of ``lab fail``; gpu3 is host h3."""
    known = name.removeprefix("gpu")
    known = name if known == name else f"h{known}"
    if kind == "leaf":
        of_plane = {f"plane{p}": np.flatnonzero(net.plane == p) for p in np.unique(net.plane)}
        links = of_plane.get(known, np.zeros(0, np.int64))
        routers = np.unique(net.src[links][net.src[links] >= net.n_hosts]).tolist()
        if len(routers) != 1:
            got = f"{name}: {len(routers)} routers"
            raise ConfigError(where, got, "a plane of one, as leaf plane2; or node and a name")
        return Fault(at_ps, "node", known, tuple(links.tolist()), (routers[0],))
    host, _, plane = known.rpartition("-plane")
    ends = {net.node_name(n): n for n in range(net.n_hosts)}
    ups = np.zeros(0, np.int64)
    if host in ends and plane.isdigit():
        ups = np.flatnonzero((net.src == ends[host]) & (net.plane == int(plane)))
    if ups.size < (2 if kind == "half-cable" else 1):
        allowed = "a host and a plane of it, as h3-plane2"
        raise ConfigError(where, name, allowed + (", of two cables" if ups.size else ""))
    ups = ups[-1:] if kind == "half-cable" else ups
    links = np.concatenate([ups, net.reverse[ups]])
    nodes = ends[host], *np.unique(net.dst[ups]).tolist()
    return Fault(at_ps, kind, known, tuple(links.tolist()), nodes)


def net_at_start(net: Net, settings: Settings) -> Net:
    """The net without what has failed at time 0: routing and weights know of it."""
    down = [k for fault in read_faults(settings, net) if fault.is_at_start for k in fault.links]
    if not down:
        return net
    is_up = net.is_up.copy()
    is_up[down] = 0
    return net._replace(is_up=is_up)


def _ends(name: str, index: dict[str, int], net: Net, where: str) -> tuple[int, int]:
    """Two nodes with a link; names may hold the sign that stands between them."""
    parts = name.split("-")
    for i in range(1, len(parts)):
        a, b = "-".join(parts[:i]), "-".join(parts[i:])
        if a in index and b in index and _between(net, index[a], index[b]):
            return index[a], index[b]
    raise ConfigError(where, name, "two nodes of the topology with a link, as leaf1-spine1")


def _between(net: Net, a: int, b: int) -> tuple[int, ...]:
    is_there = (net.src == a) & (net.dst == b) | (net.src == b) & (net.dst == a)
    return tuple(np.nonzero(is_there)[0].tolist())


def _heal(found: list[Fault], name: str, at_ps: int, where: str) -> None:
    """Mend what has that name and has failed."""
    usual = {name, "-".join(reversed(name.split("-")))}
    open_ones = [
        k
        for k, fault in enumerate(found)
        if fault.name in usual and not 0 <= fault.until_ps <= at_ps
    ]
    if not open_ones:
        raise ConfigError(where, name, "what has failed by then")
    for k in open_ones:
        found[k] = found[k]._replace(until_ps=at_ps)
