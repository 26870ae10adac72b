"""What makes a fabric usable: one ConfigError for the first rule that is broken.

Field names are those of the file after ``source``: "lab.toml: node[3].bfr_id", from node[0] on.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network

from fanfold.errors import ConfigError
from fanfold.ids import check_bfr_id
from fanfold.seals.link_keys import read_link_public
from fanfold.topo.fabric import REVOKED, Fabric, Link, Node
from fanfold.topo.field_rules import check_cache, check_labels, check_name
from fanfold.topo.tenant_rules import check_tenants
from fanfold.units import parse_duration, parse_rate
from fanfold.wire.bitstring import (
    ALLOWED_BITS,
    MAX_BSL,
    MAX_SI,
    MAX_SUB_DOMAIN,
    MIN_BSL,
    bitstring_bits,
)

MAX_ECMP = 256
"""Tables of one BIFT-id."""
MAX_VERSION = 2**31 - 1
MAX_WEIGHT, MAX_PLANE = 255, 63
MAX_GROUPS = 1 << 16
MAX_SLOTS = 1 << 18
MTU_RANGE = (576, 65535)
"""RFC 791 section 3.2: what every IPv4 host takes, and what its length field can say."""

_NOT_OF_ONE = tuple(
    (IPv4Network(network), what)
    for network, what in (
        ("0.0.0.0/8", "of no machine (RFC 1122 section 3.2.1.3)"),
        ("127.0.0.0/32", "the network of loopback itself"),
        ("127.255.255.255/32", "the broadcast of loopback"),
        ("169.254.0.0/16", "link-local, another on each link (RFC 3927)"),
        ("224.0.0.0/4", "a multicast group (RFC 1112)"),
        ("255.255.255.255/32", "the broadcast of every link"),
        ("240.0.0.0/4", "reserved (RFC 1112)"),
    )
)


def check_fabric(fabric: Fabric, source: str) -> None:
    """Raise ConfigError naming ``source`` and the field where a rule is broken."""
    _check_numbers(fabric, source)
    _check_nodes(fabric, source)
    _check_links(fabric, source)
    _check_reach(fabric, source)
    check_tenants(fabric, source)


def _check_numbers(fabric: Fabric, source: str) -> None:
    check_name(fabric.name, f"{source}: fabric.name")
    if fabric.bitstring_bits not in map(bitstring_bits, range(MIN_BSL, MAX_BSL + 1)):
        raise ConfigError(
            f"{source}: fabric.bitstring_bits", fabric.bitstring_bits, ALLOWED_BITS
        )
    limits = fabric.limits
    bounds = (
        ("fabric.sub_domain", fabric.sub_domain, 0, MAX_SUB_DOMAIN),
        ("fabric.mtu", fabric.mtu, *MTU_RANGE),
        ("fabric.port", fabric.port, 1, 65535),
        ("fabric.n_ecmp", fabric.n_ecmp, 1, MAX_ECMP),
        ("fabric.version", fabric.version, 1, MAX_VERSION),
        ("limits.array_groups", limits.array_groups, 1, MAX_GROUPS),
        ("limits.array_slots", limits.array_slots, 0, MAX_SLOTS),
        ("limits.group_slots", limits.group_slots, 0, MAX_SLOTS),
    )
    for key, value, low, high in bounds:
        if not low <= value <= high:
            raise ConfigError(f"{source}: {key}", value, f"{low}..{high}")
    check_cache(fabric.cache, f"{source}: fabric.cache")


def _check_nodes(fabric: Fabric, source: str) -> None:
    seen: dict[tuple[str, str | int], int] = {}
    is_far = any(_is_far(node.address) for node in fabric.nodes)
    if not fabric.nodes:
        raise ConfigError(f"{source}: node", "none", "at least one [[node]]")
    for index, node in enumerate(fabric.nodes):
        where = f"{source}: node[{index}]"
        check_name(node.name, f"{where}.name")
        _check_address(node.address, f"{where}.address", is_far=is_far)
        _check_node_id(node, fabric.bitstring_bits, f"{where}.bfr_id")
        check_labels(node.labels, f"{where}.labels")
        if node.site:
            check_name(node.site, f"{where}.site")
        for key, value in _unique_values(node):
            if (first := seen.setdefault((key, value), index)) != index:
                raise ConfigError(f"{where}.{key}", value, f"one that node[{first}] has not")


def _unique_values(node: Node) -> Iterator[tuple[str, str | int]]:
    yield "name", node.name
    yield "address", node.address
    if node.bfr_id:
        yield "bfr_id", node.bfr_id
    for key in (node.link_key, node.link_key_also):
        if key not in ("", REVOKED):
            yield "link_key", key


def _check_address(address: str, field: str, *, is_far: bool) -> None:
    """An address of one interface that neighbours can send to.

    Args:
        is_far: some node of the fabric is on no loopback address.
    """
    try:
        ip = IPv4Address(address)
    except ValueError as err:
        raise ConfigError(field, address, "an IPv4 address such as 127.81.0.1") from err
    for network, what in _NOT_OF_ONE:
        if ip in network:
            raise ConfigError(field, address, f"an address of one machine; this is {what}")
    if ip.is_loopback and is_far:
        allowed = "one that other machines reach; loopback only where all nodes have it"
        raise ConfigError(field, address, allowed)


def _is_far(address: str) -> bool:
    try:
        return not IPv4Address(address).is_loopback
    except ValueError:  # told by its own field
        return False


def _check_node_id(node: Node, n_bits: int, field: str) -> None:
    """Hosts are BFERs and need a BFR-id; its set must fit the SI (RFC 8279 section 3)."""
    if node.role == "bfr" and node.bfr_id == 0:
        return
    highest = (MAX_SI + 1) * n_bits
    if check_bfr_id(node.bfr_id, field) > highest:
        raise ConfigError(field, node.bfr_id, f"1..{highest}, {MAX_SI + 1} sets of {n_bits}")


def _check_links(fabric: Fabric, source: str) -> None:
    seen: dict[frozenset[str], int] = {}
    for index, link in enumerate(fabric.links):
        where = f"{source}: link[{index}].between"
        for end in (link.a, link.b):
            if end not in fabric.by_name:
                raise ConfigError(where, end, "the name of a [[node]]")
        if link.a == link.b:
            raise ConfigError(where, link.a, "two different nodes")
        if (first := seen.setdefault(frozenset((link.a, link.b)), index)) != index:
            raise ConfigError(where, [link.a, link.b], f"a pair that link[{first}] has not")
        _check_line(fabric, link, f"{source}: link[{index}]")


def _check_line(fabric: Fabric, link: Link, where: str) -> None:
    """What a path needs to know of a link, and the simulator of its line."""
    is_inner = all(fabric.by_name[end].role == "bfr" for end in (link.a, link.b))
    most = MAX_WEIGHT if is_inner else 1
    if not 1 <= link.weight <= most:
        allowed = f"1..{most}" if is_inner else "1: a path costs nothing where it ends"
        raise ConfigError(f"{where}.weight", link.weight, allowed)
    if not 0 <= link.plane <= MAX_PLANE:
        raise ConfigError(f"{where}.plane", link.plane, f"0..{MAX_PLANE}")
    _check_keys(fabric, link, where)
    if link.rate:
        parse_rate(link.rate, f"{where}.rate")
    if link.delay:
        parse_duration(link.delay, f"{where}.delay")


def _check_keys(fabric: Fabric, link: Link, where: str) -> None:
    """Both ends of a link with keys have one, and nobody has another's."""
    if (link.keys or fabric.link_keys) == "off":
        return
    for end in (link.a, link.b):
        index = next(i for i, node in enumerate(fabric.nodes) if node.name == end)
        source = where.rsplit(": ", 1)[0]
        node = fabric.by_name[end]
        if node.link_key != REVOKED:
            read_link_public(node.link_key, f"{source}: node[{index}].link_key")
        if node.link_key_also:
            read_link_public(node.link_key_also, f"{source}: node[{index}].link_key_also")


