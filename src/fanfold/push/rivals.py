"""Pushes of one name at one receiver: which of them goes on, and what the others are told.

The newest epoch has the name (push/epochs.py). A push of the same content waits for one that is
alive, unless it takes over; the silent is taken over at once. Whoever lost the name is refused,
counted and told by whom; two that came so far put their files in place one after the other.
"""

from collections.abc import Callable, Iterable

from fanfold.errors import FanfoldError
from fanfold.kernels.codes import DROP_STALE_EPOCH
from fanfold.push.epochs import NO_EPOCH, Epochs, Holder
from fanfold.push.gate import RefusedError
from fanfold.push.hands import Work
from fanfold.push.quotas import OVER
from fanfold.push.session import Session
from fanfold.wire.report import ReportState

TAKE_OVER_PS = 400_000_000_000
"""A live sender is heard more often than this: it asks every 150 ms at least."""

Fail = Callable[[Session, "TakenOverError"], None]


class TakenOverError(RefusedError):
    """Another push has the name. holder: which."""

    def __init__(self, holder: Holder, text: str) -> None:
        super().__init__(DROP_STALE_EPOCH, text)
        self.holder = holder


class Rivals:
    """The names of one receiver.

    Args:
        epochs: by which push each name is taken. name_of: name of a BFIR. fail: ends a push.
    """

    def __init__(self, epochs: Epochs, name_of: Callable[[int], str], fail: Fail) -> None:
        self._epochs, self._name_of, self._fail = epochs, name_of, fail
        self._placing: dict[str, Work] = {}

    def require_newest(self, title: str, holder: Holder) -> None:
        """See that no newer push has taken a name.

        Raises:
            TakenOverError: one has.
        """
        known = self._epochs.newest(title)
        if holder.is_before(known):
            raise self._taken(known, holder)

    def take(self, session: Session, sessions: Iterable[Session]) -> None:
        """A push begins to take blocks: the name is its own, older ones of it end.

        Raises:
            TakenOverError: a newer one came in between. StoreError: it cannot be kept.
        """
        self.require_newest(session.title, session.holder)
        self._epochs.take(session.title, session.holder)
        for other in sessions:
            is_open = other.incoming is not None and other.state not in OVER
            if other is session or other.title != session.title or not is_open:
                continue
            if other.state != ReportState.FINISHING and other.holder != session.holder:
                self.lose(other, session)

    def lose(self, other: Session, to: Session) -> None:
        """A push loses its name to another one."""
        self._fail(other, self._taken(to.holder, other.holder))

    def lets_go(self, other: Session, to: Session, silent_ps: int) -> bool:
        """Whether a push of the same content gives way: silent, or taken over from."""
        if to.grant is not None and to.grant.takes_over:
            return other.state != ReportState.FINISHING
        return silent_ps > TAKE_OVER_PS

    def place(self, title: str, work: Work) -> None:
        """Files of a name are being put in place."""
        self._placing[title] = work

    def is_placing(self, title: str) -> bool:
        """Whether they still are, of an earlier push."""
        work = self._placing.get(title)
        if work is None:
            return False
        try:
            is_over = work.is_over()
        except FanfoldError:  # its own push hears of that
            is_over = True
        if is_over:
            del self._placing[title]
        return not is_over

    def _taken(self, known: Holder, holder: Holder) -> TakenOverError:
        who = self._name_of(known.bfir_id) if known.bfir_id else "somebody"
        text = f"taken over by a newer push from {who}"
        if holder.epoch == NO_EPOCH:
            text += "; this sender tells no epoch, and cannot be newer"
        return TakenOverError(known, text)
