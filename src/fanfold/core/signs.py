"""Signs of life: when a receiver was heard, when it gained a block, which word is its own."""

from fanfold.core.flight import members_of


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

    def stalled_ps(self, now_ps: int, bit: int, since_ps: int) -> int:
        """How long it finished nothing, at most since then."""
        return now_ps - max(self._gained_ps.get(bit, 0), since_ps)

    def deaf_ps(self, now_ps: int) -> int:
        """How long nobody at all was heard; 0 before the first was."""
        return now_ps - max(self._heard_ps.values(), default=now_ps)


class Lives:
    """Receivers that joined again, whose words from before may still be on the way."""

    def __init__(self) -> None:
        self._again: dict[int, tuple[int, int]] = {}

    def begin(self, bit: int, until_ps: int, cursor: int) -> None:
        """Doubt a receiver's word on blocks before ``cursor`` until then."""
        self._again[bit] = (until_ps, cursor)

    def trusted(self, now_ps: int, block: int, heard: int) -> int:
        """Those of ``heard`` whose word on a block is of this life."""
        for k, (until_ps, cursor) in self._again.items():
            if now_ps < until_ps and block < cursor:
                heard &= ~(1 << k)
        return heard
