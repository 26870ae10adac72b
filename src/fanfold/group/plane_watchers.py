"""Watchers of a group's planes: a thread for each, by which ranks tell what they see.

They go on while a program does something else, so a rank that is late with an operation is
told from a plane that is silent (plane_view.py).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from fanfold.group.communicator import GroupError
from fanfold.group.plane_view import PlaneView, Row, Turn, Words
from fanfold.group.session import Session
from fanfold.live.clock import now_ps
from fanfold.live.rank import RankEnd
from fanfold.live.worker import Gate, Worker
from fanfold.units import PS_PER_SECOND

BEAT_S, HASTE_S = 0.2, 0.01
"""Between words over a plane; while ranks meet in a new turn."""
LOOK_PS = PS_PER_SECOND
NAME = "planes"


class Watchers:
    """One rank's watchers.

    Args:
        sessions: of each plane, groups of their own.

    Attributes:
        gate: of ``view``, which only changes under it. on_turn: called where the turn is
            another one, in a watcher's thread, under ``gate``: it must not wait.
    """

    def __init__(self, sessions: Sequence[Session], rank: int) -> None:
        self.gate = Gate()
        self.on_turn: Callable[[], None] = _nothing
        self.view = PlaneView(len(sessions), sessions[0].size, rank)
        self._sessions, self._workers = sessions, list[Worker]()
        self._is_stopped = False

    def start(self) -> None:
        """Begin, once all ranks have been built."""
        if not self._workers and not self._is_stopped:
            self._workers = [Worker(f"fanfold-plane-{i}") for i in range(len(self._sessions))]
            for i, worker in enumerate(self._workers):
                worker.submit(partial(self._watch, i))

    def turn(self) -> Turn:
        """Counts of planes just now."""
        return self.view.turn

    def meet(self, turn: Turn, row: Row, until_ps: int) -> list[Row] | None:
        """Rows of all ranks, once they have said them; None where the turn is another one.

        Raises:
            TimeoutError: not all had by then.
        """
        with self.gate:
            self.view.say(turn, row)
            self.gate.notify_all()
            while self.view.turn == turn and not self.view.is_met():
                left_ps = until_ps - now_ps()
                if self._is_stopped or left_ps <= 0:
                    raise TimeoutError
                self.gate.wait(left_ps / PS_PER_SECOND)
            return list(self.view.rows) if self.view.turn == turn else None

    def unmet(self) -> list[int]:
        """Ranks that have not said where they stand."""
        view = self.view
        return [rank for rank, turn in enumerate(view.turns) if turn != view.turn]

    def end_in(self, place: int) -> RankEnd:
        """The end by which a plane is watched."""
        return self._sessions[place].end

    def stop(self) -> None:
        """Let all end."""
        with self.gate:
            self._is_stopped = True
            self.gate.notify_all()
        for session in self._sessions:
            session.end.is_stopped = True
            session.end.wake()

    def close(self) -> None:
        """Wait for their ends, and give all back."""
        self.stop()
        for worker in self._workers:
            worker.close()
        for session in self._sessions:
            if session.broken is None:
                session.end.leave()
            session.end.close()

    def _watch(self, plane: int) -> None:
        with suppress(GroupError):  # stopped; or it cannot be watched: then it is silent
            while not self._is_stopped:
                with self.gate:
                    words = self.view.words()
                most = self._join(self._sessions[plane], words)
                with self.gate:
                    if self.view.take(plane, most, now_ps()):
                        self.on_turn()
                    self.gate.notify_all()
                    is_hasty = self.gate.wait_for(self._is_hasty, BEAT_S)
                    if is_hasty and not self._is_stopped:
                        self.gate.wait_for(lambda: self._is_stopped, HASTE_S)

    def _is_hasty(self) -> bool:
        return self._is_stopped or not self.view.is_met()

    def _join(self, session: Session, words: Words) -> Words:
        """The same words until they have come through; GroupError where this ends first."""
        while True:
            until_ps = now_ps() + LOOK_PS
            most = session.join_words(NAME, words, until_ps, may_end=True)
            if most is not None:
                return most


def _nothing() -> None:
    """Nobody has to know."""
