"""Sessions of users with a service: turns with prompts, answers and pauses between them.

Sessions of a site begin by a Poisson process. A session has a geometric number of turns; its
prompts and answers have exponential lengths (or all the mean one), so have the pauses in which
its user reads and types. All of it is drawn before a run, from streams of its own, so that
every policy serves the same sessions.
"""

from typing import NamedTuple

import msgspec
import numpy as np

from fanfold.streams import Generator, stream
from fanfold.units import PS_PER_SECOND

MAX_TURNS = 2_000_000


class Demand(msgspec.Struct, frozen=True):
    """What users ask for.

    rate_mhz: sessions of a site that begin in 1000 seconds. hot_percent: of that at the first
    site. turns: of a session, mean. prompt,
    answer: tokens, mean. think_ps: between an answer and the next turn, mean. is_fixed: all
    lengths are the mean. window_ps: sessions begin within it.
    """

    rate_mhz: int = 650
    hot_percent: int = 150
    turns: int = 6
    prompt: int = 600
    answer: int = 200
    think_ps: int = 4 * PS_PER_SECOND
    is_fixed: bool = False
    window_ps: int = 300 * PS_PER_SECOND

    def at_site_mhz(self, site: int) -> int:
        """``rate_mhz`` of one site."""
        return self.rate_mhz * (self.hot_percent if site == 0 else 100) // 100

    def mean_turns(self, n_sites: int) -> int:
        """Turns of all sites that are to be expected."""
        rate_mhz = sum(map(self.at_site_mhz, range(n_sites)))
        return rate_mhz * self.window_ps * self.turns // (1000 * PS_PER_SECOND)


class Session(NamedTuple):
    """One user's session. site: of the user. prompts, answers: tokens of each turn.

    thinks_ps: pause before each turn, 0 before the first.
    """

    site: int
    start_ps: int
    prompts: tuple[int, ...]
    answers: tuple[int, ...]
    thinks_ps: tuple[int, ...]


def draw_sessions(demand: Demand, n_sites: int, seed: int) -> list[Session]:
    """Sessions of all sites, by the time of their first turn."""
    found = []
    for site in range(n_sites):
        arrivals = stream(seed, f"sessions/{site}/arrivals")
        lengths = stream(seed, f"sessions/{site}/lengths")
        now = 0
        rate_mhz = demand.at_site_mhz(site)
        while (now := now + _gap_ps(rate_mhz, arrivals)) < demand.window_ps:
            found.append(_session(demand, site, now, lengths))
    return sorted(found, key=lambda one: (one.start_ps, one.site))


def _gap_ps(rate_mhz: int, draw: Generator) -> int:
    return int(draw.exponential(1000 * PS_PER_SECOND / rate_mhz)) + 1


def _session(demand: Demand, site: int, start_ps: int, draw: Generator) -> Session:
    n = int(draw.geometric(1 / demand.turns))
    shares = draw.exponential(1.0, (3, n))
    if demand.is_fixed:
        shares[:2] = 1
    prompts = np.maximum(np.rint(shares[0] * demand.prompt), 1).astype(int)
    answers = np.rint(shares[1] * demand.answer).astype(int)
    thinks = np.rint(shares[2] * demand.think_ps).astype(np.int64)
    thinks[0] = 0
    return Session(
        site,
        start_ps,
        tuple(prompts.tolist()),
        tuple(answers.tolist()),
        tuple(thinks.tolist()),
    )
