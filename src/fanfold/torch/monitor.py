"""A barrier that goes by the store and not by the fabric, and says who did not come.

As ProcessGroupGloo's ``monitoredBarrier``, with its words: rank 0 waits for one rank after the
other and tells all how it ended. It is for finding out why a group hangs; so it needs no
operation of the group to end, and breaks nothing where it fails.
"""

from collections.abc import Callable
from functools import partial
from threading import Event
from typing import TypeVar

import msgspec

from fanfold.group.communicator import GroupError
from fanfold.live.clock import now_ps
from fanfold.torch.rendezvous import FIRST_WAIT_S, LONGEST_WAIT_S, Rendezvous
from fanfold.torch.store import GroupStore
from fanfold.torch.work import as_torch
from fanfold.units import PS_PER_SECOND

T = TypeVar("T")
PS_PER_MS = PS_PER_SECOND // 1000
NAME = "monitored_barrier"


class Monitor:
    """Monitored barriers of one group on one rank; store: the group's, for this alone."""

    def __init__(self, rendezvous: Rendezvous, store: GroupStore) -> None:
        self._rendezvous, self._store = rendezvous, store
        self._n = 0

    def hold(self, timeout_ps: int, *, is_patient: bool) -> None:
        """Return when all ranks have called it.

        Args:
            is_patient: rank 0 looks for all that are late, and not only for the first.

        Raises:
            DistBackendError: at rank 0 it names who is late, elsewhere it points to rank 0.
        """
        if len(self._rendezvous.ranks) == 1:
            return
        self._n += 1
        until_ps = now_ps() + timeout_ps
        folder = _wait(lambda: self._rendezvous.folder or None, until_ps)
        if folder is not None:
            self._store.enter(f"{folder}/{NAME}/{self._n}")
        rank = self._rendezvous.rank
        if rank == 0:
            late = self._late(until_ps, is_formed=folder is not None, is_patient=is_patient)
            if late:
                raise _failed(_said(late, timeout_ps, is_patient=is_patient), late)
        elif folder is None or not self._follow(until_ps):
            text = f"Rank {rank} successfully reached monitoredBarrier, but received errors"
            text += " while waiting for send/recv from rank 0."
            raise _failed(f"{text} Please check rank 0 logs for faulty rank.", [0])

    def _late(self, until_ps: int, *, is_formed: bool, is_patient: bool) -> list[int]:
        """Rank 0: who does not come, the first of them or all; the others are told."""
        if not is_formed:
            late = self._rendezvous.late() or [1]
            return late if is_patient else late[:1]
        late = []
        for rank in range(1, len(self._rendezvous.ranks)):
            if not _wait(partial(self._has, str(rank)), until_ps):
                late.append(rank)
                if not is_patient:
                    break
        self._store.set("end", msgspec.json.encode(late).decode())
        return late

    def _follow(self, until_ps: int) -> bool:
        self._store.set(str(self._rendezvous.rank), "")
        if not _wait(partial(self._has, "end"), until_ps):
            return False
        return not msgspec.json.decode(self._store.get("end"), type=list[int])

    def _has(self, key: str) -> bool | None:
        return self._store.check([key]) or None


def _said(late: list[int], timeout_ps: int, *, is_patient: bool) -> str:
    ms = timeout_ps // PS_PER_MS
    if timeout_ps <= 0:
        text = f"Rank 0 timed out in monitoredBarrier after {ms} ms."
        return f"{text} No ranks successfully processed in monitoredBarrier."
    who = f"Rank{'s' if is_patient else ''} {', '.join(map(str, late))}"
    return f"[Rank 0]: {who} failed to pass monitoredBarrier in {ms} ms"


def _failed(text: str, ranks: list[int]) -> Exception:
    return as_torch(GroupError(text, op=NAME, ranks=ranks), NAME)


def _wait(look: Callable[[], T | None], until_ps: int) -> T | None:
    """What is found by a deadline; looks at least once."""
    wait_s, nap = FIRST_WAIT_S, Event()
    while (found := look()) is None and now_ps() < until_ps:
        nap.wait(min(wait_s, max(until_ps - now_ps(), 0) / PS_PER_SECOND))
        wait_s = min(2 * wait_s, LONGEST_WAIT_S)
    return found
