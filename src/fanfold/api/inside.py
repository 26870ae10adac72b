"""A command inside a node of a lab: `fanfold lab exec`."""

import os
import shutil
from collections.abc import Sequence

from fanfold.errors import ConfigError, EnvironmentLack
from fanfold.live.lab import Lab
from fanfold.live.spaces import RUN, space_of


def command_in(lab: Lab, node: str, words: Sequence[str]) -> list[str]:
    """The command that runs another one in the network namespace of a node.

    Raises:
        ConfigError: no such node, a lab on loopback, no such command. EnvironmentLack: the lab
            is not up, or this is not root.
    """
    fabric = lab.fabric()
    if node not in fabric.by_name:
        raise ConfigError("node", node, ", ".join(fabric.by_name))
    space = space_of(lab.name, node)
    if not (RUN / space).exists():
        got = f"{node} of lab {lab.name!r}, on loopback"
        raise ConfigError("lab exec", got, "a lab of `fanfold lab up --namespaces`")
    if not words:
        raise ConfigError("lab exec", "nothing behind the node", "a command such as ip link")
    if os.geteuid() != 0:
        raise EnvironmentLack("lab exec: needs root, who may enter namespaces; see `id`")
    found = shutil.which(words[0])
    if found is None:
        raise ConfigError("lab exec", words[0], "a command of this machine")
    return ["ip", "netns", "exec", space, found, *words[1:]]
