"""What a rank's ends do together, where it has several of one group."""

from collections.abc import Sequence

from fanfold.live.rank import RankEnd


class ManyEnds:
    """Ends of a rank as one."""

    _ends: Sequence[RankEnd]

    def has_fewer_slots(self) -> bool:
        """A root had fewer than were asked for."""
        return any(end.has_fewer_slots() for end in self._ends)

    def wake(self) -> None:
        """End the current wait, from another thread."""
        for end in self._ends:
            end.wake()

    def leave(self) -> None:
        """Who leads tells the BFRs that the group is over."""
        for end in self._ends:
            end.leave()

    def close(self) -> None:
        """Give all back."""
        for end in self._ends:
            end.close()
