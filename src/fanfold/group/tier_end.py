"""Who is where in a group of several hosts with several ranks at some, and its two ends."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fanfold.group.many_ends import ManyEnds
from fanfold.group.session import Session


class Places(NamedTuple):
    """hosts: in the order of their first ranks. at: ranks of each. host_of: by rank."""

    hosts: tuple[str, ...]
    at: tuple[tuple[int, ...], ...]
    host_of: tuple[int, ...]

    @property
    def leaders(self) -> tuple[int, ...]:
        """First rank of each host: it speaks for the others in the network."""
        return tuple(ranks[0] for ranks in self.at)


def places_of(members: Sequence[str]) -> Places:
    """Places of ranks by the names of their hosts."""
    hosts = tuple(dict.fromkeys(members))
    at = tuple(tuple(r for r, name in enumerate(members) if name == host) for host in hosts)
    return Places(hosts, at, tuple(hosts.index(name) for name in members))


class TierEnd(ManyEnds):
    """The ends of a rank in its host's memory and in the network, as far as it has them.

    near: with the other ranks of its host, None where it is alone there. far: of a leader.
    """

    is_laid = False

    def __init__(
        self, members: Sequence[str], near: Session | None, far: Session | None
    ) -> None:
        self.members = tuple(members)
        self._ends = [session.end for session in (near, far) if session is not None]
        self.block_bytes = min(end.block_bytes for end in self._ends)
        self.kept: list[Any] = []
        """Bytes of the last result."""

    @property
    def is_stopped(self) -> bool:
        """Waits end."""
        return self._ends[0].is_stopped

    @is_stopped.setter
    def is_stopped(self, value: bool) -> None:
        for end in self._ends:
            end.is_stopped = value

    def divide(self, dtype: Any) -> None:
        """Integer means of the last result, rounded down."""
        for part in self.kept:
            values = part.view(dtype)
            np.floor_divide(values, len(self.members), out=values)

    def counters(self) -> dict[str, int]:
        """Of both ends."""
        return {name: n for end in self._ends for name, n in end.counters().items()}
