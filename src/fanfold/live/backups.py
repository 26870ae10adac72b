"""Tables of a node for a net that lacks some links, made ahead and kept: backups.

All come from the one builder (topo/bift.py), as those of a fabric file do: nodes that know of
the same links that are down have tables that fit together.
"""

from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from fanfold.core.link_states import LinkSet
from fanfold.kernels.tables import Bifts
from fanfold.topo.bift import build_bifts
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_routes import FabricRoutes

MOST = 64
"""Tables that are kept; the one that was not used for longest goes."""


class Backups:
    """Tables of one node by the links that are down, counted by their nodes in the file."""

    def __init__(self, fabric: Fabric, name: str) -> None:
        self._fabric, self._name = fabric, name
        self._kept: OrderedDict[LinkSet, Bifts] = OrderedDict()
        self._ahead = self._adjacent()

    def rebase(self, weights: Sequence[int]) -> None:
        """What links cost from now on, in the order of the file; 0: no path uses it."""
        links = tuple(
            msgspec.structs.replace(link, weight=w or link.weight, up=w > 0)
            for link, w in zip(self._fabric.links, weights, strict=True)
        )
        self._fabric = msgspec.structs.replace(self._fabric, links=links)
        self._kept.clear()
        self._ahead = self._adjacent()

    def tables(self, failed: LinkSet) -> Bifts:
        """Tables without these links."""
        found = self._kept.pop(failed, None)
        if found is None:
            found = self._build(failed)
        self._kept[failed] = found
        if len(self._kept) > MOST:
            self._kept.popitem(last=False)
        return found

    def prepare(self) -> bool:
        """Make one that may be needed; False: all are there."""
        while self._ahead:
            failed = self._ahead.pop()
            if failed not in self._kept:
                self.tables(failed)
                return True
        return False

    def _build(self, failed: LinkSet) -> Bifts:
        names = [node.name for node in self._fabric.nodes]
        down = {frozenset((names[a], names[b])) for a, b in failed}
        links = tuple(
            msgspec.structs.replace(link, up=False) if {link.a, link.b} in down else link
            for link in self._fabric.links
        )
        fabric = msgspec.structs.replace(self._fabric, links=links)
        return build_bifts(FabricRoutes(fabric), self._name)

    def _adjacent(self) -> list[LinkSet]:
        """Each link of this node alone, where it is between BFRs; as many as are kept."""
        names = [node.name for node in self._fabric.nodes]
        own = names.index(self._name)
        near = [
            names.index(to)
            for to in self._fabric.neighbours[self._name]
            if {self._fabric.by_name[n].role for n in (self._name, to)} == {"bfr"}
        ]
        return [frozenset({(min(own, n), max(own, n))}) for n in near][: MOST // 2]
