"""Blocks dealt to planes by weight: smooth weighted round robin, exact for any whole weights.

Each turn adds to every plane its weight; the one that has most gets the block and gives up the
sum of all. After any number of turns each plane has had its share, to less than one block, and
turns of a plane are spread as evenly as they can be. The order follows from the weights alone.
"""

from collections.abc import Sequence
from math import gcd


def reduced(weights: Sequence[int]) -> tuple[int, ...]:
    """The same weights without a common divisor."""
    divisor = gcd(*weights) or 1
    return tuple(w // divisor for w in weights)


class Dealer:
    """Whose turn it is, one after the other.

    Args:
        weights: of each plane, 0 or more, one at least above 0.
    """

    def __init__(self, weights: Sequence[int]) -> None:
        self.weights = reduced(weights)
        self._sum = sum(self.weights)
        self._credit = [0] * len(weights)

    def turn(self) -> int:
        """The plane of the next block; of equal ones the first."""
        for plane, weight in enumerate(self.weights):
            self._credit[plane] += weight
        found = max(
            (plane for plane, weight in enumerate(self.weights) if weight),
            key=self._credit.__getitem__,
        )
        self._credit[found] -= self._sum
        return found


def deal(n_blocks: int, weights: Sequence[int]) -> bytearray:
    """Plane of each block, in order; a period is dealt once."""
    dealer = Dealer(weights)
    period = min(sum(dealer.weights), n_blocks)
    turns = bytearray(dealer.turn() for _ in range(period))
    n_more = -(-n_blocks // max(period, 1))
    return (turns * n_more)[:n_blocks]
