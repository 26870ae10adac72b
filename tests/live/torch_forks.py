"""Programs of PyTorch forked from one process that has loaded it, and what ranks call.

A process of its own would load PyTorch for seconds. That it works so too is for the tests that
use ``torchrun``.

    python torch_forks.py FD    the process itself, see forks.py; FANFOLD_LAB names a lab
"""

import os
import runpy
import socket
import sys
from importlib import import_module
from pathlib import Path

from forks import serve

USED = (
    "torch._dynamo",
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "torch.nn.parallel",
)


def load() -> None:
    """Import what programs import, and load the kernels of a rank."""
    for name in USED:
        import_module(name)
    from fanfold.live.host_end import HostEnd  # noqa: PLC0415
    from fanfold.live.lab import Lab  # noqa: PLC0415
    from fanfold.live.rank import RankEnd, port_of_group  # noqa: PLC0415
    from fanfold.torch.build import build_communicator  # noqa: PLC0415,F401

    fabric = Lab(os.environ["FANFOLD_LAB"]).fabric()
    hosts = [node.name for node in fabric.by_bfr_id.values()]
    RankEnd(fabric, hosts, 0, group=1, port=port_of_group(1)).close()
    HostEnd(fabric, hosts[:1] * 2, 0, group=1).close()


def run_script(words: list[str]) -> int:
    """Run a script; its process then ends as the interpreter ends."""
    sys.argv = words
    sys.path.insert(0, str(Path(words[0]).parent))
    try:
        runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        return int(end.code or 0)
    return 0


if __name__ == "__main__":
    load()
    serve(socket.socket(fileno=int(sys.argv[1])), run_script, sys.exit)
