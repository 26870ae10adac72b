"""Where the gap table is measured: one fabric, a large group, a sparse group, rows of schemes.

The large group shows what grows with receivers, the sparse one what a group of an MoE layer
costs: DeepSeek-V3 has 256 experts and sends a token to 9 of them.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from fanfold.errors import ConfigError
from fanfold.scenario.settings import Feedback, TreeRepair
from fanfold.streams import stream
from fanfold.study.gap_table import NEVER_HERE
from fanfold.topo.net import Net
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import Routes, build_routes
from fanfold.trees.settings import TreeSettings

TOPOLOGY = "leaf-spine:leaves=16,spines=8,hosts=256,rate=400Gbps,delay=500ns"
RATE_BPS = 400_000_000_000
"""Of that topology's links, and of the claims of the ChiNOG slides (gap_examples.py)."""
SOURCE = 0
MEMBERS = 9
LOSS_PPB = 100_000
"""One packet of 10,000 on each link: 2 to 3 % of all packets miss somebody of 255."""
MESSAGE_BYTES = 8 << 20
TOKEN_BYTES = 7392
"""A token of DeepSeek-V3: 7,168 values of one octet and 224 octets of scales."""
FAR_TOPOLOGY = "fat-tree:k=64"
"""65,536 hosts, the most that BFR-ids of one sub-domain name but one."""
PPM = 10**6


Numbers = dict[str, int]
"""Values of one row of the table by name of the metric."""


class SchemeRow(NamedTuple):
    """A row of the table.

    name: as asked for. variant_of: row that it is a variant of, empty for a row of its own.
    what: what is different in a variant. protocol: row of ``trees/catalog.py``, empty where no
    tree protocol is needed. program: row of ``schemes/catalog.py`` that moves the data.
    tree: settings of the protocol. feedback: how receivers speak. is_doubled: two trees over
    different links. is_planned: receivers are named by the encoding that costs
    least there, not by BitStrings alone. tree_repair: to whom a tree's repairs go.
    """

    name: str
    variant_of: str
    what: str
    protocol: str
    program: str
    tree: TreeSettings = TreeSettings()
    feedback: Feedback = "auto"
    tree_repair: TreeRepair = "tree"
    is_doubled: bool = False
    is_planned: bool = False


_PLAIN = TreeSettings(local_repair=False)
_TOLD = TreeSettings(n_last_member_queries=0)
"""Members leave at once: nobody has to ask whether others are left."""
_BYPASS = TreeSettings(n_last_member_queries=0, link_bypass=True)
_BEST_SPEECH: tuple[Feedback, TreeRepair] = "nack", "unicast"
"""Only losses and marks of queues are told, and repairs go to those who lack a packet, as in
RFC 5740 with its congestion control."""
_PLAIN_WHAT = "plain: an ACK a packet, repairs to everybody, IGMP's queries, no detour"


def _tree(
    name: str,
    variant_of: str,
    what: str,
    moved: tuple[str, str],
    tree: TreeSettings = _TOLD,
) -> SchemeRow:
    """A tree in its best published form; moved: protocol and program."""
    return SchemeRow(name, variant_of, what, *moved, tree, *_BEST_SPEECH)


def _plain_tree(of: str, moved: tuple[str, str]) -> SchemeRow:
    return SchemeRow(f"{of}{PLAIN}", of, _PLAIN_WHAT, *moved, _PLAIN, "packet")


