"""The process group that PyTorch talks to: its life, and its queue of operations."""

import atexit
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import torch

from fanfold.group.communicator import Communicator
from fanfold.torch.build import build_communicator
from fanfold.torch.collectives import Collectives
from fanfold.torch.eager import untraced
from fanfold.torch.monitor import Monitor
from fanfold.torch.placement import FanfoldOptions
from fanfold.torch.plans import Plan
from fanfold.torch.rendezvous import Rendezvous
from fanfold.torch.runner import ALL, Runner, Task, refusal
from fanfold.torch.single_rank import SingleRank
from fanfold.torch.store import GroupStore, Store
from fanfold.torch.work import FanfoldWork, as_torch

_open: "WeakValueDictionary[int, FanfoldGroup]" = WeakValueDictionary()
"""In the order in which they were made: all ranks leave them in the same."""
_numbers = count()


@untraced
class FanfoldGroup(Collectives):
    """One group; its communicator is built in the background as soon as all ranks are here."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        rank: int,
        ranks: Sequence[int],
        timeout: timedelta,
        name: str,
        own: FanfoldOptions | None = None,
        build: Any = None,
    ) -> None:
        super().__init__(rank, len(ranks))
        self._name, self._timeout = name, timeout
        self._gathering: list[FanfoldWork] | None = None
        self._n_begun = [0, 0]  # messages, collectives
        rendezvous = Rendezvous(open_store, rank, ranks, name)
        self._monitor = Monitor(rendezvous, GroupStore(open_store))

        def connect() -> Communicator:
            if len(ranks) == 1:
                return SingleRank()
            made = build or partial(build_communicator, own=own)
            return rendezvous.hold(own, made, _ps(timeout))

        self._runner = Runner(name, rendezvous)
        self._runner.start(connect)
        _open[next(_numbers)] = self

    # What PyTorch asks of a group besides operations.

    def getBackendName(self) -> str:  # noqa: N802 - PyTorch's name
        """Name it is registered by."""
        return "fanfold"

    def getRank(self) -> int:  # noqa: N802
        """Rank of this process in the group."""
        return self._rank

    def getSize(self) -> int:  # noqa: N802
        """Ranks of the group."""
        return self._size

    def rank(self) -> int:
        """Rank of this process in the group."""
        return self._rank

    def size(self) -> int:
        """Ranks of the group."""
        return self._size

    def name(self) -> str:
        """Name of the backend."""
        return "fanfold"

    def getGroupName(self) -> str:  # noqa: N802
        """Name that functional collectives find the group by."""
        return self._name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """PyTorch gives the name after the group is made."""
        self._name = name

    @property
    def group_name(self) -> str:
        """The same, for Python."""
        return self._name

    @property
    def timeout(self) -> timedelta:
        """Deadline of operations that name none."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Deadline of operations that name none."""
        self._timeout = timeout

    @property
    def _device_types(self) -> list[torch.device]:
        """Devices whose tensors it takes: PyTorch looks here where it makes tensors itself."""
        return [torch.device("cpu")]

    def _get_sequence_number_for_group(self) -> int:
        """Collectives begun so far; errors name them by it."""
        return self._n_begun[True]

    def monitored_barrier(self, timeout: timedelta, wait_all_ranks: bool = False) -> None:
        """A barrier by the group's store, whose first rank names those that do not come."""
        self._monitor.hold(_ps(timeout), is_patient=wait_all_ranks)

    def counters(self) -> dict[str, int]:
        """Of the communicator; ``all_gathered``: operations that hosts joined by themselves."""
        return self._runner.counters() | {"all_gathered": self._n_gathered}

    def shutdown(self) -> None:
        """End the group on this rank."""
        self._runner.close()

    def abort(self) -> None:
        """The same; what is under way fails."""
        self.shutdown()

    # Operations.

    def _start_coalescing(self, device: Any) -> None:
        """Keep what is called from here on together."""
        self._gathering = []

    def _end_coalescing(self, device: Any) -> FanfoldWork:
        """One Work for all since the start."""
        works, self._gathering = self._gathering or [], None

        def plan() -> Plan:
            return Plan([], lambda c, t: [], [], lambda: [work.wait() for work in works])

        return self._run("coalesced", None, plan)

    def _run(
        self, name: str, opts: Any, plan: Callable[[], Plan], *, to: int = ALL
    ) -> FanfoldWork:
        """Put an operation into the queue; what is wrong with its arguments is raised here.

        Args:
            to: rank that it sends to, NOBODY where it receives; others than ALL: other ranks
                of the group have no part in it, and are told of no refusal.
        """
        timeout = getattr(opts, "timeout", None)
        if timeout is None or timeout <= timedelta(0):
            timeout = self._timeout
        self._n_begun[to == ALL] += 1
        number = self._n_begun[to == ALL]
        try:
            made = plan()
        except Exception as error:
            work = self._runner.work(name, [], _ps(timeout), number)
            if to == ALL:
                self._runner.submit(refusal(error, work))
            raise as_torch(error, name, work) from error
        work = self._runner.work(name, made.tensors, _ps(timeout), number)
        work.record(self.getBackendName(), made.given)
        self._runner.submit(Task(work, made.start, made.finish, to, made.is_plain))
        if self._gathering is not None:
            self._gathering.append(work)
        return work


def create_group(
    open_store: Callable[[], Store],
    rank: int,
    ranks: Sequence[int],
    timeout: timedelta,
    name: str,
    own: FanfoldOptions | None,
) -> FanfoldGroup:
    """A group as PyTorch asks for it."""
    return FanfoldGroup(open_store, rank, ranks, timeout, name, own)


def close_all() -> None:
    """End all groups of this process, before the interpreter goes."""
    for _, group in sorted(_open.items()):
        group.shutdown()


atexit.register(close_all)


def _ps(timeout: timedelta) -> int:
    return timeout // timedelta(microseconds=1) * 1_000_000
