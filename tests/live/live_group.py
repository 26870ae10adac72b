"""All ranks of a group in the process of the test, and losses on every link of a lab."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from live_site import LiveLab

from fanfold.group.communicator import GroupError
from fanfold.group.fabric import FabricCommunicator
from fanfold.impair import Impairment
from fanfold.topo.fabric import Fabric
from fanfold.units import PS_PER_SECOND

WAIT_PS = 20 * PS_PER_SECOND
BLOCK = 2048
"""Float32 values in one packet."""
_groups = iter(range(0x5EED0000, 0x5EEE0000))


class Group:
    """All ranks of one group in this process: each has a thread of its own."""

    def __init__(
        self,
        fabric: Fabric,
        members: list[str],
        told: Mapping[int, list[str]] | None = None,
        **kwargs: Any,
    ) -> None:
        """told: other members for some ranks, as a mistaken program gives them."""
        number = kwargs.pop("number", 0) or next(_groups)
        kwargs = {"timeout_ps": WAIT_PS, **kwargs}
        self.ranks = [
            FabricCommunicator(fabric, (told or {}).get(r, members), r, group=number, **kwargs)
            for r in range(len(members))
        ]

    def each(self, begin: Callable[[FabricCommunicator], Any]) -> None:
        """Begin an operation on all ranks, wait for all."""
        for work in [begin(rank) for rank in self.ranks]:
            work.wait()

    def errors(self, begin: Callable[[FabricCommunicator], Any]) -> list[GroupError]:
        """The same where all ranks that begin must fail."""
        found = []
        for work in [w for w in map(begin, self.ranks) if w is not None]:
            with pytest.raises(GroupError) as caught:
                work.wait()
            found.append(caught.value)
        return found

    def count(self, word: str) -> int:
        return sum(rank.counters()[word] for rank in self.ranks)

    def close(self) -> None:
        """All at once: closing waits for the others."""
        with ThreadPoolExecutor(len(self.ranks)) as pool:
            list(pool.map(lambda rank: rank.close(), self.ranks))


def values(kind: str, n: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    if kind.startswith(("int", "uint")):
        return random.integers(0, 100, n).astype(kind)
    return random.standard_normal(n).astype(kind)


class Losses:
    """Every port of every BFR and of every rank loses; what was lost, and what for it resent.

    Only arrays pass meanwhile, so all that is lost are packets of FOLD.
    """

    def __init__(self, lab: LiveLab, fabric: Fabric) -> None:
        self.lab, self.fabric = lab, fabric
        self.bfrs = [n.name for n in fabric.nodes if n.role == "bfr"]

    def begin(self, group: Group, seed: int, **chances: int) -> None:
        """Let what is named befall every packet on arrival."""
        for name in self.bfrs:
            links = dict.fromkeys(self.fabric.neighbours[name], chances) if chances else {}
            assert self.lab.ask(name, do="impair", links=links, seed=seed) == {"ok": True}
        for rank in group.ranks:
            rank.end.impair(Impairment(**chances), seed)
        self.before = self._told()

    def _told(self) -> dict[str, dict[str, int]]:
        status = {name: self.lab.status(name) for name in self.bfrs}
        return {
            n: {**s["arrays"], "lost": s["drops"].get("impaired", 0)} for n, s in status.items()
        }

    def counts(self, group: Group, *words: str) -> dict[str, int]:
        """What BFRs counted since ``begin``, and the ranks' own losses and repetitions."""
        now = self._told()
        found = {
            word: sum(now[n].get(word, 0) - self.before[n].get(word, 0) for n in now)
            for word in ("lost", "resent", *words)
        }
        found["lost"] += sum(int(rank.end.drops.sum()) for rank in group.ranks)
        found["again"] = found["resent"] + group.count("sent_again")
        return found
