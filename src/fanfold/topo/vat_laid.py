"""Trees of a file as rows for the nodes of a live fabric, and what their ranks need to know.

A VAT node has its A-BM as BFR-ids and the neighbour toward its parent; a switch that lies
between two of them, or between a worker and its first one, only knows that neighbour. A node
knows one way for a group (docs/wire/fold.md section 4), so a tree that needs two is refused.
"""

from itertools import pairwise

import msgspec

from fanfold.errors import ConfigError
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_net import fabric_net
from fanfold.topo.net import Net
from fanfold.topo.vat import NONE, Vat, Ways, hosts_of
from fanfold.topo.vat_file import VatFile, vats_of
from fanfold.topo.vat_rules import check_vats

LEAST_SLOTS = 16
"""A rank has half as many blocks under way; with fewer a lost one stops all others."""
MOST_SLOTS = 512
"""As many as a group asks for that arms its tree itself."""


class LaidRow(msgspec.Struct, frozen=True):
    """What one node is told: the neighbour toward the root, empty at it; BFR-ids; slots."""

    at: str
    up: str
    a_bm: tuple[int, ...]
    slots: int


class LaidTree(msgspec.Struct, frozen=True):
    """A job's tree on a fabric.

    members: workers by rank. slots: of each of its nodes. rows: of nodes. ups: where each
    member sends. n_down: links that a result goes over to each.
    """

    job: str
    members: tuple[str, ...]
    slots: int
    rows: tuple[LaidRow, ...]
    ups: dict[str, str]
    n_down: dict[str, int]


def lay_trees(fabric: Fabric, file: VatFile) -> tuple[LaidTree, ...]:
    """Trees of all jobs of a file on a live fabric.

    Raises:
        ConfigError: a name that the fabric does not have, a rule that a tree breaks, slots that
            its BFRs do not have, a node that would need two ways for a group.
    """
    net = fabric_net(fabric)
    vats = vats_of(net, file)
    for i, vat in enumerate(vats):
        most = min(fabric.limits.array_slots, MOST_SLOTS)
        if not LEAST_SLOTS <= vat.quota <= most or vat.quota % 2:
            allowed = f"an even number, {LEAST_SLOTS}..{most}: slots of a BFR for a group"
            raise ConfigError(f"jobs[{i}].quota", vat.quota, allowed)
    slots = min(fabric.limits.array_slots, file.slots)
    for fault in check_vats(net, vats, slots):
        raise ConfigError(f"job {fault.job}", f"{fault.rule}: {fault.text}", "a sound tree")
    ways = Ways(net)
    return tuple(_lay(fabric, net, ways, vat) for vat in vats)


def _lay(fabric: Fabric, net: Net, ways: Ways, vat: Vat) -> LaidTree:
    up: dict[int, int] = {}
    for node in vat.nodes:
        if node.parent != NONE:
            _follow(net, up, vat, ways.way(node.at, node.parent))
    for worker in vat.workers:
        first = vat.node_of(worker)
        if first is not None and first.at != worker:
            _follow(net, up, vat, ways.way(worker, first.at))
    name, (root,) = net.node_name, vat.roots
    a_bms = {node.at: node.a_bm for node in vat.nodes}
    rows = []
    for at in sorted({*a_bms, *(node for node in up if node >= net.n_hosts)}):
        hosts = hosts_of(a_bms.get(at, 0))
        ids = tuple(fabric.by_name[name(host)].bfr_id for host in hosts)
        n_slots = vat.quota if ids else 0
        rows.append(LaidRow(name(at), name(up[at]) if at in up else "", ids, n_slots))
    members = tuple(map(name, vat.workers))
    ups = {name(worker): name(up.get(worker, worker)) for worker in vat.workers}
    n_down = {name(worker): ways.hops(root.at, worker) for worker in vat.workers}
    return LaidTree(vat.job, members, vat.quota, tuple(rows), ups, n_down)


def _follow(net: Net, up: dict[int, int], vat: Vat, way: tuple[int, ...]) -> None:
    """Note where each node of a way sends."""
    for node, to in pairwise(way):
        if up.setdefault(node, to) != to:
            other, name = up[node], net.node_name
            got = f"ways from {name(node)} by {name(other)} and by {name(to)}"
            raise ConfigError(f"job {vat.job}", got, "one way from a node toward the root")
