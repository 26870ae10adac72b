"""What went, came and was damaged on each direction of a link, from counters of its ends.

Conservative in each step: what a queue, a full socket, a kernel's backlog or a shut port may
have dropped is no loss of a link; a node that began anew, or a neighbour that fell, tells
nothing; packets that may still be on their way are taken to come.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence

import msgspec

from fanfold.live.status import Classes, LinkStatus, NodeStatus, Statuses
from fanfold.push.gray import GrayLink, Sample, Way, judge
from fanfold.topo.fabric import Fabric

NO_LINK = LinkStatus({}, {})
KEPT_ROUNDS = 30
RUN_PKTS = 64
"""A socket, or a backlog, drops runs, and counts each once: at most so many packets."""
TO_HOSTS = ("data", "repair")
"""Classes that a host's node takes in; others may be for a sender or a rank of the host."""
PORT_BYTES = 256 << 10
"""Of the queue behind a port (live/exits.py)."""
LEAST_ROOM = 768
"""Bytes that the smallest packet takes of a socket."""
BURSTS = 4
"""Traffic of others may have been so much denser between two answers than in the mean."""
QUEUES = ("rate_full", "held_full", "link_down")
"""Drops at a port that are no fault of the link."""
DIRECT = ("bad_checksum", "bad_version", "bad_bsl", "bad_inner", "bad_fan", "bad_feedback")
"""Drops at a port that only damage explains, found by the first node behind the link."""
LOOKED = 5
"""Damaged or whole packets in a BFR's cache from which it is known where damage came from."""


class Window(msgspec.Struct, frozen=True):
    """Statuses of nodes before a time, at its end, and a little later.

    bfir_id, flows: what was pushed in that time and not before it; all else that crossed a link
    may have crossed it between the first answers of its two ends.
    """

    fabric: Fabric
    before: Statuses
    first: Statuses
    last: Statuses
    bfir_id: int = 0
    flows: Sequence[int] = ()

    def known(self, name: str) -> bool:
        """The same process told of itself at all three times."""
        all_three = [at[name] for at in (self.before, self.first, self.last) if name in at]
        return len(all_three) == 3 and len({status.pid for status in all_three}) == 1

    def is_steady(self, a: str, b: str) -> bool:
        """Neither end of a link lost the other meanwhile, or is without it now."""
        for end, to in ((a, b), (b, a)):
            row, old = self.last[end].neighbours.get(to), self.before[end].neighbours.get(to)
            if row and (row.state == "down" or row.falls > (old.falls if old else 0)):
                return False
        return True


def directions(fabric: Fabric) -> list[Way]:
    """Both of each link."""
    return [way for link in fabric.links for way in ((link.a, link.b), (link.b, link.a))]


def losses(window: Window, among: Sequence[Way]) -> list[Sample]:
    """Samples, with damage that nodes found at their ports, of directions with known ends."""
    rows = []
    for src, dst in among:
        if window.known(src) and window.known(dst) and window.is_steady(src, dst):
            rows.append(_sample(window, src, dst))
    return rows


def _sample(window: Window, src: str, dst: str) -> Sample:
    """Of two bounds that never say too much the better one.

    What had gone at ``first`` has come by ``last``: that tells all once traffic rests. And of
    what had gone at ``last`` no more than the queues of both ends hold is still under way.
    """
    kinds = TO_HOSTS if window.fabric.by_name[dst].role == "host" else None
    start, first, last = (
        _link(at[src], dst) for at in (window.before, window.first, window.last)
    )
    far = [_link(at[dst], src) for at in (window.before, window.last)]
    came = _packets(far[1].rx, kinds) - _packets(far[0].rx, kinds)
    ends = window.before[dst], window.last[dst]
    runs = ends[1].drops.get("socket_full", 0) - ends[0].drops.get("socket_full", 0)
    runs += ends[1].backlog - ends[0].backlog
    excused = sum(last.lost.values()) - sum(start.lost.values()) + RUN_PKTS * runs
    excused += sum(_grown(far, word) for word in QUEUES)
    sent, sent_later = (
        _packets(row.tx, kinds) - _packets(start.tx, kinds) for row in (first, last)
    )
    excused += _between(window, src, dst, sent_later)
    lost, lost_later = sent - came - excused, sent_later - came - excused
    lost_later -= _under_way(window, src, dst, sent_later)
    if lost_later > max(lost, 0):
        sent, lost = sent_later, lost_later
    return Sample(src, dst, sent, max(lost, 0), came, sum(_grown(far, w) for w in DIRECT))


