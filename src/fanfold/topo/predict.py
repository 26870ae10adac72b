"""What crosses each link of a fabric, and which part of it a loss pattern points to.

RFC 8279 section 6.5 walked with sets of names over the BIFTs of every node. No F-BM and no
kernel takes part, so a lab that counts the same packets has both right. A direction of a link
is the pair (from, to); in a list of suspects its name is "from-to".
"""

from collections.abc import Iterable, Iterator, Set

from fanfold.errors import ConfigError
from fanfold.kernels.tables import NULL_NBR
from fanfold.topo.bift import build_bifts, table_of
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_routes import FabricRoutes
from fanfold.wire.bitstring import bift_id, bsl_of_bits, place

Receivers = frozenset[str]
Direction = tuple[str, str]
Element = tuple[str, ...]
"""A node, (name,), or a direction of a link."""
NO_ROW = -1
Sent = tuple[Receivers, int, int, int]
"""Receivers, packets, bytes of all these packets on a link, entropy."""


def predict_links(
    fabric: Fabric, source: str, packets_by_receivers: Iterable[Sent]
) -> dict[Direction, tuple[int, int]]:
    """Packets and bytes on each direction of each link that is used.

    Receivers of k SIs take k packets (RFC 8279 section 3), each with all the bytes. A source
    among its own receivers costs nothing on a link.
    """
    tables = _Tables(fabric)
    wanted: dict[tuple[Receivers, int], tuple[int, int]] = {}
    for receivers, n_packets, n_bytes, entropy in packets_by_receivers:
        key = receivers, table_of(entropy, fabric.n_ecmp)
        wanted[key] = _add(wanted.get(key, (0, 0)), (n_packets, n_bytes))
    links: dict[Direction, tuple[int, int]] = {}
    for (receivers, entropy), sums in wanted.items():
        for direction, _ in tables.copies(source, receivers, entropy):
            links[direction] = _add(links.get(direction, (0, 0)), sums)
    return links


def receivers_behind(
    fabric: Fabric, source: str, entropy: int, targets: Set[str] | None = None
) -> dict[Direction, Receivers]:
    """Receivers that a packet of this entropy to the targets reaches over each direction.

    targets: names of BFERs; None for all but the source.
    """
    if targets is None:
        targets = {n.name for n in fabric.by_bfr_id.values() if n.name != source}
    behind: dict[Direction, Receivers] = {}
    for direction, receivers in _Tables(fabric).copies(source, frozenset(targets), entropy):
        behind[direction] = behind.get(direction, frozenset()) | receivers
    return behind


def nodes_on_trees(
    fabric: Fabric, source: str, entropy: int, targets: Set[str]
) -> tuple[str, ...]:
    """Nodes that packets of this entropy to the targets reach, the targets too."""
    reached = {to for _, to in receivers_behind(fabric, source, entropy, targets)}
    return tuple(node.name for node in fabric.nodes if node.name in reached)


def suspect(
    fabric: Fabric,
    source: str,
    missing: Set[str],
    entropy: int,
    targets: Set[str] | None = None,
    dead: Set[Element] = frozenset(),
) -> list[str]:
    """Nodes and links behind which exactly the missing receivers sit, nearest the source first.

    What is known to be dead and explains some of them is named for these. Where no single
    element explains the others, those that explain most each without blaming a receiver that
    was heard. Elements in a chain stand together: this entropy cannot tell them apart, another
    one may.

    Args:
        targets: who the packets were for, as in ``receivers_behind``. dead: nodes and
            directions of links by which nothing came, by other knowledge.
    """
    behind: dict[Element, Receivers] = {}
    for direction, receivers in receivers_behind(fabric, source, entropy, targets).items():
        for element in (direction, direction[1:]):
            behind[element] = behind.get(element, frozenset()) | receivers
    unknown = sorted(missing - frozenset().union(*behind.values()))
    if unknown:
        raise ConfigError("missing", unknown[0], f"BFERs other than {source}")
    guilty = {element: them for element, them in behind.items() if them <= missing}
    found = _largest({element: them for element, them in guilty.items() if element in dead})
    left = missing - frozenset().union(*(guilty[element] for element in found))
    found += _largest({element: them for element, them in guilty.items() if them <= left})
    return ["-".join(element) for element in found]


def _largest(guilty: dict[Element, Receivers]) -> list[Element]:
    return [e for e, them in guilty.items() if not any(them < o for o in guilty.values())]


def _add(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a[0] + b[0], a[1] + b[1]


class _Tables:
    """BIFTs of a fabric as dicts: by node and table, the port of each receiver."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._routes = FabricRoutes(fabric)
        self._bsl = bsl_of_bits(fabric.bitstring_bits)
        self._ports: dict[str, list[dict[str, int]]] = {}

    def copies(
        self, source: str, receivers: Receivers, entropy: int
    ) -> Iterator[tuple[Direction, Receivers]]:
        """Each copy on each link and the receivers in its BitString, source first."""
        if source not in self._fabric.by_name:
            raise ConfigError("source", source, f"a node of {self._fabric.name}")
        sets: dict[int, set[str]] = {}
        for name in receivers:
            sets.setdefault(self._place(name)[0], set()).add(name)
        todo = [(source, sets[si]) for si in sorted(sets)]
        for name, bits in todo:  # grows while hops to go remain; each hop has one less
            for nbr, share in self._split(name, bits, entropy):
                yield (name, nbr), frozenset(share)
                todo.append((nbr, share))

    def _split(self, name: str, bits: set[str], entropy: int) -> list[tuple[str, set[str]]]:
        """Copies that leave a node, by neighbour; what is its own or null stays."""
        onward = bits - {name}  # RFC 8279 6.5 step 4
        if not onward:
            return []
        if name not in self._ports:
            self._ports[name] = self._read(name)
        port_of = self._ports[name][table_of(entropy, self._fabric.n_ecmp)]
        shares: dict[int, set[str]] = {}
        for receiver in onward:
            shares.setdefault(port_of[receiver], set()).add(receiver)
        ends = self._fabric.port_nodes(name)
        return [(ends[port].name, shares[port]) for port in sorted(shares) if port != NULL_NBR]

    def _read(self, name: str) -> list[dict[str, int]]:
        bifts = build_bifts(self._routes, name)
        row_of = {int(i): t for t, i in enumerate(bifts.ids)}
        tables: list[dict[str, int]] = [{} for _ in range(self._fabric.n_ecmp)]
        for bfer in self._fabric.by_bfr_id.values():
            si, bit_position = self._place(bfer.name)
            sub_domain = self._fabric.sub_domain_of(bfer.name)
            row = row_of.get(bift_id(self._bsl, sub_domain, si), NO_ROW)
            if row == NO_ROW:
                continue  # of another tenant than this host
            for index, table in enumerate(tables, int(bifts.first[row])):
                table[bfer.name] = int(bifts.nbr_of[index, bit_position - 1])
        return tables

    def _place(self, name: str) -> tuple[int, int]:
        node = self._fabric.by_name.get(name)
        if node is None or not node.bfr_id:
            raise ConfigError("receivers", name, "names of nodes that have a BFR-id")
        return place(node.bfr_id, self._bsl)
