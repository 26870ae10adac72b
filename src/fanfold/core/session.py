"""A session with one neighbour: is it there; BFD of RFC 5880 section 6.8, docs/wire/link.md.

What comes from a neighbour, data or HELLO, is heard at times of an ear (core/ear.py); HELLOs
leave by the node's own clock: a node that was stopped speaks at once when it goes on.
"""

from typing import NamedTuple

from fanfold.units import NEVER, PS_PER_MS, PS_PER_SECOND, PS_PER_US
from fanfold.wire.hello import Diag, Hello, SessionState

UP, INIT, DOWN = SessionState.UP, SessionState.INIT, SessionState.DOWN
LONGEST_PS = 10 * PS_PER_SECOND
"""A neighbour that says that it speaks more seldom is not believed."""
ON_TOP = 2
"""Times the lag that a neighbour tells of itself, and times the way to an answer and back, are
waited for it, beyond its intervals."""


class Pace(NamedTuple):
    """How often a node speaks, and how much silence is the end."""

    fast_ps: int = 50 * PS_PER_MS
    slow_ps: int = PS_PER_SECOND
    detect_mult: int = 3


class Session:
    """One end of a session.

    Args:
        disc: its discriminator, not 0. pace: bounds of its intervals.
    """

    def __init__(self, disc: int, pace: Pace) -> None:
        self.disc, self.pace = disc, pace
        self.state = DOWN
        self.diag = Diag.NONE
        self.due_ps = 0
        """When the next HELLO leaves at the latest."""
        self.silent_ps = 0
        """How long nothing had been heard when it fell last."""
        self._is_wanting = False  # often, from the other end
        self._is_polling = self._answers = False
        self.way_ps: int = NEVER
        """From a poll to its answer, when that came last; NEVER: not known yet."""
        self._asked_ps = 0  # of the ear: when the poll under way began
        self._poll_ps = 0  # of the ear: nothing was heard since, and an answer is due
        self._heard_ps = 0  # of the ear
        self.pace_ps, self._n_longer = pace.slow_ps, 0
        """Interval of HELLOs that is kept."""
        self._told = Hello(DOWN, pace.detect_mult, 0, 1, 0, 0, 0)

    def on_hello(self, heard_ps: int, hello: Hello) -> bool:
        """Take what the other end says; False: it is not of this session (6.8.6)."""
        if hello.your_disc not in (0, self.disc):
            return False
        if hello.your_disc == 0 and hello.state in (INIT, UP):
            return False
        before, self._told, self._heard_ps = self.state, hello, heard_ps
        self._answers |= hello.poll
        if hello.final and self._is_polling:
            self._is_polling = False
            self.way_ps = max(heard_ps - self._asked_ps, 0)
        self._poll_ps = heard_ps
        if hello.state == SessionState.ADMIN_DOWN or (self.state, hello.state) == (UP, DOWN):
            self._fall(Diag.TOLD)
        elif (self.state, hello.state) in ((DOWN, INIT), (INIT, INIT), (INIT, UP)):
            self.state, self.diag = UP, Diag.NONE
            self.learn_way(heard_ps)
        elif (self.state, hello.state) == (DOWN, DOWN):
            self.state = INIT
        if self.state != before or hello.poll:
            self.due_ps = 0
        return True

    def on_life(self, heard_ps: int) -> None:
        """Something else came from the neighbour."""
        if self.state == UP:
            self._heard_ps = max(self._heard_ps, heard_ps)
            self._poll_ps = max(self._poll_ps, heard_ps)

    def want(self, heard_ps: int, *, often: bool) -> None:
        """From now on the other end is to speak often, or need not; at ``heard_ps``."""
        if often and not self._is_wanting and self.state == UP:
            self._poll(heard_ps)
        self._is_wanting = often

    def learn_way(self, heard_ps: int) -> None:
        """Ask how long an answer takes; until it is here, silence is as long as at rest."""
        self.way_ps = NEVER
        if self.state == UP:
            self._poll(heard_ps)

    def _poll(self, heard_ps: int) -> None:
        if not self._is_polling:
            self._asked_ps = heard_ps
        self._is_polling, self._poll_ps, self.due_ps = True, heard_ps, 0

    def dies_ps(self) -> int:
        """Time of the ear from when on silence has lasted too long; 0: it has died."""
        if self.state == DOWN:
            return 0
        lag_ps = ON_TOP * self._told.lag_ms * PS_PER_MS
        mult = self._told.detect_mult
        every_ps = min(self._told.interval_us * PS_PER_US, LONGEST_PS)
        if self.way_ps == NEVER:
            every_ps = max(every_ps, self.pace.slow_ps)
        dies_ps = self._heard_ps + mult * every_ps + lag_ps
        if self._is_polling and self.way_ps != NEVER:
            answer_ps = mult * self.pace.fast_ps + ON_TOP * self.way_ps
            dies_ps = min(dies_ps, self._poll_ps + answer_ps + lag_ps)
        return dies_ps

    def expire(self, now_heard_ps: int) -> bool:
        """Fall where silence has lasted too long; ``now_heard_ps``: what the ear shows."""
        if self.state == DOWN or now_heard_ps < self.dies_ps():
            return False
        self.silent_ps = now_heard_ps - self._heard_ps
        self._fall(Diag.SILENT)
        self.due_ps = 0
        return True

    def hello(self, now_ps: int, fabric: int, digest: int, lag_ms: int, jitter: int) -> Hello:
        """What to send now; the next one is due after an interval.

        jitter: 0..255 of 256 of a quarter of the interval that it comes earlier.
        """
        wished_ps = self._interval_ps()
        if wished_ps > self.pace_ps and self._n_longer < self.pace.detect_mult:
            self._n_longer += 1  # announced before it is kept
        else:
            self.pace_ps, self._n_longer = wished_ps, 0
        self.due_ps = now_ps + self.pace_ps - self.pace_ps // 4 * jitter // 256
        is_answer, self._answers = self._answers, False
        wanted_ps = self.pace.fast_ps if self._is_wanting else self.pace.slow_ps
        return Hello(
            state=self.state,
            detect_mult=self.pace.detect_mult,
            fabric=fabric,
            my_disc=self.disc,
            your_disc=self._told.my_disc if self.state != DOWN else 0,
            interval_us=wished_ps // PS_PER_US,
            wanted_us=wanted_ps // PS_PER_US,
            digest=digest,
            diag=self.diag,
            lag_ms=lag_ms,
            poll=self._is_polling,
            final=is_answer,
        )

    def is_settled(self, digest: int) -> bool:
        """The other end would say nothing new by saying the same again."""
        told = self._told
        is_plain = not (told.poll or told.final or self._is_polling)
        return self.state == UP and told.state == UP and is_plain and told.digest == digest

    def _interval_ps(self) -> int:
        if self._is_polling:
            return self.pace.fast_ps
        if self.state != UP:
            return self.pace.slow_ps
        wanted_ps = self._told.wanted_us * PS_PER_US
        return min(max(wanted_ps, self.pace.fast_ps), self.pace.slow_ps)

    def _fall(self, diag: Diag) -> None:
        self.state, self.diag = DOWN, diag
        self._is_polling = False
