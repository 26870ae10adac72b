"""A fabric of several machines from few words: hosts and BFRs by address, or a topology."""

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from itertools import combinations
from pathlib import Path

import msgspec

from fanfold.errors import ConfigError
from fanfold.topo.fabric import Fabric, Link, Node
from fanfold.topo.fabric_rules import check_fabric
from fanfold.topo.lab_fabric import LabFabric, lab_fabric
from fanfold.topo.nets import build_named_net

HOST_FORM = "NAME=ADDRESS, or NAME=ADDRESS@BFR, NAME=ADDRESS@BFR+BFR of several BFRs"
BFR_FORM = "NAME=ADDRESS, such as leaf1=10.0.0.1"
NET_FORM = "a network such as 10.1.0.0/24, or a file with a line NAME ADDRESS for each node"


def listed_fabric(name: str, hosts: str, bfrs: str, links: str = "") -> Fabric:
    """Hosts behind BFRs.

    Args:
        hosts: "h0=10.0.0.10,h1=10.0.0.11", each at the BFR or BFRs that it names after an "@",
            where there are several. bfrs: "leaf1=10.0.0.1". links: of BFRs, "leaf1-spine1";
            where empty, each is joined with each.

    Raises:
        ConfigError: names the flag and what of it is wrong.
    """
    routers = [(one, address) for one, address, _ in _listed(bfrs, "--bfrs", BFR_FORM)]
    names = [one for one, _ in routers]
    nodes: list[Node] = []
    joined: list[Link] = []
    for host, address, at in _listed(hosts, "--hosts", HOST_FORM):
        if not at and len(names) > 1:
            raise ConfigError("--hosts", host, f"{host}=ADDRESS@BFR, with {', '.join(names)}")
        nodes.append(Node(host, address, "host", len(nodes) + 1))
        for bfr in at or names:
            if bfr not in names:
                raise ConfigError("--hosts", f"{host} at {bfr}", ", ".join(names))
            joined.append(Link(bfr, host))
    nodes += [Node(one, address, "bfr") for one, address in routers]
    joined += _between(names, links)
    fabric = Fabric(name, tuple(nodes), tuple(joined))
    check_fabric(fabric, "--hosts, --bfrs")
    return fabric


def placed_fabric(name: str, topology: str, addresses: str) -> LabFabric:
    """A topology by name, as `lab up --topology` takes it, at addresses of machines.

    Args:
        addresses: a network, dealt hosts first, or a file of names and addresses.

    Raises:
        ConfigError: no such topology, or too few addresses.
    """
    made = lab_fabric(build_named_net(topology), name=name)
    names = [node.name for node in made.fabric.nodes]
    found = _addresses(addresses, names)
    nodes = tuple(
        msgspec.structs.replace(node, address=found[node.name]) for node in made.fabric.nodes
    )
    fabric = msgspec.structs.replace(made.fabric, nodes=nodes)
    check_fabric(fabric, "--addresses")
    return made._replace(fabric=fabric)


def _listed(text: str, flag: str, form: str) -> Iterator[tuple[str, str, list[str]]]:
    """Name, address and what stands after an "@", of each part."""
    for part in text.split(","):
        name, equals, rest = part.strip().partition("=")
        address, at, bfrs = rest.partition("@")
        is_bad = not (name and equals and address) or (bool(at) and flag != "--hosts")
        if is_bad or (at and not all(bfrs.split("+"))):
            raise ConfigError(flag, part, form)
        yield name, address, bfrs.split("+") if at else []


def _between(names: list[str], links: str) -> list[Link]:
    """Links of BFRs."""
    if not links:
        return [Link(a, b) for a, b in combinations(names, 2)]
    pairs = {f"{a}-{b}": Link(a, b) for a in names for b in names if a != b}
    found = []
    for part in links.split(","):
        if part.strip() not in pairs:
            raise ConfigError("--links", part, "two of --bfrs with '-' between")
        found.append(pairs[part.strip()])
    return found


def _addresses(text: str, names: list[str]) -> Mapping[str, str]:
    """An address for each of some nodes."""
    path = Path(text)
    if path.is_file():
        return _of_file(path, names)
    try:
        network = IPv4Network(text)
    except ValueError as error:
        raise ConfigError("--addresses", text, NET_FORM) from error
    found = dict(zip(names, map(str, network.hosts()), strict=False))
    if len(found) < len(names):
        allowed = f"a network with room for {len(names)} nodes"
        raise ConfigError("--addresses", text, allowed)
    return found


def _of_file(path: Path, names: list[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("--addresses", f"{path}: {error}", NET_FORM) from error
    for i, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or words[0] not in names or words[0] in found:
            allowed = f"NAME ADDRESS, once for each of {', '.join(names[:8])}.."
            raise ConfigError(f"--addresses {path}: line {i}", line[:80], allowed)
        found[words[0]] = words[1]
    lacking = [name for name in names if name not in found]
    if lacking:
        raise ConfigError(f"--addresses {path}", f"no {lacking[0]}", "a line for each node")
    return found