def standing(fabric: Fabric, first: Statuses, again: Callable[[], Statuses]) -> list[GrayLink]:
    """Gray links by all that nodes counted since they began; not of those that lost each other.

    Damage is placed only where the first node behind a link finds it: in words, and in headers.
    again: asks once more, where something looks gray.
    """
    began = {name: _began(status) for name, status in first.items()}
    gray = in_window(Window(fabric, began, first, first))
    return in_window(Window(fabric, began, first, again())) if gray else []


class Rounds:
    """Statuses of the same nodes asked again and again: what is gray lately."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._rounds: deque[Statuses] = deque(maxlen=KEPT_ROUNDS)

    def take(self, now: Statuses) -> list[GrayLink]:
        """One more round; what is gray since the oldest of KEPT_ROUNDS, from the second on."""
        self._rounds.append(now)
        if len(self._rounds) < 2:
            return []
        return in_window(Window(self._fabric, self._rounds[0], self._rounds[-2], now))


def in_window(window: Window) -> list[GrayLink]:
    """Gray links by what was counted in that time, whoever sent it."""
    rows = losses(window, directions(window.fabric))
    is_host = {name: node.role == "host" for name, node in window.fabric.by_name.items()}
    return judge(
        msgspec.structs.replace(row, damaged=0) if is_host[row.dst] else row for row in rows
    )


def _began(status: NodeStatus) -> NodeStatus:
    """What a process had counted when it began."""
    return NodeStatus({}, {}, [], pid=status.pid)


def _between(window: Window, src: str, dst: str, sent: int) -> int:
    """Packets of others that may have been counted between the answers of two ends."""
    own = sum(
        _packets(flow.tx.get(dst, {}), None)
        for flow in window.last[src].flows
        if flow.bfir_id == window.bfir_id and flow.flow in window.flows
    )
    others = max(sent - own, 0)
    start_ns, end_ns = window.before[src].at_ns, window.last[src].at_ns
    if not others or not start_ns or end_ns <= start_ns:
        return 0
    skew_ns = abs(start_ns - window.before[dst].at_ns)
    return min(BURSTS * others * skew_ns // (end_ns - start_ns), others)


def _under_way(window: Window, src: str, dst: str, sent: int) -> int:
    """Most packets that had left one end and not come to the other, by the room of queues."""
    room = window.last[dst].receive_buffer_bytes
    if not room:
        return sent  # not told: any of them
    start, last = _link(window.before[src], dst), _link(window.last[src], dst)
    n_bytes = _bytes(last.tx) - _bytes(start.tx)
    each = max(
        n_bytes // max(_packets(last.tx, None) - _packets(start.tx, None), 1), LEAST_ROOM
    )
    skew_ns = abs(window.last[src].at_ns - window.last[dst].at_ns)
    took_ns = window.last[src].at_ns - window.before[src].at_ns
    more = BURSTS * sent * skew_ns // took_ns if window.before[src].at_ns and took_ns else sent
    return 2 * (room + PORT_BYTES) // each + RUN_PKTS + (more if skew_ns else 0)


def _link(status: NodeStatus, to: str) -> LinkStatus:
    return status.links.get(to, NO_LINK)


def _packets(classes: Classes, kinds: Sequence[str] | None) -> int:
    return sum(n for kind, (n, _) in classes.items() if kinds is None or kind in kinds)


def _bytes(classes: Classes) -> int:
    return sum(n_bytes for _, n_bytes in classes.values())


def _grown(rows: Sequence[LinkStatus], word: str) -> int:
    return max(rows[1].drops.get(word, 0) - rows[0].drops.get(word, 0), 0)


def told_apart(
    window: Window, source: str, behind: Mapping[Way, frozenset[str]], found: Sequence[Sample]
) -> list[Sample]:
    """The same samples with damage put where it began, along the tree of a push.

    BFRs pass damaged DATA on: every receiver behind counts it. What all behind a BFR have was
    damaged above it, unless its cache shows that what it passed on was whole.
    """
    tree = _Tree(window, source, behind)
    return [tree.placed(row) if (row.src, row.dst) in behind else row for row in found]


class _Tree:
    """Where damaged DATA came by."""

    def __init__(
        self, window: Window, source: str, behind: Mapping[Way, frozenset[str]]
    ) -> None:
        self.window, self.source, self.behind = window, source, behind
        self.children: dict[str, list[str]] = {}
        self.parents: dict[str, set[str]] = {}
        for src, dst in behind:
            self.children.setdefault(src, []).append(dst)
            self.parents.setdefault(dst, set()).add(src)
        self._known: dict[str, int] = {}

    def placed(self, row: Sample) -> Sample:
        """A sample on the tree with what was damaged on that very link."""
        here, above = self.damage(row.dst), self.damage(row.src)
        is_host = self.window.fabric.by_name[row.dst].role == "host"
        direct = 0 if is_host else row.damaged  # a receiver finds what began above, too
        own = max(here - above, 0) if self.parents[row.dst] == {row.src} else 0
        more = {"above": min(here, above), "alike": self.alike((row.src, row.dst))}
        return msgspec.structs.replace(row, damaged=own + direct, **more)

    def damage(self, name: str) -> int:
        """Packets that came damaged to a node, or are taken to have."""
        if name == self.source:
            return 0
        if name not in self._known:
            self._known[name] = 0  # should tables hold a circle
            self._known[name] = self._count(name)
        return self._known[name]

    def _count(self, name: str) -> int:
        below = [self.damage(to) for to in self.children.get(name, ()) if self._can_tell(to)]
        if self.window.fabric.by_name[name].role == "host":
            return self._checked(name)
        common = min(below, default=0)
        whole, broken = self._looked(name)
        if whole + broken < LOOKED or broken >= whole:
            return common
        return min(broken, max(below, default=0))

    def alike(self, way: Way) -> list[Way]:
        """Ways further down that carry all that this one does, with nothing between."""
        found, name = list[Way](), way[1]
        while len(self.children.get(name, ())) == 1 and sum(self._looked(name)) < LOOKED:
            following = self.children[name][0]
            found.append((name, following))
            name = following
        return found

    def _can_tell(self, name: str) -> bool:
        """A receiver that is known, or a BFR with one behind it."""
        if name not in self.children:
            return self.window.known(name)
        return any(self._can_tell(to) for to in self.children[name])

    def _checked(self, name: str) -> int:
        """DATA whose checksum a receiver found wrong, by the ports that lead up."""
        if not self.window.known(name):
            return 0
        start, last = self.window.before[name], self.window.last[name]
        return sum(
            _grown((_link(start, up), _link(last, up)), "bad_checksum")
            for up in self.parents[name]
        )

    def _looked(self, name: str) -> tuple[int, int]:
        """Packets that a BFR looked for in its cache: found whole, found damaged."""
        if not self.window.known(name):
            return 0, 0
        start, last = self.window.before[name].cache, self.window.last[name].cache
        hit, corrupt = (last.get(w, 0) - start.get(w, 0) for w in ("hit", "corrupt"))
        return max(hit, 0), max(corrupt, 0)
