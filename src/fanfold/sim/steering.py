"""Which instance of a service gets a turn: nearest, least loaded, or by CATS metrics.

Metrics as the CATS working group of the IETF sorts them (draft-ietf-cats-metric-definition,
work in progress): raw ones (level 0) are the delay and bandwidth of paths, by the cost map, the
work that waits at an instance, and the bytes of a session's context and where they lie. Each
category becomes one number (level 1): communication, computing, and moving the context; here
all are times, so that their sum is the one number (level 2) by which instances are compared.
How instances are told of loads is not in it but that it takes its time: loads are as old as the
last update.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fanfold.units import PS_PER_SECOND

BITS = 8


class Load(NamedTuple):
    """What an instance told of itself. wait_ps: work before a turn that comes now.

    n_turns: assigned to it. n_fetches: contexts on their way to it.
    """

    wait_ps: int = 0
    n_turns: int = 0
    n_fetches: int = 0


class Candidate(NamedTuple):
    """One living instance as it looks to one turn.

    number: of the instance. cost: of the path from the user. delay_ps: of it, one way. bps:
    from where the context is; 0: it is here. context_bytes: of the session.
    """

    number: int
    cost: int
    delay_ps: int
    load: Load
    bps: int
    context_bytes: int

    def communication_ps(self) -> int:
        """Level 1: the request there and the first token back."""
        return 2 * self.delay_ps

    def computing_ps(self) -> int:
        """Level 1: work that waits there."""
        return self.load.wait_ps

    def moving_ps(self) -> int:
        """Level 1: the context by what the path has, shared with those on their way."""
        if not self.bps:
            return 0
        bits = self.context_bytes * BITS * (1 + self.load.n_fetches)
        return bits * PS_PER_SECOND // self.bps


Choose = Callable[[Sequence[Candidate]], Candidate]


class Policy(NamedTuple):
    """A way to choose. is_sticky: later turns of a session stay while their instance lives."""

    name: str
    choose: Choose
    is_sticky: bool = False


def nearest(them: Sequence[Candidate]) -> Candidate:
    """Least cost of the path, then least delay."""
    return min(them, key=lambda one: (one.cost, one.delay_ps, one.number))


def least_loaded(them: Sequence[Candidate]) -> Candidate:
    """Least work that waits, then fewest turns, then nearest."""
    return min(
        them,
        key=lambda one: (
            one.load.wait_ps,
            one.load.n_turns,
            one.cost,
            one.delay_ps,
            one.number,
        ),
    )


def by_cats(them: Sequence[Candidate]) -> Candidate:
    """Least sum of communication, computing and moving the context (level 2)."""
    return min(
        them,
        key=lambda one: (
            one.communication_ps() + one.computing_ps() + one.moving_ps(),
            one.number,
        ),
    )


def by_cats_without_context(them: Sequence[Candidate]) -> Candidate:
    """The same, blind to where the context is."""
    return min(them, key=lambda one: (one.communication_ps() + one.computing_ps(), one.number))


POLICIES: tuple[Policy, ...] = (
    Policy("nearest", nearest),
    Policy("least-loaded", least_loaded),
    Policy("least-loaded-sticky", least_loaded, is_sticky=True),
    Policy("cats-no-context", by_cats_without_context),
    Policy("cats", by_cats),
    Policy("cats-sticky", by_cats, is_sticky=True),
)
"""A user does not move, so the nearest instance is sticky by itself."""
