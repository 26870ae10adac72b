"""A virtual aggregation tree while it is built, its cost, and steps that lower it."""

from typing import NamedTuple

from fanfold.topo.vat import FAR, Ways

LINK = 2**40
NODE = 2**20
"""A link crossed weighs more than all VAT nodes; a VAT node more than slots in use."""


class VatNet(NamedTuple):
    """What a tree stands on. allowed: switches with slots left. used: slots taken, by node."""

    ways: Ways
    workers: tuple[int, ...]
    allowed: tuple[int, ...]
    used: tuple[int, ...]


class Shape(NamedTuple):
    """A tree. parent: VAT node -> the one above, the root left out; and of each worker."""

    root: int
    parent: dict[int, int]
    worker_parent: dict[int, int]

    def edges(self) -> list[tuple[int, int]]:
        """Sender and VAT node that it sends to."""
        return [*self.worker_parent.items(), *self.parent.items()]


def node_cost(ground: VatNet, at: int) -> int:
    """Of one VAT node: where less slots are in use it is cheaper."""
    return NODE + min(ground.used[at], NODE - 1)


def cost_of(ground: VatNet, shape: Shape) -> int:
    """Links crossed, then VAT nodes, then slots in use at them."""
    links = sum(ground.ways.hops(a, b) for a, b in shape.edges())
    return LINK * links + sum(node_cost(ground, at) for at in (shape.root, *shape.parent))


def mend(ground: VatNet, shape: Shape) -> None:
    """Hang senders where they are nearer, drop nodes with one sender, until nothing gains."""
    while _drop_idle(shape) or _rehang(ground, shape) or _turn(ground, shape):
        pass


def _drop_idle(shape: Shape) -> bool:
    """Take out VAT nodes that wait for one packet or none: to pass it on is as good."""
    senders: dict[int, list[int]] = {at: [] for at in shape.parent}
    for source, target in shape.edges():
        if target in senders:
            senders[target].append(source)
    for at, them in senders.items():
        if len(them) <= 1:
            above = shape.parent.pop(at)
            for source in them:
                where = shape.parent if source in senders else shape.worker_parent
                where[source] = above
            return True
    return False


def _rehang(ground: VatNet, shape: Shape) -> bool:
    """Move each sender to the nearest VAT node that is not below it."""
    is_moved = False
    hops_to = {at: ground.ways.hops_to(at) for at in (shape.root, *shape.parent)}
    for source, target in shape.edges():
        where = shape.parent if source in shape.parent else shape.worker_parent
        best = ground.ways.hops(source, target)
        for at, hops in hops_to.items():
            if _links(ground, source, at, hops) < best and not _is_below(shape, at, source):
                best = _links(ground, source, at, hops)
                where[source] = at
                is_moved = True
    return is_moved


def _turn(ground: VatNet, shape: Shape) -> bool:
    """Where the way up from a node leads through a node below it, let that one be above."""
    for at, above in shape.parent.items():
        n_links = ground.ways.hops(at, above)
        for low in shape.parent:
            if low == at or not _is_below(shape, low, at):
                continue
            if ground.ways.hops(at, low) + ground.ways.hops(low, above) == n_links:
                shape.parent[at], shape.parent[low] = low, above
                return True
    return False


def _links(ground: VatNet, source: int, at: int, hops: list[int]) -> int:
    """Links from a sender to the VAT node that ``hops`` leads to."""
    if source == at or source >= ground.ways.n_hosts:
        return 0 if source == at else hops[source]
    return min((hops[router] + 1 for router in ground.ways.near[source]), default=FAR)


def _is_below(shape: Shape, at: int, source: int) -> bool:
    """Whether a VAT node is the sender itself, or below it."""
    while at in shape.parent:
        if at == source:
            return True
        at = shape.parent[at]
    return at == source and source not in shape.worker_parent
