"""Every tree protocol that can be asked for by name; a new one is one file and one row here."""

from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.trees.bidir_pim import BidirPim
from fanfold.trees.mldp_mp2mp import MldpMp2mp
from fanfold.trees.mldp_p2mp import MldpP2mp
from fanfold.trees.pim_dm import PimDm
from fanfold.trees.pim_sm import PimSm
from fanfold.trees.sr_p2mp import SrP2mp
from fanfold.trees.world import Machine


class TreeRow(NamedTuple):
    """A name, its machine, what its centre is, and what it is.

    centre: what the router named ``rp`` or ``controller`` is to it, empty where it has none.
    """

    name: str
    machine: type[Machine]
    centre: str
    summary: str


CATALOG: tuple[TreeRow, ...] = (
    TreeRow("pim-sm", PimSm, "rp", "PIM sparse mode: joins to a rendezvous point, RFC 7761"),
    TreeRow("pim-dm", PimDm, "", "PIM dense mode: flood, prune, graft, RFC 3973"),
    TreeRow("bidir-pim", BidirPim, "rp", "bidirectional PIM: one shared tree, RFC 5015"),
    TreeRow("mldp-p2mp", MldpP2mp, "", "mLDP, labels from leaves to the source, RFC 6388"),
    TreeRow("mldp-mp2mp", MldpMp2mp, "rp", "mLDP, one tree both ways, RFC 6388"),
    TreeRow("sr-p2mp", SrP2mp, "controller", "replication segments of a controller, RFC 9524"),
)


def protocol_of(name: str) -> TreeRow:
    """Row of a name.

    Raises:
        ConfigError: no such protocol.
    """
    for row in CATALOG:
        if row.name == name:
            return row
    raise ConfigError("protocol", name, ", ".join(row.name for row in CATALOG))
