"""What schemes send, once more by itself: who sends how much to whom after what.

By the papers that the schemes name; nothing here is fanfold's. Ranks are hosts by number.
"""

from math import isqrt
from typing import NamedTuple

LATENCY_BYTES, LEAST_PIECE = 2**16, 4096
UP, DOWN, BOTH = ("reduce",), ("broadcast",), ("all_reduce",)


class Item(NamedTuple):
    """A message, a fan to several, or their sum; needs: items that come before it.

    joins: of a sum, "one" or "all" who get it; src is its rank 0.
    """

    src: int
    to: tuple[int, ...]
    size: int
    needs: tuple[int, ...] = ()
    is_fan: bool = False
    joins: str = ""


def split(size: int, n: int) -> list[int]:
    """Parts that differ by a byte at most, the longer ones first."""
    return [size // n + (i < size % n) for i in range(n)]


def pieces(size: int, smallest: int, depth: int, load: int) -> int:
    """Of a pipeline: the best number by Sanders, Speck and Traeff, none below a packet."""
    best = isqrt(max(depth - 1, 0) * load * size // LATENCY_BYTES)
    return max(1, min(best, smallest // LEAST_PIECE))


class Drawn:
    """Items of a program; names stand for numbers while it is drawn."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.number: dict[object, int] = {}

    def add(self, name, src, to, size, needs=(), is_fan=False, joins=""):
        self.number[name] = len(self.items)
        waits = tuple(self.number[n] for n in needs)
        self.items.append(Item(src, tuple(to), size, waits, is_fan, joins))


def exchange(d: Drawn, kind: str, size: int, n: int) -> None:
    """Every rank to every other."""
    parts = split(size, n)
    for a in range(n):
        for i in range(1, n):
            b = (a + i) % n
            part = parts[a] if kind == "all_gather" else parts[b]
            d.add((kind, a, b), a, [b], part)


def unicast(d: Drawn, kind: str, size: int, n: int) -> None:
    """A copy to each; sums at rank 0."""
    if kind not in (*UP, *DOWN, *BOTH):
        exchange(d, kind, size, n)
        return
    ups = [("up", r) for r in range(1, n)] if kind != "broadcast" else []
    for _, r in ups:
        d.add(("up", r), r, [0], size)
    for r in range(1, n) if kind != "reduce" else ():
        d.add(("down", r), 0, [r], size, ups)


def direct(d: Drawn, kind: str, size: int, n: int) -> None:
    """The same for all, all_reduce in two steps."""
    if kind != "all_reduce":
        exchange(d, kind, size, n)
        return
    exchange(d, "reduce_scatter", size, n)
    parts = split(size, n)
    for a in range(n):
        mine = [("reduce_scatter", r, a) for r in range(n) if r != a]
        for i in range(1, n):
            d.add(("out", a, i), a, [(a + i) % n], parts[a], mine)


def ring(d: Drawn, kind: str, size: int, n: int) -> None:
    """N - 1 steps each way; a step of a rank waits for what came in the one before."""
    if kind in (*UP, *DOWN):
        tree(d, kind, split(size, chain_pieces(size, n)), chain(n), "c")
        return
    parts, step = split(size, n), 0
    for adds in {"all_reduce": (1, 0), "all_gather": (0,)}.get(kind, (1,)):
        for t in range(n - 1):
            for r in range(n):
                needs = [("ring", step - 1, (r - 1) % n)] if step else []
                d.add(("ring", step, r), r, [(r + 1) % n], parts[(r - adds - t) % n], needs)
            step += 1


def chain(n: int) -> list[int]:
    """Parents of a chain."""
    return [r - 1 for r in range(n)]


def chain_pieces(size: int, n: int) -> int:
    return pieces(size, size, n - 1, 1)


def in_order(n: int) -> list[int]:
    """Parents of a binary tree over 1..n - 1 in order, its root below rank 0."""
    parents = [-1] * n
    for r in range(1, n):
        height = 0
        while not r >> height & 1:
            height += 1
        rest = r - (1 << height)
        up = rest if r >> height + 1 & 1 else r + (1 << height)
        parents[r] = up if up < n else rest
    return parents


def mirrored(n: int) -> list[int]:
    """The tree whose inner ranks are leaves of the other: mirrored, or shifted by one."""
    place = {r: n - r if n % 2 else (r - 2) % (n - 1) + 1 for r in range(1, n)}
    place[0] = 0
    at = {p: r for r, p in place.items()}
    base = in_order(n)
    return [-1] + [at[base[place[r]]] for r in range(1, n)]


def depth(parents: list[int]) -> int:
    """Links to the deepest rank."""

    def of(r: int) -> int:
        return 0 if r == 0 else 1 + of(parents[r])

    return max(of(r) for r in range(len(parents)))


def tree(d: Drawn, kind: str, parts: list[int], parents: list[int], tag: str) -> None:
    """Pieces up a tree, down it, or both; each waits for its own piece alone."""
    n = len(parents)
    below = {r: [c for c in range(1, n) if parents[c] == r] for r in range(n)}
    deep = sorted(range(1, n), key=lambda r: -depth_of(parents, r))
    for j, part in enumerate(parts):
        if kind != "broadcast":
            for r in deep:
                needs = [(tag, "up", j, c) for c in below[r]]
                d.add((tag, "up", j, r), r, [parents[r]], part, needs)
        for r in reversed(deep) if kind != "reduce" else ():
            needs = [(tag, "down", j, parents[r])] if parents[r] else []
            if not parents[r] and kind == "all_reduce":
                needs = [(tag, "up", j, c) for c in below[0]]
            d.add((tag, "down", j, r), parents[r], [r], part, needs)


def depth_of(parents: list[int], r: int) -> int:
    return 0 if r == 0 else 1 + depth_of(parents, parents[r])


def binary_tree(d: Drawn, kind: str, size: int, n: int) -> None:
    """One tree, in pieces."""
    both = kind == "all_reduce"
    c = pieces(size, size, depth(in_order(n)) * (1 + both), 2 + both)
    tree(d, kind, split(size, c), in_order(n), "b")


def double_binary_tree(d: Drawn, kind: str, size: int, n: int) -> None:
    """Two trees with a half each."""
    both, half = kind == "all_reduce", size // 2
    most = max(depth(in_order(n)), depth(mirrored(n))) * (1 + both)
    c = pieces(size, half, most, 1 + both)
    for j, (one, other) in enumerate(zip(split(size - half, c), split(half, c), strict=True)):
        tree(d, kind, [one], in_order(n), ("first", j))
        tree(d, kind, [other], mirrored(n), ("second", j))


def fans(d: Drawn, kind: str, size: int, n: int) -> None:
    """One to all, all to all, or sums up a tree of hosts and a fan of each piece."""
    if kind == "broadcast":
        d.add("fan", 0, range(1, n), size, is_fan=True)
    elif kind == "all_gather":
        for r, part in enumerate(split(size, n)):
            d.add(("fan", r), r, [h for h in range(n) if h != r], part, is_fan=True)
    else:
        parents = in_order(n)
        parts = split(size, pieces(size, size, depth(parents) + 1, 2))
        tree(d, "reduce", parts, parents, "sum")
        tops = [r for r in range(1, n) if not parents[r]]
        for j, part in enumerate(parts):
            needs = [("sum", "up", j, r) for r in tops]
            d.add(("fan", j), 0, range(1, n), part, needs, is_fan=True)


def folded(d: Drawn, kind: str, size: int, n: int) -> None:
    """Fans, and sums that routers make."""
    if kind not in (*UP, *BOTH):
        fans(d, kind, size, n)
        return
    joins = "one" if kind == "reduce" else "all"
    d.add("sum", 0, range(1, n), size, joins=joins)


def server(d: Drawn, kind: str, size: int, n: int) -> None:
    """Pieces to rank 0, and what they add up to from there."""
    del kind
    for j, part in enumerate(split(size, pieces(size, size, 2, n - 1))):
        for r in range(1, n):
            d.add(("push", j, r), r, [0], part)
        for r in range(1, n):
            d.add(("pull", j, r), 0, [r], part, [("push", j, other) for other in range(1, n)])


class Rounds:
    """Each message waits for what its sender got last and sent last."""

    def __init__(self, d: Drawn, shards: list[int]) -> None:
        self.d, self.shards = d, shards
        self.got: dict[int, object] = {}
        self.sent: dict[int, object] = {}
        self.gathered: dict[int, list[object]] = {}

    def go(self, name: str, far: int, pairs: list[tuple[int, int, int]]) -> None:
        """Pairs: sender, receiver, the first of ``far`` shards."""
        got, sent = dict(self.got), dict(self.sent)
        for a, b, shard in pairs:
            needs = [last[a] for last in (got, sent) if a in last]
            if name == "gather":
                needs += self.gathered.get(a, [])[:-1]
                self.gathered.setdefault(b, []).append((name, far, a))
            part = sum(self.shards[shard : shard + far])
            self.d.add((name, far, a), a, [b], part, needs)
            self.got[b] = self.sent[a] = (name, far, a)


def halving_doubling(d: Drawn, kind: str, size: int, n: int) -> None:
    """Halves with ever nearer partners, all one has with ever farther ones."""
    rounds, ranks = Rounds(d, split(size, n)), range(n)
    near = [1 << i for i in range(n.bit_length() - 1)]
    if kind == "broadcast":
        for far in reversed(near):
            pairs = [(a, a + far, a + far) for a in range(0, n, 2 * far)]
            rounds.go("scatter", far, pairs)
    elif kind != "all_gather":
        for far in reversed(near):
            rounds.go("halve", far, [(a, a ^ far, (a ^ far) & -far) for a in ranks])
    for far in near if kind in ("all_gather", "all_reduce", "broadcast") else ():
        some = [a for a in ranks if kind != "broadcast" or (a ^ far) % (2 * far)]
        rounds.go("double", far, [(a, a ^ far, a & -far) for a in some])
    for far in near if kind == "reduce" else ():
        rounds.go("gather", far, [(a, a - far, a) for a in range(far, n, 2 * far)])


def drawn(scheme: str, kind: str, size: int, n: int) -> list[Item]:
    """Items of a scheme's collective over hosts 0..n - 1."""
    d = Drawn()
    draw = {
        "unicast": unicast,
        "direct": direct,
        "ring": ring,
        "chain": ring,
        "binary-tree": binary_tree,
        "double-binary-tree": double_binary_tree,
        "halving-doubling": halving_doubling,
        "parameter-server": server,
        "fanfold": folded,
    }.get(scheme, fans)
    draw(d, kind, size, n)
    return d.items
