"""Time lines: what the time between two arrivals is made of."""

import numpy as np
import pytest

from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Fan, build_program
from fanfold.sim.simulate import Hop, Simulation
from fanfold.sim.timeline import bytes_of, record_of, start_of, text_of, timeline
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes

NET = build_named_net("star:hosts=3")
UP, DOWN = 0, 4  # h0 > router, router > h1
PROGRAM = build_program(
    np.array([[0, 1, 100, 7], [1, 2, 50, 0]]),
    np.array([[0, 1]]),
    fans=(Fan(2, (0, 1), 9, 3),),
)


def test_links_are_those_meant() -> None:
    assert (NET.src[UP], NET.dst[DOWN], NET.dst[UP]) == (0, 1, NET.src[DOWN])


def test_a_wait_is_what_is_left_of_the_time() -> None:
    hops = [Hop(5_000_000, 3, UP, "data", 100), Hop(6_500_000, 1, DOWN, "data", 100)]
    first, second = timeline(NET, Settings(switch_ps=50), hops, 1_000_000)
    assert (first.serial_ps, first.prop_ps, first.switch_ps) == (8000, 10**6, 50)
    assert first.wait_ps == 4_000_000 - 8000 - 10**6 - 50
    assert second.wait_ps == 1_500_000 - 8000 - 10**6 - 50


def test_a_wait_for_others_has_no_beginning() -> None:
    (step,) = timeline(NET, Settings(), [Hop(5_000_000, 3, UP, "data", 100)], None)
    assert step.wait_ps is None


@pytest.mark.parametrize("cut_through", [False, True])
def test_only_what_is_passed_on_early_waits_less_than_nothing(cut_through: bool) -> None:
    settings = Settings(cut_through=cut_through)
    routes = build_routes(NET)
    program = build_program(np.array([[0, 1, 4096, 0]]), np.zeros((0, 2), np.int64))
    sim = Simulation(NET, routes, program, settings, seed=1)
    sim.watch(0, 0)
    while sim.step():
        pass
    steps = timeline(NET, settings, sim.hops(), 0)
    assert [step.what for step in steps] == ["data", "data", "ack", "ack"]
    assert [(step.wait_ps or 0) < 0 for step in steps] == [False, cut_through, False, False]
    assert steps[-1].at_ps == sim.outcome().end_ps


def test_a_packet_is_found_in_its_record() -> None:
    small = Settings(block_psns=32)
    assert record_of(PROGRAM, small, 8, 0, 17) == 2
    assert record_of(PROGRAM, small, 8, 2, 40) == 64 + 8


def test_items_in_words() -> None:
    assert [bytes_of(PROGRAM, i) for i in range(3)] == [100, 50, 9]
    assert [start_of(PROGRAM, i) for i in range(3)] == [7, None, 3]
    assert text_of(NET, PROGRAM, 0) == "message 0, h0 to h1, 100 bytes"
    assert text_of(NET, PROGRAM, 2) == "fan 2, h2 to 2 hosts, 9 bytes"
