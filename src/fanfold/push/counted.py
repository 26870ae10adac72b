"""What the nodes on a push's trees counted meanwhile, from their answers before and after.

Nothing here waits: who did not answer is named, and what only it could tell is left out.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fanfold.live.status import Answers, Classes, NodeStatus, read_all, read_status
from fanfold.topo.fabric import Fabric
from fanfold.topo.predict import Direction, Element

AskNodes = Callable[[Sequence[str]], Callable[[], Answers]]
"""Ask nodes for their status, now; what is returned gives the answers, soon."""


class Counted:
    """Counters of the nodes on the trees of one push.

    Args:
        fabric, source: who sends. names: the nodes asked. before, after: their answers.
        own: counters of the sender itself.
    """

    def __init__(
        self,
        fabric: Fabric,
        source: str,
        names: Sequence[str],
        before: Answers,
        after: Answers,
        own: Any,
    ) -> None:
        self.unheard = [n for n in names if read_status(fabric, n, after.get(n)) is None]
        self.before = read_all(fabric, before)
        self.after = read_all(fabric, {**after, source: own})

    def drops(self) -> dict[str, dict[str, int]]:
        """Packets dropped meanwhile, by node and reason."""
        grown = {
            name: since(status.drops, self.before[name].drops if name in self.before else {})
            for name, status in self.after.items()
        }
        return {name: counts for name, counts in grown.items() if counts}

    def sent(self, name: str) -> int:
        """Bytes that a node sent on its links."""
        links = self.after[name].links.values() if name in self.after else ()
        return sum(n_bytes for link in links for _, n_bytes in link.tx.values())

    def links(self, bfir_id: int, flow: int) -> dict[Direction, Classes]:
        """Packets and bytes of one flow on each direction that a node told of."""
        return {
            (name, to): classes
            for name, status in self.after.items()
            for row in status.flows
            if (row.bfir_id, row.flow) == (bfir_id, flow)
            for to, classes in row.tx.items()
            if classes
        }

    def dead(self, bfir_id: int, flow: int) -> set[Element]:
        """Nodes that told nothing, and links on which packets of a flow went and none came."""
        found: set[Element] = {(name,) for name in self.unheard}
        for a, b in self.links(bfir_id, flow):
            if b in self.after and not self._came(b, a):
                found.add((a, b))
        return found

    def _came(self, name: str, by: str) -> bool:
        """Packets came meanwhile, or it cannot be said."""
        now = _received(self.after[name], by)
        return now > _received(self.before[name], by) if name in self.before else now > 0


def _received(status: NodeStatus, by: str) -> int:
    classes = status.links[by].rx.values() if by in status.links else ()
    return sum(packets for packets, _ in classes)


def since(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """Counts that grew, by how much."""
    grown = {word: n - before.get(word, 0) for word, n in now.items()}
    return {word: n for word, n in grown.items() if n > 0}
