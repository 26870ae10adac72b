"""A net by its name, with a line on stderr for each thing that is to be told of its file."""

from fanfold.cli.console import tell_warning
from fanfold.topo.net import Net
from fanfold.topo.nets import build_named_net


def told_net(topology: str, seed: int) -> Net:
    """Net of a name.

    Raises:
        ConfigError: as ``build_named_net``.
    """
    net = build_named_net(topology, seed)
    for note in net.notes:
        tell_warning(note)
    return net
