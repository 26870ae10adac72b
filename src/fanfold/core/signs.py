"""Signs of life: when a receiver was heard or gained a block, which word is of this life."""

from fanfold.core.flight import Lane, members_of

BACK_PS = 100_000_000_000
"""Who was heard within this time is not silent any more."""
MAX_RETURNS = 16
"""Who fell silent more often than this goes on at its own pace."""
SLOW_PS = 400_000_000_000
"""Who speaks again, takes longer for what was on its way to it, and has a full queue before
it, is slow."""


class Signs:
    """When each receiver of a fan was heard and finished a block; feedback counts at a tick."""

    def __init__(self) -> None:
        self.heard = self.gained = 0  # since the last tick
        self._heard_ps: dict[int, int] = {}
        self._gained_ps: dict[int, int] = {}

    def settle(self, now_ps: int) -> None:
        """A tick: who was heard or finished a block since the last one did it now."""
        for k in members_of(self.heard):
            self._heard_ps[k] = now_ps
        for k in members_of(self.gained):
            self._gained_ps[k] = now_ps
        self.heard = self.gained = 0

    def begin(self, now_ps: int, bit: int) -> None:
        """A receiver joins, or joins again."""
        self._heard_ps[bit] = now_ps
        self._gained_ps[bit] = now_ps

    def hear(self, now_ps: int, bit: int) -> None:
        """A sign of life that is not feedback."""
        self._heard_ps[bit] = max(self._heard_ps.get(bit, 0), now_ps)

    def silent_ps(self, now_ps: int, bit: int, since_ps: int) -> int:
        """How long nothing was heard of it, at most since then."""
        return now_ps - max(self._heard_ps.get(bit, 0), since_ps)

    def mute(self, mask: int, since_ps: int) -> int:
        """Those of ``mask`` of whom nothing was heard since then."""
        silent = (
            k for k in members_of(mask & ~self.heard) if self._heard_ps.get(k, 0) < since_ps
        )
        return sum(1 << k for k in silent)

    def stalled_ps(self, now_ps: int, bit: int, since_ps: int) -> int:
        """How long it finished nothing, at most since then."""
        return now_ps - max(self._gained_ps.get(bit, 0), since_ps)

    def deaf_ps(self, now_ps: int) -> int:
        """How long nobody at all was heard; 0 before the first was."""
        return now_ps - max(self._heard_ps.values(), default=now_ps)


class Resting:
    """Receivers that forgot everything, until no word of before is on its way any more."""

    def __init__(self) -> None:
        self._gone_ps: dict[int, int] = {}  # when each was sent something last
        self._waiting: dict[int, tuple[int, int]] = {}  # bit -> (until, first block it lacks)
        self.mask = 0

    def forget(self, now_ps: int, mask: int) -> None:
        """Nothing more is sent to them."""
        for k in members_of(mask):
            self._gone_ps[k] = now_ps
            self._waiting.pop(k, None)
        self.mask &= ~mask

    def begin(self, now_ps: int, bit: int, first: int, rest_ps: int) -> bool:
        """Whether one that joins again, and lacks blocks from ``first`` on, has to wait."""
        until_ps = self._gone_ps.get(bit, -rest_ps) + rest_ps
        if until_ps <= now_ps:
            return False
        self._waiting[bit] = until_ps, first
        self.mask |= 1 << bit
        return True

    def over(self, now_ps: int) -> list[tuple[int, int]]:
        """(bit, first block it lacks) of those who have waited long enough."""
        over = [(k, first) for k, (until, first) in self._waiting.items() if until <= now_ps]
        for k, _ in over:
            del self._waiting[k]
            self.mask &= ~(1 << k)
        return over


class Returns:
    """Who of those split off for their silence speaks again, and whether it is slow."""

    def __init__(self) -> None:
        self._since_ps: dict[int, int] = {}
        self._n_back: dict[int, int] = {}

    def judge(self, now_ps: int, lane: Lane, signs: Signs, full: int) -> tuple[int, int]:
        """Members of a silent lane that go on with all, and those that are slow.

        full: whose way told of a queue that dropped. Where none did, what takes long is loss.
        """
        back = slow = 0
        owing = 0
        for flight in lane.flights.values():
            owing |= flight.need
        for k in members_of(lane.members):
            if signs.silent_ps(now_ps, k, 0) >= BACK_PS and k not in self._since_ps:
                continue
            since_ps = self._since_ps.setdefault(k, now_ps)
            is_over = int(now_ps - since_ps >= SLOW_PS) << k
            # What came while it stood still filled its queue: the first time that says nothing.
            told = full if self._n_back.get(k) else 0
            back |= (1 << k) & ~owing | is_over & ~told
            slow |= is_over & owing & told
        for k in members_of(back | slow):
            del self._since_ps[k]
        for k in members_of(back):
            self._n_back[k] = self._n_back.get(k, 0) + 1
            if self._n_back[k] > MAX_RETURNS:
                back, slow = back & ~(1 << k), slow | 1 << k
        return back, slow