def _check_reach(fabric: Fabric, source: str) -> None:
    """Every node reaches every other; hosts pass nothing on.

    BFRs of several parts, such as switches inside servers, are as good where every two hosts
    have a part in common.
    """
    if _share_parts(fabric):
        return
    bfrs = [node.name for node in fabric.nodes if node.role == "bfr"]
    for start in bfrs[:1] or fabric.by_name:
        reached = _reached(fabric, start)
        for index, node in enumerate(fabric.nodes):
            if node.name not in reached:
                allowed = f"a node that {start} reaches over links, not through hosts"
                raise ConfigError(f"{source}: node[{index}]", node.name, allowed)


def _share_parts(fabric: Fabric) -> bool:
    """Whether there are hosts and every two of them hang on one part of the BFRs."""
    part_of: dict[str, str] = {}
    for node in fabric.nodes:
        if node.role == "bfr" and node.name not in part_of:
            reached = _reached(fabric, node.name)
            part_of |= dict.fromkeys((n for n in reached if _is_bfr(fabric, n)), node.name)
    homes = {
        frozenset(part_of[n] for n in fabric.neighbours[node.name] if n in part_of)
        for node in fabric.nodes
        if node.role == "host"
    }
    is_used = set(part_of.values()) == frozenset().union(*homes)
    return bool(homes) and is_used and all(a & b for a in homes for b in homes)


def _is_bfr(fabric: Fabric, name: str) -> bool:
    """Whether a node passes on."""
    return fabric.by_name[name].role == "bfr"


def _reached(fabric: Fabric, start: str) -> set[str]:
    reached, todo = {start}, [start]
    while todo:
        name = todo.pop()
        if name == start or fabric.by_name[name].role == "bfr":
            new = set(fabric.neighbours[name]) - reached
            reached |= new
            todo.extend(new)
    return reached
