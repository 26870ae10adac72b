"""At every stop each packet is somewhere, once, and the sums of links and hosts hold."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pytest
from census import take_census
from validation_world import NO_EDGES, fabric, messages

from fanfold.kernels.jit import JIT
from fanfold.scenario.settings import Failure, Settings
from fanfold.schemes.program import Fan, Program, build_program
from fanfold.sim.loop import rows as r
from fanfold.sim.simulate import Simulation

KIB = 2**10
N_STOPS = 40 if JIT else 12
SMALL = 200 * KIB if JIT else 48 * KIB
TREE = "fat-tree:k=4"
LOSSES = (1_000_000, 10_000_000)


def incast():
    """Eleven hosts to host 0, and two that share a link with none of them."""
    return messages(*((i, 0, SMALL) for i in range(1, 12)), (12, 13, SMALL), (14, 12, SMALL))


def fans(*, folds):
    """Three fans that cross each other; one of them from the middle of the others' hosts."""
    everyone = range(16)
    rows = [(0, SMALL, 0), (5, 2 * SMALL + 1, 3_000_000), (0, 1, 9_000_000)]
    some = tuple(
        Fan(source, tuple(h for h in everyone if h != source), n, start)
        for source, n, start in rows
    )
    return build_program(np.zeros((0, 4), np.int64), NO_EDGES, fans=some, folds=folds)


def folded():
    return fans(folds=True)


def unfolded():
    return fans(folds=False)


def mixed():
    """A fan and messages of the same hosts."""
    table = np.array([(i, (i + 5) % 16, SMALL, 0) for i in range(16)], np.int64)
    one = Fan(3, tuple(h for h in range(16) if h != 3), 70 * KIB)
    return build_program(table, NO_EDGES, fans=(one,), folds=True)


PLAIN = Settings(transport="plain", rto_ps=50_000_000)
GO_BACK = Settings(transport="roce", routing="ecmp", rto_ps=50_000_000)
PAUSED = Settings(transport="roce", routing="ecmp", rto_ps=50_000_000, pfc_pkts=(4, 2))
LIMIT = 6 * 4160
CUT = Settings(transport="ndp", rto_ps=50_000_000, window_pkts=8, queue_bytes=LIMIT)
FANS = Settings()
FLAPS = (
    Failure(2_000_000, "edge0", "agg0"),
    Failure(30_000_000, "edge0", "agg0", up=True),
    Failure(5_000_000, "h1", "edge0"),
    Failure(60_000_000, "h1", "edge0", up=True),
)


class Case(NamedTuple):
    """A run: its program, what of its settings is special, the net, packets of a record."""

    build: Callable[[], Program]
    settings: Settings
    more: Mapping[str, object] = MappingProxyType({})
    net: str = TREE
    segment_pkts: int = 1


CASES = {
    "plain": Case(incast, PLAIN),
    "plain in trains": Case(incast, PLAIN, segment_pkts=4),
    "plain, cut-through": Case(incast, PLAIN, {"cut_through": True}),
    "plain, two planes": Case(
        incast, PLAIN, net="multi-plane:planes=2,leaves=4,spines=2,hosts=16"
    ),
    "plain, a torus": Case(incast, PLAIN, net="torus:dims=4x4"),
    "go back n": Case(incast, GO_BACK),
    "paused": Case(incast, PAUSED),
    "trimmed": Case(incast, CUT),
    "limits": Case(incast, PLAIN, {"queue_bytes": LIMIT}),
    "limits, go back n": Case(incast, GO_BACK, {"queue_bytes": LIMIT}),
    "limits, paused": Case(incast, PAUSED, {"queue_bytes": LIMIT}),
    "cables fail": Case(incast, PLAIN, {"failures": FLAPS}),
    "cables fail, trimmed": Case(incast, CUT, {"failures": FLAPS}),
    "cables fail, paused": Case(incast, PAUSED, {"failures": FLAPS}),
    "folded": Case(folded, FANS),
    "unfolded": Case(unfolded, FANS),
    "folded in trains": Case(folded, FANS, segment_pkts=4),
    "folded, few slots": Case(folded, FANS, {"n_slots": 1}),
    "folded, narrow BitStrings": Case(folded, FANS, net="dragonfly:a=4,p=2,h=2"),
    "folded, two planes": Case(
        folded, FANS, net="multi-plane:planes=2,leaves=4,spines=2,hosts=16"
    ),
    "fans and messages, limits": Case(mixed, FANS, {"queue_bytes": LIMIT}),
    "folded, cables fail": Case(folded, FANS, {"failures": FLAPS}),
    "fans and messages": Case(mixed, FANS),
}
for _ppb in LOSSES:
    for _name in ("plain", "go back n", "paused", "trimmed", "folded", "unfolded"):
        _case = CASES[_name]
        CASES[f"{_name}, {_ppb // 1_000_000} of 1000 lost"] = _case._replace(
            more={"loss_ppb": _ppb}
        )


def start(name):
    case = CASES[name]
    net, routes = fabric(case.net)
    fields = {name: getattr(case.settings, name) for name in case.settings.__struct_fields__}
    settings = Settings(**{**fields, **case.more})
    return Simulation(
        net, routes, case.build(), settings, seed=3, segment_pkts=case.segment_pkts
    )


@pytest.mark.parametrize("name", CASES)
def test_all_adds_up_at_every_stop(name):
    sim = start(name)
    assert take_census(sim) == []
    n_turns = 7
    for _ in range(N_STOPS):
        is_over = not sim.step(n_turns)
        assert take_census(sim) == [], f"after {sim.progress().n_events} events"
        if is_over:
            break
        n_turns += n_turns // 4
    while sim.step(20_000):
        assert take_census(sim) == []
    assert take_census(sim) == []
    outcome = sim.outcome()
    assert outcome.stuck == ()
    assert outcome.got_bytes.tolist() == outcome.due_bytes.tolist()


@pytest.mark.skipif(not JIT, reason="more packets: for compiled code")
@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("trimmed", "trims"),
        ("limits", "drops"),
        ("cables fail", "drops"),
        ("plain, 10 of 1000 lost", "lost"),
        ("folded, 10 of 1000 lost", "lost"),
        ("fans and messages, limits", "drops"),
    ],
)
def test_what_a_case_is_named_for_happens(name, seen):
    sim = start(name)
    while sim.step():
        pass
    assert sim.world.links[seen].sum() > 0


def put(rows, name, at, value):
    rows[name][at] = value


SPOILS = {
    "a lost packet": lambda sim: put(sim.world.links, "arrived", 0, -1),
    "a queue that is longer": lambda sim: put(sim.world.links, "queued", 40, 1),
    "a byte too many": lambda sim: put(sim.world.nodes, "got_bytes", 0, 1 << 40),
    "a row that is nowhere": lambda sim: sim.q.__setitem__(
        r.FREE_PKT, sim.world.pkts["next"][sim.q[r.FREE_PKT]]
    ),
    "a packet nobody sent": lambda sim: put(sim.senders.streams, "n_sent", 0, 1 << 20),
    "a packet that led nowhere": lambda sim: put(sim.world.nodes, "n_dead", 16, 5),
}


@pytest.mark.parametrize("name", SPOILS)
def test_what_does_not_add_up_is_said(name):
    sim = start("plain")
    sim.step(200)
    assert take_census(sim) == []
    SPOILS[name](sim)
    assert take_census(sim)
