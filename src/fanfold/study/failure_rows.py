"""Schemes of the table of failures: each with its best published protection, and its numbers.

All notice by the same sessions; what follows is each one's own.
"""

from typing import Literal, NamedTuple

from fanfold.errors import ConfigError
from fanfold.nearest import one_of
from fanfold.scenario.settings import Feedback, Protection, Settings
from fanfold.trees.settings import TreeSettings
from fanfold.units import format_duration

ALL = "all"
Kind = Literal["link", "spine", "leaf"]
KINDS: tuple[Kind, ...] = ("link", "spine", "leaf")
"""link: the last one between routers on the way to the last receiver. spine: the router of the
highest tier on that way. leaf: the router that this receiver hangs on."""
FEW = 8
"""A tree's repairs go to each receiver alone where at most one of so many is behind the
element; a copy for each of more would take far longer than the transfer."""


class FailureScheme(NamedTuple):
    """A row: name, protection in words with its source, and how it is simulated.

    program: of schemes/catalog.py. tree: of its protocol. is_doubled: two trees stand, and the
    second serves from the moment that the loss is noticed. control: why it sends no messages of
    its own, empty where they are counted.
    """

    name: str
    protection: str
    program: str
    tree: TreeSettings = TreeSettings()
    by_bift: Protection = "auto"
    feedback: Feedback = "nack"
    is_doubled: bool = False
    control: str = ""


_ROUTED = "by definition: its tables come from unicast routing, whose own flood no row counts"
SCHEMES: tuple[FailureScheme, ...] = (
    FailureScheme(
        "fanfold",
        "tables without each own link made ahead; NOTICE to all others (docs/wire/link.md)",
        "fanfold",
        by_bift="notice",
        feedback="auto",
    ),
    FailureScheme(
        "bier",
        "none: new unicast paths (RFC 8279 6.9)",
        "bier",
        by_bift="reroute",
        control=_ROUTED,
    ),
    FailureScheme(
        "bier-frr",
        "backup tables at the node beside, by tunnel (draft-ietf-bier-frr)",
        "bier",
        by_bift="frr",
        control=_ROUTED,
    ),
    FailureScheme("pim-sm", "none: joins along new unicast paths (RFC 7761 4.5)", "pim-sm"),
    FailureScheme(
        "mldp",
        "tunnels round the lost node to those behind it (RFC 7715)",
        "mldp",
        TreeSettings(node_bypass=True),
    ),
    FailureScheme(
        "sr-p2mp",
        "TI-LFA between replication points (RFC 9855); else the controller",
        "sr-p2mp",
    ),
    FailureScheme(
        "mofrr",
        "PIM-SM with a second tree that stands, taken when the first falls silent (RFC 7431)",
        "pim-sm",
        is_doubled=True,
    ),
)


def schemes_of(names: str) -> tuple[FailureScheme, ...]:
    """Rows by names, with commas between them.

    Raises:
        ConfigError: no such row.
    """
    known = {row.name: row for row in SCHEMES}
    if names == ALL:
        return SCHEMES
    asked = tuple(dict.fromkeys(name.strip() for name in names.split(",")))
    for name in asked:
        if name not in known:
            raise ConfigError("schemes", name, one_of(name, [ALL, *known]))
    return tuple(known[name] for name in asked)


def parameters(settings: Settings, tree: TreeSettings) -> dict[str, str]:
    """Numbers that decide, in words: those of all schemes, then of some."""
    every = format_duration(settings.hello_ps)
    return {
        "detection": f"{settings.detect_mult} HELLOs of {every}, every scheme (RFC 5880 6.8.4)",
        "new unicast paths": f"{format_duration(settings.reroute_ps)} later: all but fanfold",
        "message at a router": f"{format_duration(settings.notice_ps)}: NOTICE, join, label",
        "table": f"{format_duration(settings.table_ps)} a change that was not made ahead",
        "repair along a tree": f"to each alone, or to all where over one of {FEW} is behind",
        "controller": f"{format_duration(tree.compute_ps)} a tree: sr-p2mp",
    }
