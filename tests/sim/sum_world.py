"""Programs of sums, and what their packets weigh; 100 Gb/s and 1 us a link.

With 64 BFR-ids a packet has 100 bytes beside its words: underlay 28, BIER 12 + 8, inner 28,
FOLD 24 (docs/wire/fold.md).
"""

import numpy as np
from census import take_census
from validation_world import BYTE_PS, NO_EDGES, US, fabric

from fanfold.core.effects import VatEvent
from fanfold.group.ask import N_FIELDS
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import MIDDLE, Sum, build_program
from fanfold.sim.loop import rows as r
from fanfold.sim.simulate import Simulation

HEAD = 100
BLOCK = 4096
ASKED = 4 * 2 * N_FIELDS
"""Bytes of what ranks ask for, twice, before the exponents of a window."""


def sums(*hosts, n_bytes, to_all=True, window=0, root_level=MIDDLE):
    """A sum of each group of hosts, all at once."""
    some = tuple(
        Sum(tuple(group), n_bytes, to_all=to_all, window=window, root_level=root_level)
        for group in hosts
    )
    return build_program(np.zeros((0, 4), np.int64), NO_EDGES, sums=some, folds=True)


def integers(**more):
    """Settings in which 4,096 bytes of an array are a block."""
    return Settings(sum_numbers="integer", **more)


def simulation(name, program, settings=None, seed=1):
    """A run that has not begun."""
    return Simulation(*fabric(name), program, settings or integers(), seed=seed)


def played(sim):
    """The same run at its end; the outcome."""
    while sim.step():
        pass
    assert take_census(sim) == []
    return sim.outcome()


def events(sim, router=None):
    """What BFRs did with arrays, by word; of all, or of one by its index."""
    counts = sim.fans.sums.vats.events
    total = counts.sum(axis=0) if router is None else counts[router]
    return {e.value: n for e, n in zip(VatEvent, total.tolist(), strict=True) if n}


def vats_at(sim, router):
    """Rows and slots of one router, as ``vats_of`` has them in compiled code."""
    q, vats = sim.q, sim.fans.sums.vats
    mine = slice(router * int(q[r.N_VAT_ROWS]), (router + 1) * int(q[r.N_VAT_ROWS]))
    slots = slice(router * int(q[r.N_VAT_SLOTS]), (router + 1) * int(q[r.N_VAT_SLOTS]))
    by_row = {name: getattr(vats, name)[mine] for name in ("rows", "a_bm", "late_bm")}
    names = ("slots", "words", "room", "owner")
    by_slot = {name: getattr(vats, name)[slots] for name in names}
    return vats._replace(
        **by_row, **by_slot, events=vats.events[router], clock=vats.clock[router]
    )


def hop_ps(n_bytes):
    """A packet of so many bytes over one link."""
    return n_bytes * BYTE_PS + US


def star_ps(n_blocks, window):
    """All ranks of a star have the sum: ARM, a round in which they agree, then full blocks.

    A block leaves when the one before it has left, and when the result of the one a window
    before it has come.
    """
    ready = 2 * hop_ps(HEAD) + 2 * hop_ps(HEAD + ASKED + 4 * window)
    full = (HEAD + BLOCK) * BYTE_PS
    left = []
    for k in range(n_blocks):
        since = left[k - 1] + full if k else ready
        if k >= window:
            since = max(since, left[k - window] + 2 * hop_ps(HEAD + BLOCK))
        left.append(since)
    return left[-1] + 2 * hop_ps(HEAD + BLOCK)
