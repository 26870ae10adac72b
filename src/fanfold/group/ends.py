"""A rank's end of a group: in the network, or in the memory of a host that all ranks are at."""

from collections.abc import Sequence
from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.group.host_session import HostSession
from fanfold.group.rules import WAIT, Rules
from fanfold.group.session import Session
from fanfold.group.ways import root_level_of, root_without_bfr
from fanfold.live.host_end import HostEnd
from fanfold.live.rank import RankEnd, port_of_group
from fanfold.live.rank_build import window_on
from fanfold.topo.fabric import Fabric
from fanfold.topo.vat_laid import LaidTree

SPARE_BYTES = 128
"""Of an agreement at one host: what broadcasts in a row say of themselves (casts.py)."""


def is_one_host(members: Sequence[str]) -> bool:
    """All ranks of a group are at the same host."""
    return len(members) > 1 and len(set(members)) == 1


def open_host(
    fabric: Fabric, members: Sequence[str], rank: int, group: int, rules: Rules
) -> Session:
    """Session of a rank whose group is at one host.

    Raises:
        ConfigError: no such host, or rules for ranks that are late: all of a host are waited
            for. EnvironmentLack: the number is in use.
    """
    node = fabric.by_name.get(members[0])
    if node is None or node.role != "host":
        raise ConfigError("members", members[0], "a host of the fabric")
    if rules.stragglers != WAIT:
        raise ConfigError("stragglers", rules.stragglers, f"{WAIT}: all ranks are at one host")
    end = HostEnd(fabric, members, rank, group=group)
    return HostSession(end, rank, rules, SPARE_BYTES)


class Wants(NamedTuple):
    """What a group wants of the network; see ``FabricCommunicator``."""

    port: int
    window: int
    root_level: int
    root: str
    laid: LaidTree | None
    secret: bytes = b""


def open_network(
    fabric: Fabric, members: Sequence[str], rank: int, group: int, rules: Rules, wants: Wants
) -> tuple[Session, str]:
    """Session of a rank in the network, and the host that is the root, if one is."""
    most = wants.laid.slots // 2 if wants.laid else wants.window
    window = window_on(fabric, most, rules.stragglers != WAIT)
    own_level, root = root_level_of(fabric, members, group, wants.root, wants.root_level)
    root = root or root_without_bfr(fabric, members)
    end = RankEnd(
        fabric,
        members,
        rank,
        group=group,
        port=wants.port or port_of_group(group),
        window=window,
        root_level=own_level,
        root=root,
        secret=wants.secret,
    )
    if wants.laid:
        end.lean_on(wants.laid)
    return Session(end, rank, rules, 4 * window), root
