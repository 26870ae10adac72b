"""A fabric: nodes, links and the BIER numbers that all of them share.

A ``host`` sends and receives and never passes traffic on; a ``bfr`` forwards, and has a BFR-id
only where it is a BFER as well (RFC 8279 section 2). Ports of a node are its neighbours from 1
on, in the order of their names, or with ``ports = "links"`` of the file's links; port 0 is the
node itself. ``version`` numbers the tables that follow from weights and links that are up.
"""

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Literal

import msgspec

from fanfold.kernels.layout import TRAILER_BYTES

Role = Literal["host", "bfr"]
KeyMode = Literal["off", "on", "required"]
LinkMode = Literal["", "off", "on", "required"]
Openness = Literal["", "none", "links", "ends", "all"]


REVOKED = "revoked"
"""In the place of a node's ``link_key``: nobody has a session with it any more."""


class Node(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One BFR: a name, an IPv4 address (its BFR-prefix) and, for a BFER, a BFR-id.

    link_key: its public key, for links that have keys, or REVOKED; link_key_also: another one
    that counts as well, while one takes the other's place. labels: what an operator says of
    it, pairs, sorted, signed by ``label_seal`` (topo/labels.py). site: where a host stands,
    for pushes with relays; empty: nobody says.
    """

    name: str
    address: str
    role: Role
    bfr_id: int = 0
    link_key: str = ""
    link_key_also: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    label_seal: str = ""
    site: str = ""


class Link(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One link between two nodes, both ways.

    rate, delay: of the line, text with a unit, empty where nobody said. weight: what a path
    over it costs, of links between BFRs. plane: which one it belongs to. up: paths may use it.
    keys: whether packets on it are authenticated, empty: as ``link_keys`` of the fabric.
    """

    a: str
    b: str
    rate: str = ""
    delay: str = ""
    weight: int = 1
    plane: int = 0
    up: bool = True
    keys: LinkMode = ""


class ArrayLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of each BFR where arrays are joined (docs/wire/fold.md section 4).

    array_groups: groups that have slots at once. array_slots: slots of all groups, 9 KB each
    once in use. group_slots: slots of one group at most, 0: as many as are left.
    """

    array_groups: int = 1024
    array_slots: int = 16384
    group_slots: int = 0


class Tenant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hosts that share a fabric's links with others, and nothing else.

    sub_domain: theirs alone (RFC 8279 section 2). What they have of each BFR is theirs too:
    slots of words, a power of two; array_slots, 0: as ``limits``; cache, empty: as the
    fabric's. rate: what may come in of theirs at a BFR, empty: any. receivers: of one push at
    most, 0: any number. only_through: a label, KEY=VALUE, that every node on its ways has.
    """

    name: str
    sub_domain: int
    hosts: tuple[str, ...]
    slots: int = 1024
    array_slots: int = 0
    cache: str = ""
    rate: str = ""
    receivers: int = 0
    only_through: str = ""


class Fabric(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Nodes and links of one domain, in the order of the file.

    sub_domain: of all BFERs that are no tenant's.

    cache: what each BFR keeps of DATA that passes, to repair from; text with a unit, "0" none.
    link_keys: of links that say nothing themselves: "off" no keys, "on" packets without are
    taken too, "required" they are not. open: what is asked to do without keys, empty: as
    topo/openness.py has it.
    """

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    sub_domain: int = 0
    bitstring_bits: int = 256
    mtu: int = 9000
    port: int = 8138
    n_ecmp: int = 1
    ports: Literal["names", "links"] = "names"
    version: int = 1
    cache: str = "16MiB"
    link_keys: KeyMode = "off"
    open: Openness = ""
    limits: ArrayLimits = ArrayLimits()
    tenants: tuple[Tenant, ...] = ()

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        """Nodes by name."""
        return MappingProxyType({node.name: node for node in self.nodes})

    @cached_property
    def by_address(self) -> Mapping[str, Node]:
        """Nodes by IPv4 address."""
        return MappingProxyType({node.address: node for node in self.nodes})

    @cached_property
    def by_bfr_id(self) -> Mapping[int, Node]:
        """BFERs by BFR-id, in rising order."""
        bfers = sorted((n for n in self.nodes if n.bfr_id), key=lambda n: n.bfr_id)
        return MappingProxyType({node.bfr_id: node for node in bfers})

    @cached_property
    def neighbours(self) -> Mapping[str, tuple[str, ...]]:
        """Neighbours by node name: the one at index i is behind port i + 1."""
        found: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for link in self.links:
            found[link.a].append(link.b)
            found[link.b].append(link.a)
        order = sorted if self.ports == "names" else tuple
        return MappingProxyType({name: tuple(order(them)) for name, them in found.items()})

    @cached_property
    def key_modes(self) -> Mapping[frozenset[str], KeyMode]:
        """Of each link, by its two ends, whether it has keys."""
        found: dict[frozenset[str], KeyMode] = {}
        for link in self.links:
            found[frozenset((link.a, link.b))] = link.keys or self.link_keys
        return MappingProxyType(found)

    @cached_property
    def tenant_of(self) -> Mapping[str, Tenant]:
        """Tenants by host; who is no tenant's is not in it."""
        return MappingProxyType({name: one for one in self.tenants for name in one.hosts})

    def sub_domain_of(self, name: str) -> int:
        """Sub-domain that a BFER is in."""
        one = self.tenant_of.get(name)
        return one.sub_domain if one is not None else self.sub_domain

    def tenant_name(self, name: str) -> str:
        """Tenant of a node, empty where it is none's."""
        one = self.tenant_of.get(name)
        return one.name if one is not None else ""

    def rule_of(self, sub_domain: int) -> str:
        """Label that every node on the ways of a sub-domain has, KEY=VALUE; empty: any."""
        rules = {one.sub_domain: one.only_through for one in self.tenants}
        return rules.get(sub_domain, "")

    def keeps_rule(self, name: str, sub_domain: int) -> bool:
        """Whether packets of a sub-domain may pass a node, by its labels in the file."""
        key, _, value = self.rule_of(sub_domain).partition("=")
        return not key or (key, value) in self.by_name[name].labels

    def peers_of(self, name: str) -> tuple[str, ...]:
        """Hosts that a host may send to: those of its tenant, itself among them."""
        hosts = [node.name for node in self.nodes if node.role == "host"]
        own = self.tenant_name(name)
        return tuple(host for host in hosts if self.tenant_name(host) == own)

    @cached_property
    def sub_domains(self) -> Mapping[int, tuple[int, ...]]:
        """BFR-ids by sub-domain, those of tenants in the order of the file."""
        found: dict[int, list[int]] = {self.sub_domain: []}
        for one in self.tenants:
            found[one.sub_domain] = []
        for bfr_id, node in self.by_bfr_id.items():
            found[self.sub_domain_of(node.name)].append(bfr_id)
        return MappingProxyType({key: tuple(ids) for key, ids in found.items()})

    def has_keys(self, name: str) -> bool:
        """Some link of a node has keys."""
        return any(name in ends and mode != "off" for ends, mode in self.key_modes.items())

    def line_mtu(self) -> int:
        """Bytes of the largest packet of a link, its trailer included."""
        some = any(mode != "off" for mode in self.key_modes.values())
        return self.mtu + (TRAILER_BYTES if some else 0)

    def port_to(self, name: str, neighbour: str) -> int:
        """Port of a node that leads to a neighbour; 0 to itself."""
        return 0 if name == neighbour else self.neighbours[name].index(neighbour) + 1

    def has_other_way(self, a: str, b: str) -> bool:
        """Both ends of a link have another one, to a BFR: hosts pass nothing on."""
        return all(
            any(self.by_name[to].role == "bfr" for to in self.neighbours[end] if to != other)
            for end, other in ((a, b), (b, a))
        )

    def port_nodes(self, name: str) -> tuple[Node, ...]:
        """Nodes by port, the node itself first."""
        return tuple(self.by_name[n] for n in (name, *self.neighbours[name]))


def whose(tenant: str) -> str:
    """A tenant in words."""
    return f"tenant {tenant}" if tenant else "no tenant"
