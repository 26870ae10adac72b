"""Fans of a program along trees that a protocol sets up: the tree, its labels, its cost.

The protocol runs by its own messages (trees/) on the net and at the ranks' hosts; data then
takes exactly the links of the tree that stands. Trees of one program are set up side by side,
each as if it had the routers for itself.
"""

from collections import Counter
from typing import Literal

from fanfold.errors import ConfigError
from fanfold.schemes.program import FanTree, Phase, Program, Setup
from fanfold.topo.net import Net
from fanfold.trees.many import stand_all
from fanfold.trees.settings import TreeSettings
from fanfold.trees.standing import SHARED, Fail, Standing, stand
from fanfold.trees.tree import Tree
from fanfold.trees.tree_run import cables_between

TreeStart = Literal["wait", "standing", "lost"]
"""wait: a source starts when its tree is up. standing: all trees were up before. lost: a source
starts at once, and what the tree does not reach yet is lost."""
LABEL_BYTES = 4
"""One MPLS label (RFC 3032 2.1): of mLDP, or a replication SID, or the SID of a node."""
MAX_JOINS = 2**17
"""Trees times members that are set up message by message: 10 to 60 s."""
MAX_BRANCHES = 2**21
"""Trees times members in all."""


Group = tuple[int, tuple[int, ...]]
"""A source and its receivers."""


class Site:
    """Where trees are set up.

    settings: of the protocols. start: what happens before a tree is up. fails: cables that go
    down, at times of the run. memo: trees that were set up here before.
    """

    def __init__(
        self,
        net: Net,
        settings: TreeSettings,
        start: TreeStart = "wait",
        fails: tuple[Fail, ...] = (),
    ) -> None:
        self.net, self.settings, self.start, self.fails = net, settings, start, fails
        self.memo: dict[tuple[str | Group, ...], list[Standing]] = {}


def lay(program: Program, protocol: str, site: Site | None) -> Program:
    """The same program with a tree for each source and its receivers.

    Raises:
        ConfigError: no net to set trees up on, more trees than there is time for, no path, or
            hosts that the net has not.
    """
    if site is None:
        raise ConfigError("site", "none", f"a net that {protocol} sets its trees up on")
    groups = list(dict.fromkeys((fan.source, fan.receivers) for fan in program.fans))
    stood = site.memo.get((protocol, *groups))
    if stood is None:
        stood = site.memo[protocol, *groups] = _stand(protocol, site, groups)
    number = {group: i for i, group in enumerate(groups)}
    trees, starts = [], []
    for (source, _), tree in zip(groups, stood, strict=True):
        shift_ps = tree.up_ps if site.start == "standing" else 0
        starts.append(tree.up_ps if site.start == "wait" else 0)
        phases = (
            _phase(site.net, protocol, max(at - shift_ps, 0), stands)
            for at, stands in tree.phases
        )
        trees.append(FanTree(source, tuple(phases)))
    fans = []
    for fan in program.fans:
        at = number[fan.source, fan.receivers]
        fans.append(fan._replace(tree=at, start_ps=max(fan.start_ps, starts[at])))
    return program._replace(
        fans=tuple(fans),
        protocol=protocol,
        trees=tuple(trees),
        setup=_sum(protocol, stood),
        reroutes=_reroutes(site),
        n_mending=sum(tree.n_mending for tree in stood),
    )


def _reroutes(site: Site) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """When unicast paths are new, after each failure, and which links are dead by then."""
    found, dead = [], set[int]()
    for at_ps, nodes in sorted(site.fails):
        dead |= cables_between(site.net, nodes)
        new_ps = at_ps + site.settings.detect_ps + site.settings.reroute_ps
        found.append((new_ps, tuple(sorted(dead))))
    return tuple(found)


def _stand(protocol: str, site: Site, groups: list[Group]) -> list[Standing]:
    """All trees; of many sources of one group only some are set up message by message."""
    n_joins = sum(len(receivers) for _, receivers in groups)
    hosts = {tuple(sorted((source, *receivers))) for source, receivers in groups}
    is_plain = len(hosts) == 1 and not site.fails and site.start != "lost"
    most = MAX_BRANCHES if is_plain else MAX_JOINS
    if n_joins > most:
        got = f"{len(groups)} trees to {n_joins} members in all"
        raise ConfigError("workload.ranks", got, f"at most {most} with {protocol}")
    if is_plain:
        (members,) = hosts
        sources = [source for source, _ in groups]
        return stand_all(protocol, site.net, members, sources, site.settings)
    return [
        stand(
            *(protocol, site.net, source, receivers, site.settings),
            fails=site.fails,
            is_early=site.start == "lost",
            after_up=site.start == "standing",
        )
        for source, receivers in groups
    ]


def _phase(net: Net, protocol: str, from_ps: int, tree: Tree) -> Phase:
    """Links once each; hosts speak no MPLS, so labels are between routers only.

    On the way to a replication point further on, the SID of that router is on top of the
    replication SID, and taken off one link before it; so is the label of a bypass of mLDP.
    """
    links = tuple(sorted(set(tree.links)))
    if protocol.startswith("mldp") or protocol == "sr-p2mp":
        inner = set(tree.inner)
        sizes = {k: LABEL_BYTES * (1 + (k in inner)) for k in links}
    else:
        return Phase(from_ps, links, (0,) * len(links))
    hosts = net.n_hosts
    labels = (0 if net.src[k] < hosts or net.dst[k] < hosts else sizes[k] for k in links)
    return Phase(from_ps, links, tuple(labels))


def _sum(protocol: str, stood: list[Standing]) -> Setup:
    """What all trees took; what a group has once is counted once."""
    if not stood:
        return Setup(0, 0, 0, 0, 0)
    up_ps = max(tree.up_ps for tree in stood)
    if protocol in SHARED:
        most = max(stood, key=lambda tree: (tree.n_messages, sum(tree.entries.values())))
        entries = most.entries
        n, n_bytes = most.n_messages, most.n_bytes
    else:
        counts: Counter[int] = Counter()
        for i, tree in enumerate(stood):
            counts.update(tree.entries)
            if i:
                counts.subtract(tree.shared_entries)
        entries = dict(counts)
        n = sum(tree.n_messages - tree.n_shared for tree in stood) + stood[0].n_shared
        n_bytes = sum(tree.n_bytes - tree.shared_bytes for tree in stood)
        n_bytes += stood[0].shared_bytes
    return Setup(up_ps, n, n_bytes, sum(entries.values()), max(entries.values(), default=0))
