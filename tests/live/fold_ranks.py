"""Ranks as processes that sum over and over, until one of them is stopped or killed.

    python fold_ranks.py FABRIC MEMBERS GROUP VICTIM DEADLINE_S

Each process prints JSON lines: its pid, the first sum, what was raised, and the sum of a group
without those who were named. A victim that lives on says what it was told, then all sum again.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

from fanfold.group.communicator import GroupError
from fanfold.group.fabric import FabricCommunicator
from fanfold.topo.fabric_file import load_fabric
from fanfold.units import PS_PER_SECOND

N = 1 << 18
LAST_PS = 30 * PS_PER_SECOND


def tell(**told):
    os.write(1, json.dumps(told).encode() + b"\n")


def repeat(comm):
    """Sum until it fails; the error and how long that operation took."""
    is_told = False
    while True:
        array = np.full(N, comm.rank, np.float32)
        began = time.monotonic()
        try:
            comm.all_reduce(array).wait()
        except GroupError as error:
            return error, time.monotonic() - began
        if not is_told:
            is_told = True
            tell(rank=comm.rank, sum=float(array.max()))


def sum_of(fabric, members, rank, group):
    comm = FabricCommunicator(fabric, members, rank, group=group, timeout_ps=LAST_PS)
    array = np.full(N, rank + 1, np.int64)
    comm.all_reduce(array).wait()
    comm.close()
    return int(array.max())


def be_rank(fabric, members, rank, group, victim, deadline_s, gate):
    comm = FabricCommunicator(
        fabric, members, rank, group=group, timeout_ps=deadline_s * PS_PER_SECOND
    )
    tell(rank=rank, pid=os.getpid())
    gate.pass_it()
    error, took_s = repeat(comm)
    told = {"text": str(error), "ranks": error.ranks, "late": error.is_deadline, "s": took_s}
    comm.close()
    rest = [name for r, name in enumerate(members) if r not in error.ranks]
    if rank != victim:
        told["rest"] = sum_of(fabric, rest, rest.index(members[rank]), group + 1)
    tell(rank=rank, error=told)
    tell(rank=rank, all=sum_of(fabric, members, rank, group + 2))


class Gate:
    """Lets all ranks begin when the last one is built: compiling may take one of them long."""

    def __init__(self):
        self.ready, self.go = os.pipe(), os.pipe()

    def pass_it(self):
        os.close(self.go[1])
        os.write(self.ready[1], b"x")
        os.read(self.go[0], 1)

    def open_for(self, n):
        while n > 0:
            n -= len(os.read(self.ready[0], n))
        os.close(self.go[1])


def main():
    path, names, group, victim, deadline_s = sys.argv[1:]
    fabric, members = load_fabric(Path(path)), names.split(",")
    pids, gate = [], Gate()
    for rank in range(len(members)):
        pid = os.fork()
        if pid == 0:
            be_rank(fabric, members, rank, int(group), int(victim), int(deadline_s), gate)
            os._exit(0)
        pids.append(pid)
    gate.open_for(len(pids))
    for pid in pids:
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
