"""SR-P2MP (RFC 9524, draft-ietf-pim-sr-p2mp-policy): a controller computes and installs.

A leaf reports to the controller by unicast. The controller takes all it has heard at the end of
a computation, joins the shortest paths from root to leaves, and keeps replication state only at
the root, where paths part, and at leaves; between them packets travel along segments. It sends
each router that changes one message and waits for all answers: first routers that are new to
the tree, then those that were in it, last those that leave it.
"""

from typing import ClassVar

from fanfold.trees.settings import REPORT_BYTES
from fanfold.trees.tree import ANY, Entry, Out, to_links
from fanfold.trees.world import Machine

REPORT, INSTALL, ANSWER = "leaf report", "install", "answer"
REPLICATION = "replication"
JOINED, LEFT = 1, 0
HEAD_BYTES = 12
"""Replication segment, node, replication SID: four octets each (RFC 9524 2)."""
SID_BYTES = 4
Phase = dict[int, tuple[Out, ...] | None]


class SrP2mp(Machine):
    """One tree from the source's first-hop router; the centre is where the controller is."""

    keys: ClassVar[tuple[str, ...]] = (REPLICATION,)

    def on_start(self) -> None:
        """Nobody has reported."""
        self.members: dict[int, set[int]] = {}
        self.branches: dict[int, tuple[Out, ...]] = {}
        self.leaves: set[int] = set()
        self.wanted: dict[int, tuple[Out, ...]] = {}
        self.phases: list[Phase] = []
        self.open: Phase = {}
        self.is_busy = self.is_stale = False

    def member_target(self) -> int:
        """Members are near to the root."""
        return self.first_hop

    def on_member(self, node: int, out: int, *, is_joined: bool) -> None:
        """A leaf reports its first member and its last; others are its own matter."""
        mine = self.members.setdefault(node, set())
        was = bool(mine)
        (mine.add if is_joined else mine.discard)(out)
        if was != bool(mine):
            self._report(node)
        self._install(node)

    def on_message(self, node: int, link: int, kind: str, sender: int, value: int) -> None:
        """Reports and answers come to the controller, installs to routers."""
        del link
        match kind:
            case "leaf report":
                (self.leaves.add if value == JOINED else self.leaves.discard)(sender)
                self._compute()
            case "install":
                outs = self.open.get(node)
                if outs is None:
                    self.branches.pop(node, None)
                else:
                    self.branches[node] = outs
                self._install(node)
                self.world.send_to(node, self.centre, ANSWER, REPORT_BYTES)
            case _:
                self.open.pop(sender, None)
                if not self.open:
                    self._next()

    def on_link_down(self, node: int, out: int) -> None:
        """A leaf notices a dead member link; the rest is up to the controller."""
        if out in self.members.get(node, ()):
            self.on_member(node, out, is_joined=False)

    def on_paths(self, node: int) -> None:
        """The controller computes anew; what was lost on the way is sent again, as by TCP."""
        if (node in self.leaves) != bool(self.members.get(node)):
            self._report(node)
        if node == self.centre:
            self._order()
            if self.wanted:
                self.world.process(node, self._compute)

    def state_bytes(self, entry: Entry) -> int:
        """Replication segment; node, replication SID and one SID a link for each copy."""
        return HEAD_BYTES + sum(2 * SID_BYTES + SID_BYTES * len(o.links) for o in entry.outs)

    def _report(self, node: int) -> None:
        value = JOINED if self.members[node] else LEFT
        self.world.send_to(node, self.centre, REPORT, REPORT_BYTES, value)

    def _install(self, node: int) -> None:
        outs = self.branches.get(node)
        links = to_links(self.members.get(node, set()))
        entry = None if outs is None else Entry(ANY, outs + links)
        self.world.install(node, REPLICATION, entry)

    def _compute(self) -> None:
        """Begin a computation, or another one after that which is under way."""
        self.is_stale = self.is_busy
        if not self.is_busy:
            self.is_busy = True
            self.world.after(self.settings.compute_ps, self._computed)

    def _computed(self) -> None:
        old, new = self.wanted, self._plan()
        fresh: Phase = {node: outs for node, outs in new.items() if node not in old}
        changed: Phase = {n: outs for n, outs in new.items() if n in old and old[n] != outs}
        self.phases = [fresh, changed, dict.fromkeys(old.keys() - new.keys())]
        self.wanted = new
        self._next()

    def _next(self) -> None:
        """Go on to the next phase that has something to do."""
        while self.phases:
            self.open = self.phases.pop(0)
            if self.open:
                self._order()
                return
        self.is_busy = False
        if self.is_stale:
            self._compute()

    def _order(self) -> None:
        for node in sorted(self.open):
            self.world.send_to(self.centre, node, INSTALL, REPORT_BYTES)

    def _plan(self) -> dict[int, tuple[Out, ...]]:
        """Replication points and their segments: to the next points below."""
        world, root = self.world, self.first_hop
        below: dict[int, set[int]] = {}
        found = {root}
        for leaf in sorted(self.leaves):
            ways = world.paths.path(leaf, root)
            if ways or leaf == root:
                found.add(leaf)
            for link in ways:
                below.setdefault(world.end(link), set()).add(world.back(link))
        if not self.leaves & found:
            return {}
        points = found | {node for node, links in below.items() if len(links) > 1}
        plan = {}
        for node in points:
            outs = []
            for link in sorted(below.get(node, ())):
                path = [link]
                while world.end(path[-1]) not in points:
                    path += below[world.end(path[-1])]
                outs.append(Out(tuple(path), is_tunnel=True))
            plan[node] = tuple(outs)
        return plan
