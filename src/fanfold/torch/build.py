"""The communicator of a group, as options and environment have it."""

from fanfold.group.communicator import Communicator
from fanfold.topo.fabric import Fabric
from fanfold.torch.seat import FanfoldOptions, environment, find_root, find_rules


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
    )
