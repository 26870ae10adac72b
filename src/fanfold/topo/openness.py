"""What of a fabric is open: links without keys, ends that take and send what nobody signed.

Over several machines nothing is but what its file asks for: ``open = "links"``, ``"ends"`` or
``"all"``. At loopback addresses, which no other machine reaches, all may be; ``"none"`` closes
those too. A link that is ``off`` or ``on`` by a word of its own was asked for by that word.
"""

from ipaddress import IPv4Address
from typing import Literal

from fanfold.errors import ConfigError
from fanfold.topo.fabric import Fabric

Part = Literal["links", "ends"]


def is_far(fabric: Fabric) -> bool:
    """Some node is at an address that other machines reach."""
    return not all(IPv4Address(node.address).is_loopback for node in fabric.nodes)


def may_be_open(fabric: Fabric, part: Part) -> bool:
    """Whether links, or ends, of a fabric may do without keys."""
    return (fabric.open or ("none" if is_far(fabric) else "all")) in (part, "all")


def is_told(fabric: Fabric) -> bool:
    """Whether nodes say what of it is open: not where nobody asked and nobody else is near."""
    return bool(fabric.open) or is_far(fabric)


def open_links(fabric: Fabric, name: str) -> tuple[str, ...]:
    """Neighbours of a node from whose addresses packets without keys are taken."""
    modes = fabric.key_modes
    near = fabric.neighbours[name]
    return tuple(to for to in near if modes[frozenset((name, to))] != "required")


def check_links(fabric: Fabric, name: str, source: str) -> str:
    """What a node says of its links that are open, empty where it says nothing.

    Raises:
        ConfigError: one is, and the file does not ask for that.
    """
    is_bare = fabric.link_keys == "off" and any(
        not link.keys for link in fabric.links if name in (link.a, link.b)
    )
    if is_bare and not may_be_open(fabric, "links"):
        allowed = (
            f"keys for the links of {name}, by `fanfold fabric init` or `fanfold keys links`; "
            'or "links" or "all", and whoever sends from a neighbour\'s address is believed'
        )
        raise ConfigError(f"{source}: fabric.open", fabric.open or "nothing", allowed)
    near = open_links(fabric, name)
    if not near or not is_told(fabric):
        return ""
    return (
        f"{name}: open to {', '.join(near)}: packets from these addresses are believed without "
        "a key; `fanfold keys links` closes it"
    )


def check_receiver(fabric: Fabric, name: str, source: str, *, is_open: bool) -> None:
    """See that a receiver that takes anybody's pushes was asked for.

    Raises:
        ConfigError: it was not.
    """
    if is_open and not may_be_open(fabric, "ends"):
        allowed = (
            f"a trust file for {name}, by `fanfold fabric init` or `fanfold keys trust`; "
            'or "ends" or "all", and it takes pushes of anybody'
        )
        raise ConfigError(f"{source}: fabric.open", fabric.open or "nothing", allowed)


def told_lab(fabric: Fabric, *, has_keys: bool, has_link_keys: bool) -> str:
    """What a lab that other machines reach says of what is open, empty where nothing is.

    has_keys, has_link_keys: its ends, its links have keys whatever the file says.
    """
    modes = set(fabric.key_modes.values())
    open_parts = [
        text
        for text, is_open in (
            ("links without keys", modes != {"required"} and not has_link_keys),
            ("pushes of anybody are taken", may_be_open(fabric, "ends") and not has_keys),
        )
        if is_open
    ]
    is_closed = not open_parts or not is_far(fabric)
    return (
        "" if is_closed else f"open to whoever reaches its addresses: {', '.join(open_parts)}"
    )


def told_unsigned(name: str) -> str:
    """What a push says that is not signed."""
    return (
        f"{name}: open: this push is not signed, so nobody can tell that it is from {name}, "
        "nor that who says to have it has it; --sign proves both"
    )
