"""The communicator of a group, as options and environment have it."""

import secrets
from collections.abc import Sequence
from functools import partial

from fanfold.group.communicator import Communicator
from fanfold.group.wants import Nobody, Teller
from fanfold.live.compile_notice import announce_compiles
from fanfold.live.lab import Lab
from fanfold.live.plane_sight import plan_of
from fanfold.live.plane_watch import PlaneWatch
from fanfold.topo.fabric import Fabric
from fanfold.torch.placement import (
    LAB,
    FanfoldOptions,
    environment,
    find_planes,
    find_root,
    find_rules,
    find_secret,
)


def build_communicator(
    fabric: Fabric,
    members: list[str],
    rank: int,
    number: int,
    timeout_ps: int,
    own: FanfoldOptions | None = None,
) -> Communicator:
    """The communicator of the fabric; loads what is compiled."""
    from fanfold.group.fabric import FabricCommunicator  # noqa: PLC0415

    announce_compiles()
    rules = find_rules(own, environment())
    return FabricCommunicator(
        fabric,
        members,
        rank,
        group=number,
        timeout_ps=timeout_ps,
        root=find_root(own, environment()),
        stragglers=rules.stragglers,
        patience_ps=rules.patience_ps,
        numbers=rules.numbers,
        secret=find_secret(own, environment()),
        planes=find_planes(own, environment()),
        find_teller=partial(find_teller, members),
    )


def find_teller(members: Sequence[str], planes: Sequence[int]) -> Teller:
    """Who tells weights of planes while a group lives: BGP, in a lab that has it."""
    name = environment().get(LAB, "")
    if not name or plan_of(Lab(name)) is None:
        return Nobody()
    return PlaneWatch(Lab(name), members[0], members[1:], planes)


def draw_number(fabric: Fabric, members: list[str], root: str) -> int:
    """A number for a group by which it can have the root that was asked for.

    Raises:
        ConfigError: no such root, or none that the group can have.
    """
    if not root:
        return secrets.randbits(32)
    from fanfold.group.ways import MAX_ROOT_LEVEL, draw_group  # noqa: PLC0415

    return draw_group(fabric, members, root, lambda: secrets.randbits(32), MAX_ROOT_LEVEL)
