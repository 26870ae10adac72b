"""A rank's end of a group: in the network, or in the memory of a host that all ranks are at."""

from collections.abc import Sequence

from fanfold.errors import ConfigError
from fanfold.group.host_session import HostSession
from fanfold.group.plane_open import open_planes
from fanfold.group.rules import BY_VALUE, WAIT, Rules
from fanfold.group.session import Session
from fanfold.group.strands import strands_of
from fanfold.group.tier_end import places_of
from fanfold.group.tiers import TierSession
from fanfold.group.wants import Wants
from fanfold.group.ways import root_level_of, root_without_bfr
from fanfold.live.host_end import HostEnd
from fanfold.live.rank import RankEnd, port_of_group
from fanfold.live.rank_build import check_tenants, windows_on
from fanfold.topo.fabric import Fabric

SEVERAL = "hosts have several ranks"
SPARE_BYTES = 128
"""Of an agreement at one host: what broadcasts in a row say of themselves (casts.py)."""


def is_one_host(members: Sequence[str]) -> bool:
    """All ranks of a group are at the same host."""
    return len(members) > 1 and len(set(members)) == 1


def is_tiered(members: Sequence[str]) -> bool:
    """Several hosts, some of them with several ranks."""
    return 1 < len(set(members)) < len(members)


def open_session(
    fabric: Fabric, members: Sequence[str], rank: int, group: int, rules: Rules, wants: Wants
) -> tuple[Session, str]:
    """Session of a rank, and the host that is the root, if one is: by where its ranks are.

    Raises:
        ConfigError: what it wants cannot be had where they are. EnvironmentLack: a port or the
            number is in use.
    """
    if is_one_host(members):
        return open_host(fabric, members, rank, group, rules), wants.root
    if is_tiered(members):
        return open_tiers(fabric, members, rank, group, rules, wants)
    if wants.planes:
        strands = strands_of(fabric, members, group, wants.planes)
        if len(strands) > 1:
            return open_planes(fabric, members, rank, strands, rules, wants), ""
        group = strands[0].group
    return open_network(fabric, members, rank, group, rules, wants)


def open_tiers(
    fabric: Fabric, members: Sequence[str], rank: int, group: int, rules: Rules, wants: Wants
) -> tuple[Session, str]:
    """Session of a rank whose group has several ranks at some hosts, and the root's host.

    Raises:
        ConfigError: as of the network; rules for ranks that are late, an exponent a block, or
            an installed tree. EnvironmentLack: the number is in use at the host.
    """
    if rules.stragglers != WAIT:
        raise ConfigError("stragglers", rules.stragglers, f"{WAIT}: {SEVERAL}")
    if rules.is_by_block:
        raise ConfigError("numbers", rules.numbers, f"{BY_VALUE}: {SEVERAL}")
    if wants.laid:
        raise ConfigError("laid", "a tree", f"none: {SEVERAL}")
    if wants.planes:
        raise ConfigError("planes", wants.planes, f"none: {SEVERAL}")
    places = places_of(members)
    check_tenants(fabric, places.hosts)
    local = places.at[places.host_of[rank]]
    near = far = None
    if len(local) > 1:
        near = open_host(fabric, [members[rank]] * len(local), local.index(rank), group, rules)
    if rank == local[0]:
        place = places.host_of[rank]
        far, _ = open_network(fabric, places.hosts, place, group, rules, wants)
        far.end.ask_for_slots(1)
    ids = [fabric.by_name[name].bfr_id for name in places.hosts]
    made = TierSession(places, members, rank, rules, near, far, ids)
    return made, root_of(fabric, places.hosts, group, wants)[1]


def open_host(
    fabric: Fabric, members: Sequence[str], rank: int, group: int, rules: Rules
) -> HostSession:
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


def open_network(
    fabric: Fabric, members: Sequence[str], rank: int, group: int, rules: Rules, wants: Wants
) -> tuple[Session, str]:
    """Session of a rank in the network, and the host that is the root, if one is."""
    most = wants.laid.slots // 2 if wants.laid else wants.window
    window, usual = windows_on(fabric, most, may_be_late=rules.stragglers != WAIT)
    own_level, root = root_of(fabric, members, group, wants)
    end = RankEnd(
        fabric,
        members,
        rank,
        group=group,
        port=wants.port or port_of_group(group),
        window=window,
        usual=usual,
        root_level=own_level,
        root=root,
        secret=wants.secret,
    )
    if wants.laid:
        end.lean_on(wants.laid)
    return Session(end, rank, rules, 4 * usual), root


def root_of(
    fabric: Fabric, members: Sequence[str], group: int, wants: Wants
) -> tuple[int, str]:
    """``root_level`` of ARM, and the host that is the root, if one is."""
    own_level, root = root_level_of(fabric, members, group, wants.root, wants.root_level)
    return own_level, root or root_without_bfr(fabric, members)
