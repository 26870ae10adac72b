"""Trees of many sources of one group: some set up message by message, the others by the rule.

What the messages lead to is in each protocol the reverse of unicast paths: of members to the
source's router, or, where the tree is shared, to its root. So a tree can be had without its
messages. It is only taken so where the rule gives, link for link, what the messages of the
measured ones led to.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from fanfold.topo.net import Net
from fanfold.trees.catalog import protocol_of
from fanfold.trees.paths import Paths
from fanfold.trees.settings import TreeSettings
from fanfold.trees.standing import SHARED, Standing, stand
from fanfold.trees.tree import Tree
from fanfold.trees.tree_run import centre_of
from fanfold.trees.world import Machine, World

MEASURED = 8
"""Trees that are set up message by message where there are more than twice as many."""
SEGMENTED = frozenset({"sr-p2mp"})
"""Protocols whose copies go on as unicast until the next router that has state."""


def stand_all(
    protocol: str,
    net: Net,
    members: Sequence[int],
    sources: Sequence[int],
    settings: TreeSettings,
) -> list[Standing]:
    """A tree of each source to all other members, nothing failing.

    Where only some were measured the others have the messages, the entries and the time of the
    measured one before them.
    """
    step = -(-len(sources) // MEASURED) if len(sources) > 2 * MEASURED else 1
    measured = {
        source: stand(protocol, net, source, members, settings) for source in sources[::step]
    }
    rule = Rule(protocol, net, members, settings)
    if step > 1:
        for source, tree in measured.items():
            if not is_same(rule.tree(source), tree.phases[-1][1]):
                return [stand(protocol, net, s, members, settings) for s in sources]
    found: list[Standing] = []
    for source in sources:
        if source in measured:
            found.append(measured[source])
        else:
            like = found[-1]
            phases = ((like.up_ps, rule.tree(source)),)
            found.append(like._replace(phases=phases))
    return found


def is_same(tree: Tree, other: Tree) -> bool:
    """Two trees have the same links, segments and hosts."""
    links, inner = (set(tree.links), set(other.links)), (set(tree.inner), set(other.inner))
    return links[0] == links[1] and inner[0] == inner[1] and tree.hosts == other.hosts


class Rule:
    """The trees that a protocol ends with, without its messages.

    Args:
        members: hosts of the group, sources among them.
    """

    def __init__(
        self, protocol: str, net: Net, members: Sequence[int], settings: TreeSettings
    ) -> None:
        self.protocol, self.net, self.members = protocol, net, tuple(members)
        self._row, self._settings = protocol_of(protocol), settings
        self._paths = Paths(net, frozenset(), settings.group)
        self._end, self._back = net.dst.tolist(), net.reverse.tolist()
        self._found: dict[int, tuple[frozenset[int], dict[int, int]]] = {}
        self._centre = centre_of(net, self._row, settings)

    def tree(self, source: int) -> Tree:
        """The tree of one source to all other members."""
        machine = self._machine(source)
        first_hop = machine.first_hop
        root = self._centre if self.protocol in SHARED else first_hop
        target = self._centre if self.protocol in SHARED else machine.member_target()
        inner, downs = self._below(root, target)
        if self.protocol in SHARED:
            return self._turned(machine, inner, downs)
        links = {machine.source_link, *inner}
        links |= {link for host, link in downs.items() if host != source}
        segments = self._segments(links) if self.protocol in SEGMENTED else ()
        return self._told(links, source, segments)

    def _machine(self, source: int) -> Machine:
        world = World(self.net, self._settings)
        world.paths = self._paths
        return self._row.machine(world, source, self._centre)

    def _below(self, root: int, target: int) -> tuple[frozenset[int], dict[int, int]]:
        """Links from a root to the routers of members, and each member's last link."""
        if root not in self._found:
            downs, routers = {}, set()
            for host in self.members:
                up = self._paths.attach(host, target)
                downs[host] = self._back[up]
                routers.add(self._end[up])
            ways = (k for node in sorted(routers) for k in self._paths.path(node, root))
            self._found[root] = frozenset(self._back[k] for k in ways), downs
        return self._found[root]

    def _turned(self, machine: Machine, inner: Iterable[int], downs: dict[int, int]) -> Tree:
        """A shared tree as it is seen from a source: up to the root, down all else."""
        outs: dict[int, list[int]] = {}
        net, source = self.net, machine.source
        ways = self._paths.path(machine.first_hop, self._centre)
        both = {*inner, *ways}
        both |= {self._back[k] for k in both}
        for k in sorted(both | {down for host, down in downs.items() if host != source}):
            outs.setdefault(int(net.src[k]), []).append(k)
        links, seen = {machine.source_link}, {machine.first_hop}
        todo = deque([machine.first_hop])
        while todo:
            for k in outs.get(todo.popleft(), ()):
                end = self._end[k]
                if end not in seen:
                    seen.add(end)
                    links.add(k)
                    todo.append(end)
        return self._told(links, source, ())

    def _segments(self, links: set[int]) -> tuple[int, ...]:
        n_outs: dict[int, int] = {}
        for k in links:
            node = int(self.net.src[k])
            is_last = self._end[k] < self.net.n_hosts
            n_outs[node] = n_outs.get(node, 0) + (2 if is_last else 1)
        between = (k for k in links if self.net.src[k] >= self.net.n_hosts)
        return tuple(sorted(k for k in between if n_outs.get(self._end[k], 0) == 1))

    def _told(self, links: Iterable[int], source: int, segments: tuple[int, ...]) -> Tree:
        hosts = {host: 1 for host in self.members if host != source}
        return Tree(tuple(sorted(links)), hosts, 0, segments)
