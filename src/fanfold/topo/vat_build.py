"""Trees for jobs on a net: few links crossed by a block, then few slots.

What a tree costs: links that packets of one block cross on the way up, then VAT nodes. Few
workers on a small net get a tree of least cost; else one is grown from the root, worker by
worker, each to where it is nearest, and then mended as long as that makes it cheaper.

Jobs share each switch by quota: a job takes its quota at each switch it stands on, and a
switch with less left than that only passes its packets on. A root that is a server sums in
its memory.
"""

from collections.abc import Iterator, Sequence

import msgspec

from fanfold.errors import ConfigError
from fanfold.topo.net import Net
from fanfold.topo.vat import FAR, NONE, Vat, VatNode, Ways, mask_of
from fanfold.topo.vat_exact import MAX_EXACT_ROUTERS, MAX_EXACT_WORKERS, least_tree
from fanfold.topo.vat_grow import grown_tree
from fanfold.topo.vat_shape import Shape, VatNet, cost_of

N_ROOTS = 4
"""Roots that are tried where none is asked for and the tree is grown."""


class Job(msgspec.Struct, frozen=True):
    """Who works together. root: a node of the net, or NONE for the switch that costs least."""

    name: str
    workers: tuple[int, ...]
    root: int = NONE
    quota: int = 1


def build_vats(
    net: Net, jobs: Sequence[Job], n_slots: int, *, exact: bool = True
) -> tuple[Vat, ...]:
    """One tree a job, in their order; each takes what those before it left.

    Args:
        n_slots: of each switch.
        exact: take trees of least cost where they can be found; else all are grown.

    Raises:
        ConfigError: no workers, a quota that no switch has left, a root without slots, no path.
    """
    ways = Ways(net)
    used = [0] * net.n_nodes
    vats = []
    for job in jobs:
        vat = _build(ways, job, used, n_slots, exact)
        for node in vat.nodes:
            used[node.at] += job.quota
        vats.append(vat)
    return tuple(vats)


def _build(ways: Ways, job: Job, used: list[int], n_slots: int, exact: bool) -> Vat:
    net = ways.net
    if not job.workers:
        raise ConfigError(job.name, "no workers", "one or more")
    routers = range(net.n_hosts, net.n_nodes)
    allowed = [at for at in routers if used[at] + job.quota <= n_slots]
    if not allowed and not 0 <= job.root < net.n_hosts:
        most = n_slots - min((used[at] for at in routers), default=n_slots)
        allows = f"at most {most} slots, which the emptiest switch has left"
        raise ConfigError(f"{job.name}.quota", job.quota, allows)
    if job.root >= net.n_hosts and job.root not in allowed:
        left = n_slots - used[job.root]
        allows = f"a switch with {job.quota} slots left, {net.node_name(job.root)} has {left}"
        raise ConfigError(f"{job.name}.root", net.node_name(job.root), allows)
    ground = VatNet(ways, job.workers, tuple(allowed), tuple(used))
    roots = _roots(ground, job)
    if exact and len(job.workers) <= MAX_EXACT_WORKERS and len(routers) <= MAX_EXACT_ROUTERS:
        shape = least_tree(ground, roots)
    else:
        grown = [grown_tree(ground, root) for root in roots[:N_ROOTS]]
        shape = min(grown, key=lambda tree: cost_of(ground, tree))
    return Vat(job.name, job.workers, tuple(_nodes(shape)), job.quota)


def _roots(ground: VatNet, job: Job) -> list[int]:
    """Roots to choose from, those with the least links to all workers first."""
    roots = [job.root] if job.root != NONE else list(ground.allowed)
    near = []
    for root in roots:
        hops = [ground.ways.hops(worker, root) for worker in job.workers]
        if max(hops) < FAR:
            near.append((sum(hops), ground.used[root], root))
    if not near:
        name = ground.ways.net.node_name(roots[0])
        raise ConfigError(f"{job.name}.root", name, "a node that all workers have a path to")
    return [root for _, _, root in sorted(near)]


def _nodes(shape: Shape) -> Iterator[VatNode]:
    """VAT nodes with their A-BMs, a parent before its children."""
    below: dict[int, list[int]] = {}
    for at, parent in shape.parent.items():
        below.setdefault(parent, []).append(at)
    order = [shape.root]
    for at in order:
        order += sorted(below.get(at, ()))
    a_bm = {
        at: mask_of(w for w, node in shape.worker_parent.items() if node == at) for at in order
    }
    for at in reversed(order[1:]):
        a_bm[shape.parent[at]] |= a_bm[at]
    for at in order:
        yield VatNode(at, shape.parent.get(at, NONE), a_bm[at])
