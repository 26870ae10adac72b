"""A limit to how often something is said: a few at once, and then at a rate."""


class Bucket:
    """Room for ``most``, one more every ``every_ps``."""

    def __init__(self, most: int, every_ps: int) -> None:
        self._most, self._every_ps = most, every_ps
        self._full_ps = 0  # when it is full again

    def take(self, now_ps: int) -> bool:
        """One more is said; False where it is to wait until ``free_ps``."""
        if now_ps < self.free_ps():
            return False
        self._full_ps = max(self._full_ps, now_ps) + self._every_ps
        return True

    def free_ps(self) -> int:
        """From when on there is room."""
        return self._full_ps - (self._most - 1) * self._every_ps