PLAIN = "+plain"
"""Ends the name of a row that stands beside its scheme's best published form."""
PIM, MLDP, SR = ("pim-sm", "pim-sm"), ("mldp-p2mp", "mldp"), ("sr-p2mp", "sr-p2mp")
_TWO = "two trees, RFC 7431; routers know each member; only losses and marks are told"
_DETOUR = "round a dead link, RFC 7715; routers know each member; only losses and marks"
ROWS: tuple[SchemeRow, ...] = (
    SchemeRow("unicast", "", "", "", "unicast"),
    SchemeRow("ring", "", "", "", "ring"),
    SchemeRow("binary-tree", "", "", "", "binary-tree"),
    _tree("pim-sm", "", _TWO, PIM)._replace(is_doubled=True),
    _plain_tree("pim-sm", PIM),
    _tree("pim-dm", "pim-sm", "dense mode, one tree", ("pim-dm", "pim-dm")),
    _tree("bidir-pim", "pim-sm", "bidirectional, one tree", ("bidir-pim", "bidir-pim")),
    _tree("pim-sm+acks", "pim-sm", "an ACK a packet", PIM)._replace(
        is_doubled=True, feedback="packet"
    ),
    _tree("mldp", "", _DETOUR, MLDP, _BYPASS),
    _plain_tree("mldp", MLDP),
    _tree("mldp-mp2mp", "mldp", "both ways, no bypass", ("mldp-mp2mp", "mldp-mp2mp")),
    _tree("sr-p2mp", "", "TI-LFA; leaves told; only losses and marks", SR),
    _plain_tree("sr-p2mp", SR),
    SchemeRow(
        "bier", "", "draft-ietf-bier-frr; only losses and marks", "", "bier", _TOLD, "nack"
    ),
    SchemeRow(
        f"bier{PLAIN}",
        "bier",
        "plain: an ACK a packet, no detour before new paths",
        "",
        "bier",
        _PLAIN,
        "packet",
    ),
    SchemeRow("bier+words", "bier", "a word a block from each", "", "bier", _TOLD, "block"),
    SchemeRow("fanfold", "", "as it runs", "", "fanfold"),
    SchemeRow(
        "fanfold+encodings",
        "fanfold",
        "the encoding that costs least; BFRs carry BitStrings only",
        "",
        "fanfold",
        is_planned=True,
    ),
)
"""Rows in the order of the table, each followed by its variants: schemes in their best
published form, and their plain one beside."""


class GapNet(NamedTuple):
    """One fabric and two groups on it; hosts by index in the net.

    receivers: the large group, spread evenly. members: the sparse one, drawn. others: hosts in
    neither of source and members, in an order that is drawn. message_bytes: to the large
    group. far_topology: where a sparse group of the same size is one of very many.
    """

    topology: str
    net: Net
    routes: Routes
    seed: int
    loss_ppb: int
    receivers: tuple[int, ...]
    members: tuple[int, ...]
    others: tuple[int, ...]
    message_bytes: int = MESSAGE_BYTES
    far_topology: str = FAR_TOPOLOGY


def build_ground(
    topology: str = TOPOLOGY,
    *,
    n_receivers: int = 0,
    n_members: int | None = None,
    loss_ppb: int = LOSS_PPB,
    seed: int = 1,
    message_bytes: int = MESSAGE_BYTES,
    far_topology: str = FAR_TOPOLOGY,
) -> GapNet:
    """Net, routes and groups.

    Args:
        n_receivers: of the large group, 0 for all hosts but the source. n_members: of the
            sparse one, None for MEMBERS or as many as there can be.

    Raises:
        ConfigError: no such topology, or more receivers or members than it has hosts.
    """
    net = build_named_net(topology, seed)
    most = net.n_hosts - 1
    if most < 2:
        allowed = "3 or more: a source, a member and one that joins later"
        raise ConfigError("topology", f"{net.n_hosts} hosts", allowed)
    if n_members is None:
        n_members = min(MEMBERS, most - 1)
    if not 0 <= n_receivers <= most:
        raise ConfigError("receivers", n_receivers, f"1..{most}, hosts but the source")
    if not 1 <= n_members < most:
        allowed = f"1..{most - 1}: a member and one that joins later, not the source"
        raise ConfigError("members", n_members, allowed)
    n = n_receivers or most
    drawn = 1 + stream(seed, "gap/members").permutation(most)
    return GapNet(
        topology,
        net,
        build_routes(net),
        seed,
        loss_ppb,
        tuple(1 + i * most // n for i in range(n)),
        tuple(np.sort(drawn[:n_members]).tolist()),
        tuple(drawn[n_members:].tolist()),
        message_bytes,
        far_topology,
    )


def worst_of(times: Iterable[int]) -> int:
    """The longest; never where one of them never comes."""
    known = list(times)
    return NEVER_HERE if NEVER_HERE in known else max(known)
