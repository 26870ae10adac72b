"""One rank of the bench on shaped links, in its host's namespace: fanfold's or gloo's.

    python shaped_rank.py fanfold|gloo FABRIC RANK

Rank r is host hr. Each line of standard input is a task in JSON; each answer is a line too.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from fanfold.group.expectation import Case, n_wrong
from fanfold.group.fabric import FabricCommunicator
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric
from fanfold.units import PS_PER_SECOND

GROUP = 0x5A4D
PORT = 29_400
TIMEOUT_S = 300
PIECE = 1 << 18
SHIFT = 7919
SUM = Case("all_reduce", "float32", "sum", PIECE)

Array = NDArray[np.float32]


class Peer(Protocol):
    """What is measured: all_reduce over all but rank 0, broadcast from rank 0 to all."""

    def run(self, what: str, array: Array) -> None:
        """One operation, waited for."""

    def barrier(self, what: str) -> None:
        """Wait for the ranks of an operation."""

    def counters(self, what: str) -> dict[str, int]:
        """What it tells of itself."""

    def close(self) -> None:
        """Leave."""


class Ours:
    """fanfold's communicators."""

    def __init__(self, fabric: Fabric, rank: int, hosts: list[str]) -> None:
        def group(members: list[str], own: int, number: int) -> FabricCommunicator:
            return FabricCommunicator(
                fabric, members, own, group=number, timeout_ps=TIMEOUT_S * PS_PER_SECOND
            )

        self._of = {"broadcast": group(hosts, rank, GROUP)}
        if rank:
            self._of["all_reduce"] = group(hosts[1:], rank - 1, GROUP + 1)

    def run(self, what: str, array: Array) -> None:
        comm = self._of[what]
        work = comm.all_reduce(array) if what == "all_reduce" else comm.broadcast(array, 0)
        work.wait()

    def barrier(self, what: str) -> None:
        self._of[what].barrier().wait()

    def counters(self, what: str) -> dict[str, int]:
        return self._of[what].counters()

    def close(self) -> None:
        for comm in self._of.values():
            comm.close()


class Gloo:
    """torch.distributed with its backend for CPUs."""

    def __init__(self, fabric: Fabric, rank: int, hosts: list[str]) -> None:
        import torch  # noqa: PLC0415
        from torch import distributed  # noqa: PLC0415

        self._torch, self._dist = torch, distributed
        address = fabric.by_name[hosts[0]].address
        distributed.init_process_group(
            "gloo", init_method=f"tcp://{address}:{PORT}", rank=rank, world_size=len(hosts)
        )
        self._of = {
            "broadcast": None,
            "all_reduce": distributed.new_group(range(1, len(hosts))),
        }

    def run(self, what: str, array: Array) -> None:
        tensor = self._torch.from_numpy(array)
        if what == "all_reduce":
            self._dist.all_reduce(tensor, group=self._of[what])
        else:
            self._dist.broadcast(tensor, 0, group=self._of[what])

    def barrier(self, what: str) -> None:
        self._dist.barrier(group=self._of[what])

    def counters(self, what: str) -> dict[str, int]:
        del what
        return {}

    def close(self) -> None:
        self._dist.destroy_process_group()


def main() -> None:
    name, file, rank = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    fabric = load_fabric(file)
    n_ranks = sum(node.role == "host" for node in fabric.nodes)
    hosts = [f"h{r}" for r in range(n_ranks)]
    device = fabric.neighbours[hosts[rank]][0]
    peer: Peer = (Ours if name == "fanfold" else Gloo)(fabric, rank, hosts)
    print("{}", flush=True)
    for line in sys.stdin:
        print(json.dumps(do(peer, json.loads(line), rank, n_ranks, device)), flush=True)
    peer.close()


def do(
    peer: Peer, task: dict[str, Any], rank: int, n_ranks: int, device: str
) -> dict[str, Any]:
    """One round: values drawn, operation timed, result told."""
    what, n = task["what"], task["n_bytes"] // 4
    values = np.random.default_rng(task["seed"]).standard_normal(n, np.float32)
    array = np.zeros(0, np.float32)
    if what == "all_reduce":
        array = np.roll(values, rank * SHIFT)
    else:
        array = values.copy() if rank == 0 else np.zeros(n, np.float32)
    peer.barrier(what)
    before, said = sent_bytes(device), peer.counters(what)
    cpu_s, began = time.process_time(), time.monotonic()
    peer.run(what, array)
    ended = time.monotonic()
    cpu_s = time.process_time() - cpu_s
    peer.barrier(what)
    now = peer.counters(what)
    wrong = 0
    if what == "broadcast":
        wrong = int((array != values).sum())
    elif rank == 1:  # the others have its digest
        wrong = n_wrong_sums(array, values, n_ranks, is_fixed=bool(now))
    return {
        "began": began,
        "ended": ended,
        "cpu_s": cpu_s,
        "sent_bytes": sent_bytes(device) - before,
        "digest": blake3(array.view(np.uint8).data).hexdigest(),
        "n_wrong": wrong,
        "counters": {key: now[key] - said[key] for key in now},
        "srtt_ms": now.get("srtt_ps", 0) / 1e9,
        "cwnd": now.get("cwnd", 0),
    }


def sent_bytes(device: str) -> int:
    """Bytes that left a device of this namespace, Ethernet headers included."""
    for line in Path("/proc/thread-self/net/dev").read_text().splitlines():
        name, _, fields = line.partition(":")
        if name.strip() == device:
            return int(fields.split()[8])
    return 0


def n_wrong_sums(array: Array, values: Array, n_ranks: int, *, is_fixed: bool) -> int:
    """Sums farther from the exact ones than their way of adding may be."""
    found = 0
    for at in range(0, array.size, PIECE):
        here = np.arange(at, min(at + PIECE, array.size))
        every = [values.take(here - r * SHIFT, mode="wrap") for r in range(1, n_ranks)]
        got = array[at : at + PIECE]
        if is_fixed:
            found += n_wrong(SUM, every, got, 0)
            continue
        stack = np.stack(every).astype(np.float64)
        bound = len(every) * 2.0**-24 * np.abs(stack).sum(0)
        found += int((np.abs(got - stack.sum(0)) > bound).sum())
    return found


if __name__ == "__main__":
    main()
