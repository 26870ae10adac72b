"""One receiver of a push, as its sender knows it."""

from collections.abc import Collection, Iterable
from enum import StrEnum

from fanfold.push.epochs import Holder, holder_told
from fanfold.units import NEVER, PS_PER_SECOND
from fanfold.wire.report import Report, ReportError

FIRST_CALL_PS = 150_000_000_000
MOST_CALL_PS = 1_000_000_000_000
"""How often a silent receiver is called: first, and at most, doubling in between."""
MAX_RETURNS = 16
"""One that comes back more often than this and has gained nothing meanwhile has failed."""
ABOVE_PS = 1_000_000_000_000
"""One that finds a newer push so soon after it began, began after it: its clock is behind."""


class State(StrEnum):
    """Where a receiver stands, as the sender knows it."""

    WAITING = "waiting"
    CHECKING = "checking"
    RECEIVING = "receiving"
    FINISHING = "finishing"
    SILENT = "silent"
    VERIFIED = "verified"
    FAILED = "failed"


UNREADY = (State.WAITING, State.CHECKING)
IN = (State.RECEIVING, State.FINISHING, State.VERIFIED)
"""It was let in."""
ENDED = (State.VERIFIED, State.FAILED)


class Peer:
    """One receiver."""

    def __init__(self, now_ps: int) -> None:
        self.state = State.WAITING
        self.error = ""
        self.lost_to: Holder | None = None  # another push has the name of this one
        self.n_kept: int | None = None  # blocks that it had before this push, once it said so
        self.digest = b""
        self.done_ps = 0
        self.n_have = 0
        self.note = ""  # what it waits for
        self.heard_ps = now_ps
        self.slices: dict[int, bytes] = {}
        self.is_split = False
        self.is_silent = False  # it was silent to the end
        self.is_cut = False  # it answered, and got nothing to the end
        self.remembers = False  # it is only silent: what it said before still holds
        self.is_owing = False  # an answer to the last question
        self.way = 0  # by which it is asked, and answers
        self.n_restarts = 0
        self.n_forged = 0  # words that lacked the MAC of its key
        self.is_strange = False  # a word of it lacked the nonce: it is asked
        self.other = b""  # digest that it was done with, unlike the source's
        self.denied_ps: int = NEVER  # since when its words deny what FEEDBACK claimed for it
        self.idle_ps: int = NEVER  # since when nothing is waited for but its own work
        self.moved_ps: int = NEVER  # when it told of progress in that last
        self.progress = 0
        self._call_ps = 0  # a silent one is called then
        self._call_gap_ps = 0
        self._n_returns = 0
        self._had = 0

    def next_way(self) -> int:
        """The way of a question: another one where the last was not answered."""
        self.way += int(self.is_owing)
        self.is_owing = True
        return self.way

    def fall_silent(self, now_ps: int) -> None:
        """It answers nothing: it is set aside until it speaks again."""
        self.state, self.slices = State.SILENT, {}
        self.remembers = True
        self.idle_ps = self.denied_ps = NEVER
        self._call_ps, self._call_gap_ps = now_ps, FIRST_CALL_PS

    def why_silent(self, now_ps: int) -> str:
        """What to say of one that is silent to the end."""
        text = f"silent for {(now_ps - self.heard_ps) / PS_PER_SECOND:.1f} s"
        if self.n_forged:
            text += f", but for {self.n_forged} words without the MAC of its key"
        return text

    def is_called(self, now_ps: int) -> bool:
        """A silent receiver is to be called now; then again after twice as long."""
        if now_ps < self._call_ps:
            return False
        self._call_ps = now_ps + self._call_gap_ps
        self._call_gap_ps = min(2 * self._call_gap_ps, MOST_CALL_PS)
        return True

    def call_soon(self, now_ps: int) -> None:
        """A silent receiver gave a sign of life: it is called at once."""
        self._call_ps, self._call_gap_ps = min(self._call_ps, now_ps), FIRST_CALL_PS

    def refusal(self, report: Report) -> str:
        """What to say of one that failed; notes who has the name of the push, if it is that."""
        text = report.body.decode("utf-8", "replace")
        name = ReportError(report.error).name.lower()
        if report.error == ReportError.REFUSED:
            self.lost_to = holder_told(report.digest)
        return f"{name}: {text}" if text else name

    def come_back(self, n_have: int) -> bool:
        """A silent receiver speaks again; False: it did so too often, and gained nothing."""
        self._n_returns = 0 if n_have > self._had else self._n_returns + 1
        self._had = max(self._had, n_have)
        self.state = State.WAITING
        return self._n_returns <= MAX_RETURNS


def rival_of(peers: Iterable[Peer]) -> Holder | None:
    """The newest push that has taken the name of one from it, at any of its receivers."""
    told = [peer.lost_to for peer in peers if peer.lost_to is not None]
    return max(told, key=lambda holder: holder.epoch, default=None)


def found_newer(peers: Collection[Peer], since_ps: int) -> Holder | None:
    """A newer push that one found when it began, so long ago: nobody has let it in yet."""
    if since_ps > ABOVE_PS or any(p.n_kept is not None or p.state in IN for p in peers):
        return None
    return rival_of(peers)
