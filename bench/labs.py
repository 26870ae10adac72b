"""Labs of the bench: 2 leaves, 2 spines, 8 receivers, in a state folder of their own."""

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs import FANFOLD, JobError, run, run_well
from measure import cpu_of

N_RECEIVERS = 8
UP_S = 180.0
"""Longest start: the kernels may have to be compiled."""


@dataclass
class Pushed:
    """One push: its own JSON, the whole command's time, CPU of it and of every node."""

    told: dict[str, Any]
    code: int
    command_s: float
    cpu_s: float
    drops: Counter[str]
    """Of all nodes during this push: nodes count since they started."""

    @property
    def is_complete(self) -> bool:
        states = [r["state"] for r in self.told.get("receivers", [])]
        return self.code == 0 and states == ["verified"] * N_RECEIVERS


class BenchLab:
    """A lab that is up."""

    def __init__(
        self,
        state: Path,
        n_hosts: int = N_RECEIVERS,
        flags: Sequence[str] = (),
        *,
        has_rings: bool = True,
    ) -> None:
        self.n_hosts, self.has_rings, self.flags = n_hosts, has_rings, flags
        self.env = {"FANFOLD_STATE_DIR": str(state)}
        self.name = f"bench{os.getpid()}{state.name[:8]}" + ("" if has_rings else "s")
        self.hosts = state / "labs" / self.name / "hosts"
        self.nodes: dict[str, int] = {}
        """Node -> its process."""
        self.up_s = 0.0

    @property
    def pids(self) -> list[int]:
        return list(self.nodes.values())

    def up(self) -> None:
        shape = ["--leaves", "2", "--spines", "2", "--hosts", str(self.n_hosts), *self.flags]
        shape += [] if self.has_rings else ["--no-rings"]
        began = time.monotonic()
        run_well([*FANFOLD, "lab", "up", "--name", self.name, *shape, "--json"], UP_S, self.env)
        self.up_s = time.monotonic() - began
        told = run_well(
            [*FANFOLD, "lab", "status", "--name", self.name, "--json"], 30, self.env
        )
        nodes = json.loads(told)[0]["nodes"]
        self.nodes = {name: entry["pid"] for name, entry in nodes.items()}

    def down(self) -> None:
        run([*FANFOLD, "lab", "down", "--name", self.name, "--purge", "--json"], 30, self.env)

    def push(self, path: Path, timeout_s: float, more: Sequence[str] = ()) -> Pushed:
        """Push to all; an incomplete push is a result too.

        Raises:
            JobError: it printed no result, or had to be killed.
        """
        dropped = self.drops()
        before = {pid: cpu_of(pid) for pid in self.pids}
        command = [*FANFOLD, "push", str(path), "--lab", self.name, "--json", *more]
        ended = run(command, timeout_s, self.env)
        nodes_s = sum(cpu_of(pid) - before[pid] for pid in self.pids)
        if not ended.out.strip():
            words = ended.err.strip().splitlines()
            raise JobError(words[-1] if words else f"fanfold push: exit {ended.code}")
        told = json.loads(ended.out)
        drops = self.drops() - dropped
        return Pushed(told, ended.code, ended.seconds, nodes_s + ended.cpu_s, drops)

    def drops(self) -> Counter[str]:
        """Drops by reason, all nodes since the lab is up."""
        told = run_well(
            [*FANFOLD, "lab", "status", "--name", self.name, "--json"], 30, self.env
        )
        found: Counter[str] = Counter()
        for entry in json.loads(told)[0]["nodes"].values():
            found.update(entry.get("status", {}).get("drops", {}))
        return found

    def copies(self, name: str) -> list[Path]:
        return [self.hosts / f"h{i + 1}" / name for i in range(N_RECEIVERS)]

    def forget(self) -> None:
        """Remove what was received."""
        for host in self.hosts.glob("*"):
            for entry in host.iterdir():
                if entry.is_dir():
                    shutil.rmtree(entry, ignore_errors=True)
                else:
                    entry.unlink(missing_ok=True)


@contextmanager
def bench_lab(state: Path, *flags: str) -> Iterator[BenchLab]:
    lab = BenchLab(state, flags=flags)
    try:
        lab.up()
        yield lab
    finally:
        lab.down()


def leaf_of(receiver: int) -> str:
    """Leaf of receiver 1..8 in the lab above, as a link's name."""
    return f"leaf{(receiver - 1) * 2 // N_RECEIVERS + 1}-h{receiver}"
