"""Weights of planes as a lab's BGP has them just now, asked for in a thread of its own."""

import threading
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from fanfold.live.control_sockets import Call, ask_all
from fanfold.live.lab import Lab
from fanfold.live.plane_numbers import CONTROL
from fanfold.topo.fan_weights import Paths, fan_weights

ASK_S = 0.05
"""Between two questions."""
ANSWER_S = 1.0


class PlaneWatch:
    """What weights the planes of a source have to a set of receivers, until it is closed.

    Args:
        source: whose planes. receivers: who is sent to. planes: those that may be used.

    Attributes:
        latest: weight by plane, the same object until it changes; None while nothing is known.
            Where who tells falls silent, and where no plane leads to all, it stays.
    """

    def __init__(
        self, lab: Lab, source: str, receivers: Sequence[str], planes: Sequence[int]
    ) -> None:
        self._call = Call(lab.control_socket(CONTROL), {"do": "paths", "host": source})
        self._receivers, self._planes = receivers, planes
        self.latest: Mapping[int, int] | None = None
        self._over = threading.Event()
        self._look()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ask no more."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(ASK_S):
            self._look()

    def _look(self) -> None:
        told = paths_of(ask_all({"": self._call}, ANSWER_S)[""])
        weights = fan_weights([told.get(name, {}) for name in self._receivers], self._planes)
        if weights is not None and weights != self.latest:
            self.latest = weights


def ask_paths(lab: Lab, host: str) -> dict[str, Paths] | None:
    """Paths of a host to all others as a lab's BGP has them; None where nobody answers."""
    call = Call(lab.control_socket(CONTROL), {"do": "paths", "host": host})
    answer = ask_all({"": call}, ANSWER_S)[""]
    return paths_of(answer) if "paths" in answer else None


def paths_of(answer: Mapping[str, Any]) -> dict[str, Paths]:
    """Paths to each destination as an agent answers; nothing where it does not."""
    return {
        name: {int(n): None if said is None else Fraction(said) for n, said in paths.items()}
        for name, paths in answer.get("paths", {}).items()
    }
