"""A lab that lives as long as a ``with`` block.

Its nodes are forked by a process of their own, which is started for it: a program that has
threads or open files is not forked.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from fanfold import errors
from fanfold.api.arguments import by_argument
from fanfold.api.lab_status import describe
from fanfold.live.lab import Lab
from fanfold.topo.fabric import Fabric

STARTER = (sys.executable, "-m", "fanfold.api.lab_starter")
_numbers = count(1)

Tell = Callable[[str], None]


class RunningLab(NamedTuple):
    """A lab of this machine whose nodes run.

    name: for ``push(..., lab=name)`` and `fanfold lab status`. fabric: its nodes and links.
    """

    name: str
    fabric: Fabric

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of hosts; the first of a leaf-spine, h0, is the source by default."""
        names = [node.name for node in self.fabric.nodes if node.role == "host"]
        return tuple(sorted(names, key=lambda name: (len(name), name)))

    def received(self, host: str) -> Path:
        """Folder of what a host received.

        Raises:
            ConfigError: no such host.
        """
        if host not in self.hosts:
            raise errors.ConfigError("host", host, ", ".join(self.hosts))
        return Lab(self.name).hosts(host)

    def status(self) -> dict[str, Any]:
        """Nodes with pid, state and counters, as `fanfold lab status --json` has them."""
        return describe(Lab(self.name))

    def restart(self, node: str) -> None:
        """End a node and start it anew.

        Raises:
            ConfigError: no such node. EnvironmentLack: it does not start.
        """
        Lab(self.name).restart(node)


@contextmanager
def lab(
    *,
    leaves: int = 2,
    spines: int = 2,
    hosts: int = 8,
    mtu: int = 9000,
    config: str | Path | None = None,
    name: str = "",
    rings: bool = True,
    fsync: bool = False,
    keys: bool = False,
    tenants: Sequence[str] = (),
    keep: bool = False,
    on_progress: Tell | None = None,
) -> Iterator[RunningLab]:
    """Start the nodes of a leaf-spine, or of a fabric file, on loopback addresses.

    Args:
        leaves, spines, hosts: of the leaf-spine; the source h0 comes on top of the hosts.
        mtu: bytes of a link's largest packet.
        config: fabric file, in place of a leaf-spine.
        name: of the lab; one of its own where empty.
        rings: arrays between ranks and BFRs by shared memory.
        fsync: what hosts receive survives a power cut.
        keys: each host has keys of its own, and takes what another one signed only.
        tenants: hosts apart from others, "red:h1-3" or "red:h1-3:rate=100Mbps,slots=256".
        keep: leave received files and the log when it ends.
        on_progress: hears what is done while it starts; the first time kernels are compiled.

    Yields:
        The lab; its processes are ended with the block.

    Raises:
        ConfigError: an argument or file is wrong, or such a lab is up. EnvironmentLack: a node
            could not start, or no loopback addresses are free; nothing is left running.

    >>> with fanfold.lab(leaves=1, spines=0, hosts=2) as lab:  # doctest: +SKIP
    ...     lab.hosts
    ('h0', 'h1', 'h2')
    """
    own = name or f"lab-{os.getpid()}-{next(_numbers)}"
    with by_argument(lab="name"):
        one = Lab(own)
    asked = {
        "name": own,
        "shape": [leaves, spines, hosts, mtu],
        "config": str(config) if config is not None else "",
        "has_rings": rings,
        "fsync": fsync,
        "has_keys": keys,
        "tenants": [*tenants],
    }
    with by_argument():
        _start(asked, on_progress)
    try:
        yield RunningLab(own, one.fabric())
    finally:
        one.down(purge=not keep)


def _start(asked: dict[str, Any], tell: Tell | None) -> None:
    """Let the starter do it, and raise what it could not do."""
    run = subprocess.Popen(  # noqa: S603 - ourselves
        [*STARTER, json.dumps(asked)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    assert run.stdout is not None
    told: dict[str, Any] = {}
    try:
        with run.stdout:
            for line in run.stdout:
                told = json.loads(line)
                if tell is not None and "say" in told:
                    tell(told["say"])
    except BaseException:
        Lab(asked["name"]).down(purge=True)
        raise
    finally:
        run.wait()
    if "error" in told:
        kind: type[Exception] = getattr(errors, told["error"])
        raise kind(*told["args"])
    if "up" not in told:
        raise errors.EnvironmentLack(f"lab {asked['name']!r}: its start ended without a word")
