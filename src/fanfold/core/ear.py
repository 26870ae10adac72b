"""The time in which a node could have heard: the clock by which it judges others.

A node that was stopped, or waited for a processor, and one whose socket still holds what came
meanwhile, has heard nothing, whatever others said. Such time is taken off the clock, but for a
small part of it: a machine that is never idle has to come to an end too.
"""

COUNTED = 16
"""One part in so many of the time in which nothing could be heard counts nevertheless."""


class Ear:
    """A clock that stands while a node cannot hear; it never goes back."""

    def __init__(self, now_ps: int) -> None:
        self.unheard_ps = 0
        """Time taken off until now."""
        self._seen_ps = now_ps
        self._told_ps = now_ps

    def listen(self, now_ps: int, due_ps: int, empty_ps: int) -> None:
        """A step of the node runs now.

        due_ps: when it was to run at the latest. empty_ps: when its socket was last found
        empty: all that had come until then was heard.
        """
        passed_ps = now_ps - self._seen_ps
        late_ps = max(now_ps - max(due_ps, self._seen_ps), 0)
        missed_ps = passed_ps if empty_ps < self._seen_ps else late_ps
        self.unheard_ps += missed_ps - missed_ps // COUNTED
        self._seen_ps = now_ps

    def time_ps(self, now_ps: int) -> int:
        """What this clock shows."""
        self._told_ps = max(self._told_ps, now_ps - self.unheard_ps)
        return self._told_ps
