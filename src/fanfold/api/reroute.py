"""New tables for a lab that runs; `fanfold lab reroute` is this with its flags around it."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from fanfold.api.site import Site
from fanfold.errors import ConfigError
from fanfold.live.control_sockets import Call, ask_all
from fanfold.live.lab import Lab
from fanfold.topo.bift import table_rows
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_routes import FabricRoutes
from fanfold.topo.fabric_rules import check_fabric

SWAP_S = 5.0
MAX_DIGITS = 10


def rerouted(
    fabric: Fabric, cut: Sequence[str], join: Sequence[str], weight: Sequence[str]
) -> Fabric:
    """The fabric after these changes, in the next version."""
    changes: list[tuple[str, str, dict[str, Any]]] = [
        *(("--cut", link, {"up": False}) for link in cut),
        *(("--join", link, {"up": True}) for link in join),
        *(("--weight", *parse_weight(text)) for text in weight),
    ]
    if not changes:
        raise ConfigError("--cut", "nothing", "a link for --cut, --join or --weight")
    for flag, text, change in changes:
        names = {f"{link.a}-{link.b}": link for link in fabric.links}
        names |= {f"{link.b}-{link.a}": link for link in fabric.links}
        if text not in names:
            raise ConfigError(flag, text, "a link of the lab: both its nodes with '-' between")
        new = msgspec.structs.replace(names[text], **change)
        links = tuple(new if link is names[text] else link for link in fabric.links)
        fabric = msgspec.structs.replace(fabric, links=links)
    fabric = msgspec.structs.replace(fabric, version=fabric.version + 1)
    check_fabric(fabric, "--weight")
    return fabric


def parse_weight(text: str) -> tuple[str, dict[str, Any]]:
    """Link and cost of ``leaf1-spine1=3``."""
    link, _, cost = text.rpartition("=")
    if not (cost.isascii() and cost.isdecimal() and len(cost) < MAX_DIGITS):
        raise ConfigError("--weight", text, "LINK=COST, such as leaf1-spine1=3")
    return link, {"weight": int(cost)}


def install(lab: Lab, fabric: Fabric) -> dict[str, str]:
    """New tables to all nodes that live; who has not taken them, and why.

    The lab's own file is first: a node that starts meanwhile has the new tables too.
    """
    lab.keep(fabric)
    alive = [node for node, entry in lab.nodes().items() if entry["alive"]]
    return _give(fabric, {node: partial(Call, lab.control_socket(node)) for node in alive})


def install_at(site: Site, fabric: Fabric) -> dict[str, str]:
    """New tables to all nodes of several machines, by their operator's key; as ``install``.

    What their files say is for who carries the new one there.
    """
    return _give(fabric, {node: partial(site.call, node) for node in fabric.by_name})


def _give(
    fabric: Fabric, ask: Mapping[str, Callable[[dict[str, Any]], Call]]
) -> dict[str, str]:
    routes = FabricRoutes(fabric)
    links = [link.weight if link.up else 0 for link in fabric.links]
    same = {"do": "table", "version": fabric.version, "links": links}
    calls = {
        node: call(same | {"rows": table_rows(routes, node)}) for node, call in ask.items()
    }
    answers = ask_all(calls, SWAP_S)
    return {node: str(a["error"]) for node, a in answers.items() if "error" in a}
