"""How the ranks of a group find each other: by a few keys of the group's store, without a wait.

A rank writes where it stands and asks again and again who has written; it never blocks in the
store, which all groups of a process share. So groups may be created in any order, on any
rank. First they call the roll (roll.py), so that nothing counts that an attempt before left in
the store. A rank that fails says so, and all others fail with its words. Nobody sends before
all are built.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Event
from typing import TypeVar

import msgspec

from fanfold.errors import EnvironmentLack, FanfoldError
from fanfold.group.communicator import Communicator, GroupError
from fanfold.live.clock import now_ps
from fanfold.topo.fabric import Fabric
from fanfold.topo.planes import planes_of_all
from fanfold.torch.build import draw_number
from fanfold.torch.placement import (
    PLANES,
    WHERE,
    FanfoldOptions,
    digest_of,
    environment,
    find_fabric,
    find_host,
    find_planes,
    find_root,
)
from fanfold.torch.roll import Roll
from fanfold.torch.store import GroupStore, Store
from fanfold.units import PS_PER_SECOND

FIRST_WAIT_S, LONGEST_WAIT_S = 0.001, 0.05
SILENT_PS = 2 * PS_PER_SECOND
"""A store that has not answered for so long is not waited for past the deadline."""
PLACE, BUILT = "place", "built"
"""Steps after the roll; each rank writes a key of its own at each."""
FABRIC, NUMBER, FAILED = "fabric", "number", "failed"
MAX_NUMBERS = 8
"""Numbers, and so ports, that a group tries."""
READ_FABRIC = msgspec.json.Decoder(Fabric)
"""Made here, not in threads of groups: msgspec 0.22 finds out what a struct holds at its first
use, and a second thread that uses it meanwhile takes that half made and crashes."""


T = TypeVar("T")
Build = Callable[[Fabric, list[str], int, int, int], Communicator]
"""fabric, members by rank, rank, number of the group, timeout_ps"""


class Rendezvous:
    """One rank's part in the rendezvous of a group.

    deadline_ps: when it fails, looked at again and again; None: nobody waits for it yet.
    folder: of the store, for this attempt alone; empty until all ranks are here.
    """

    def __init__(
        self, open_store: Callable[[], Store], rank: int, ranks: Sequence[int], name: str
    ) -> None:
        self._store = GroupStore(open_store)
        self.rank, self.ranks, self.name = rank, ranks, name
        self.deadline_ps: int | None = None
        self.folder = ""
        self._roll: Roll | None = None
        self._nap = Event()

    def hold(self, own: FanfoldOptions | None, build: Build, timeout_ps: int) -> Communicator:
        """Build the communicator as soon as all ranks are here.

        Raises:
            GroupError: a rank failed, or did not come in time.
        """
        try:
            return self._hold(own, build, timeout_ps)
        except GroupError:
            raise  # the others know it, or find it out as this rank did
        except Exception as error:
            text = str(error) if isinstance(error, FanfoldError) else repr(error)
            with suppress(RuntimeError):  # the store may be what failed
                self._store.set(FAILED, msgspec.json.encode((self.rank, text)).decode())
            raise self._error(f"rank {self.rank}: {text}", [self.rank]) from error
        finally:
            self._store.close()

    def late(self) -> list[int]:
        """Ranks that are not here yet."""
        return self._roll.late() if self._roll is not None else []

    def leave(self) -> None:
        """Wake up and end."""
        self._nap.set()

    def silence(self) -> GroupError | None:
        """Why ``hold`` hangs: the store does not answer, and the time of the group is over."""
        asked_ps, now = self._store.asked_ps, now_ps()
        if asked_ps is None or now < asked_ps + SILENT_PS:
            return None
        if self._nap.is_set():
            return self._error("the group was closed", [])
        if self.deadline_ps is None or now < self.deadline_ps:
            return None
        return self._error("its store does not answer", [], is_deadline=True)

    def _hold(self, own: FanfoldOptions | None, build: Build, timeout_ps: int) -> Communicator:
        env = environment()
        fabric, digests = self._call_roll(own, env)
        agreed = self._agree(fabric, digests)
        planes = find_planes(own, env)
        self._say(PLACE, f"{find_host(agreed, own, env, self.ranks[self.rank])} {planes}")
        told = [said.split(" ") for said in self._hear(PLACE)]
        members = [host for host, _ in told]
        self._check_planes(agreed, members, [text for _, text in told])
        root = find_root(own, env) if len(set(members)) > 1 else ""  # one host needs none
        busy: list[str] = []
        for attempt in range(MAX_NUMBERS):
            number = self._number(attempt, agreed, members, root)
            try:
                made = build(agreed, members, self.rank, number, timeout_ps)
                self._say(f"{BUILT}{attempt}", "")
            except EnvironmentLack as error:  # another group has the port of this number
                made = None
                self._say(f"{BUILT}{attempt}", str(error))
            busy = [words for words in self._built(made, attempt) if words]
            if made is not None and not busy:
                return made
            if made is not None:
                made.close()
        raise self._error(busy[0], [])

    def _call_roll(
        self, own: FanfoldOptions | None, env: Mapping[str, str]
    ) -> tuple[Fabric | None, list[str]]:
        """This rank's fabric, if it was told of one, and the digests of all ranks'."""
        fabric, error = None, ""
        try:
            fabric = find_fabric(own, env)
        except FanfoldError as lack:
            error = str(lack)
        digest = digest_of(fabric) if fabric else ""
        roll = Roll(self._store, self.rank, len(self.ranks), digest, error)
        self._roll = roll
        called = self._until(roll.look, roll.late)
        self._store.enter(called.name)
        self.folder = called.name
        for rank, answer in enumerate(called.answers):
            if answer.error:
                raise self._error(f"rank {rank}: {answer.error}", [rank])
        return fabric, [answer.digest for answer in called.answers]

    def _check_planes(self, fabric: Fabric, members: list[str], told: list[str]) -> None:
        """All ranks were given the same planes, and have them."""
        odd = next((rank for rank, text in enumerate(told) if text != told[0]), 0)
        if odd:
            text = f"ranks 0 and {odd} were given different planes"
            said = ", ".join(f"{PLANES}={told[rank]!r}" for rank in (0, odd))
            raise self._error(f"{text}: {said}", [0, odd])
        if told[0] and len(set(members)) > 1:
            planes_of_all(fabric, list(dict.fromkeys(members)), told[0], PLANES)

    def _number(self, attempt: int, fabric: Fabric, members: list[str], root: str) -> int:
        """The group's number, which its first rank draws."""
        key = f"{NUMBER}{attempt}"
        if self.rank == 0:
            self._store.set(key, str(draw_number(fabric, list(dict.fromkeys(members)), root)))
        self._wait_for([key], [0])
        return int(self._store.get(key))

    def _built(self, made: Communicator | None, attempt: int) -> list[str]:
        try:
            return self._hear(f"{BUILT}{attempt}")
        except GroupError:
            if made is not None:
                made.close()
            raise

    def _agree(self, mine: Fabric | None, digests: list[str]) -> Fabric:
        """The one fabric of all ranks; those that know it tell those that do not."""
        tellers = [rank for rank, digest in enumerate(digests) if digest]
        if not tellers:
            raise self._error(f"no rank was told of a fabric: {WHERE}", range(len(digests)))
        others = [rank for rank in tellers if digests[rank] != digests[tellers[0]]]
        if others:
            text = f"ranks {tellers[0]} and {others[0]} were told of different fabrics"
            raise self._error(text, [tellers[0], *others])
        if mine is None:
            self._wait_for([FABRIC], tellers[:1])
            return READ_FABRIC.decode(self._store.get(FABRIC))
        if self.rank == tellers[0] and len(tellers) < len(digests):
            self._store.set(FABRIC, msgspec.json.encode(mine).decode())
        return mine

    def _say(self, step: str, value: str) -> None:
        self._store.set(f"{step}/{self.rank}", value)

    def _hear(self, step: str) -> list[str]:
        """What all ranks said at a step."""
        keys = [f"{step}/{rank}" for rank in range(len(self.ranks))]
        self._wait_for(keys, range(len(keys)))
        return [self._store.get(key).decode() for key in keys]

    def _wait_for(self, keys: list[str], ranks: Sequence[int]) -> None:
        """Return when all keys are written.

        Raises:
            GroupError: a rank failed, the deadline is over, or the group was closed.
        """

        def look() -> bool | None:
            if self._store.check(keys):
                return True
            if self._store.check([FAILED]):
                rank, text = msgspec.json.decode(self._store.get(FAILED), type=tuple[int, str])
                raise self._error(f"rank {rank}: {text}", [rank])
            return None

        def late() -> list[int]:
            pairs = zip(ranks, keys, strict=True)
            return [rank for rank, key in pairs if not self._store.check([key])]

        self._until(look, late)

    def _until(self, look: Callable[[], T | None], late: Callable[[], list[int]]) -> T:
        """What ``look`` finds; it is called more and more seldom.

        Args:
            late: ranks that are waited for.

        Raises:
            GroupError: the deadline is over, or the group was closed.
        """
        wait_s = FIRST_WAIT_S
        while (found := look()) is None:
            if self.deadline_ps is not None and now_ps() > self.deadline_ps:
                ranks = late()
                text = f"waited in vain for {said_ranks(ranks)}"
                raise self._error(text, ranks, is_deadline=True)
            if self._nap.wait(wait_s):
                raise self._error("the group was closed", [])
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)
        return found

    def _error(
        self, text: str, ranks: Sequence[int], *, is_deadline: bool = False
    ) -> GroupError:
        told = f"group {self.name!r} did not form: {text}"
        return GroupError(told, op="rendezvous", ranks=ranks, is_deadline=is_deadline)


def said_ranks(ranks: Sequence[int]) -> str:
    """Ranks for people: the first of them."""
    shown = ", ".join(map(str, ranks[:8]))
    more = f" and {len(ranks) - 8} more" if len(ranks) > 8 else ""
    return f"rank{'s' if len(ranks) != 1 else ''} {shown}{more}"
