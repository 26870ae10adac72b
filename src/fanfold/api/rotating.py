"""A new static key for the links of a lab's node, while pushes and sums go on.

Both keys count for a time. First all neighbours may be asked by the new key, then the node uses
it, then neighbours ask it by that one, and when the time is over the old one is refused. What
runs beside the nodes, pushes and ranks, looks at the same files once a second.
"""

from collections.abc import Callable, Iterable

import msgspec

from fanfold.api.keys import lab_keys
from fanfold.api.lab_status import no_such_lab
from fanfold.api.site import Site
from fanfold.errors import CheckFailed, ConfigError
from fanfold.live.clock import pause
from fanfold.live.lab import Lab
from fanfold.seals.link_keys import NEXT_LINK_KEY_FILE, make_link_key, use_next_link_key
from fanfold.topo.fabric import REVOKED, Fabric
from fanfold.units import PS_PER_SECOND

LEAST_OVERLAP_S = 2.0
"""Pushes and ranks have seen the new key by then."""


def rotate_lab(
    name: str, node: str, overlap_s: float, tell: Callable[[str], None] = lambda line: None
) -> str:
    """Give a node of a running lab another key for its links; its public half.

    Args:
        overlap_s: how long both count. tell: hears of each step.

    Raises:
        ConfigError: no such lab or node, its links have no keys, or too short a time.
        CheckFailed: a node did not do it; both keys count still, and it may be done again.
    """
    lab = Lab(name)
    if not lab.is_up():
        raise no_such_lab(name)
    if overlap_s < LEAST_OVERLAP_S:
        least = f"{LEAST_OVERLAP_S:g}s or more: pushes look once a second"
        raise ConfigError("--overlap", f"{overlap_s:g}s", least)
    fabric = lab.fabric()
    if node not in fabric.by_name or not fabric.has_keys(node):
        keyed = [each for each in fabric.by_name if fabric.has_keys(each)]
        raise ConfigError("--node", node, ", ".join(keyed) or "a node whose links have keys")
    folder = lab_keys(lab, node)
    old = fabric.by_name[node].link_key
    if old == REVOKED:
        raise ConfigError("--node", node, "a node whose key is not revoked")
    new = make_link_key(folder, NEXT_LINK_KEY_FILE).text
    around = fabric.neighbours[node]
    _name_keys(lab, node, old, new)
    _read(lab, (*around, node))
    tell(f"{node}: {new} counts beside {old}")
    use_next_link_key(folder)
    _read(lab, (node,))
    _name_keys(lab, node, new, old)
    _read(lab, (*around, node))
    tell(f"{node}: speaks by the new one; the old one counts for {overlap_s:g} s")
    pause(int(overlap_s * PS_PER_SECOND))
    _name_keys(lab, node, new, "")
    _read(lab, (*around, node))
    return new


def _name_keys(lab: Lab, node: str, key: str, also: str) -> None:
    """Write the lab's fabric with other keys of a node; the rest as it is by then."""
    fabric: Fabric = lab.fabric()
    nodes = tuple(
        msgspec.structs.replace(each, link_key=key, link_key_also=also)
        if each.name == node
        else each
        for each in fabric.nodes
    )
    lab.keep(msgspec.structs.replace(fabric, nodes=nodes))


def _read(lab: Lab, nodes: Iterable[str]) -> None:
    request = {"do": "rekey", "reads": True}
    answers = Site(lab, None).order(dict.fromkeys(nodes, request))
    failed = [f"{node}: {told['error']}" for node, told in answers.items() if "error" in told]
    if failed:
        raise CheckFailed(f"lab {lab.name}: {'; '.join(failed)}")
