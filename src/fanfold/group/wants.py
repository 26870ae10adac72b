"""What a group wants of the network."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from fanfold.topo.vat_laid import LaidTree


class Teller(Protocol):
    """Who knows what planes are to carry just now, as live/plane_watch.py does of a lab."""

    latest: Mapping[int, int] | None
    """Weight by plane; None while nobody knows."""

    def close(self) -> None:
        """Nobody asks any more."""


class Nobody:
    """Weights are those of the fabric."""

    latest: Mapping[int, int] | None = None

    def close(self) -> None:
        """Nothing to give back."""


FindTeller = Callable[[Sequence[int]], Teller]
"""Who tells of these planes, until it is closed."""


def find_nobody(planes: Sequence[int]) -> Teller:
    """Planes are as the fabric has them."""
    return Nobody()


class Wants(NamedTuple):
    """See ``FabricCommunicator``. planes: empty, one of them. find_teller: on rank 0."""

    port: int
    window: int
    root_level: int
    root: str
    laid: LaidTree | None
    secret: bytes = b""
    planes: str = ""
    find_teller: FindTeller = find_nobody
