"""Hosts that compute: pauses between messages and fans, at both rungs, by arithmetic."""

import numpy as np
import pytest

from fanfold.errors import ConfigError
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import ACKED, RECEIVED, Fan, build_program, expand
from fanfold.schemes.program_rules import check_program
from fanfold.sim.fluid import run_fluid
from fanfold.sim.simulate import simulate
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes

NET = build_named_net("star:hosts=4")
ROUTES = build_routes(NET)
MESSAGES = np.array([[0, 1, 9000, 0], [1, 2, 9000, 0]])
CHAIN = np.array([[2, 0], [0, 3], [3, 1], [1, 4]])
"""Pause 0, message 0, pause 1, message 1, pause 2."""
NONE = np.zeros((0, 4), np.int64)


def packet(program):
    return simulate(NET, ROUTES, program, Settings(), seed=1)


def flow(program):
    return run_fluid(NET, ROUTES, program, Settings(), seed=1)


RUNGS = pytest.mark.parametrize("run", [packet, flow])


@RUNGS
@pytest.mark.parametrize("on", [RECEIVED, ACKED])
def test_pauses_add_their_time_to_a_chain(run, on):
    least = np.full(3, 20 * 10**6)  # the acknowledgement of the first is home by then
    bare = run(build_program(MESSAGES, CHAIN, on=on, pauses_ps=least))
    pauses = least + np.array([5, 70, 900]) * 10**6
    slow = run(build_program(MESSAGES, CHAIN, on=on, pauses_ps=pauses))
    assert bare.reason == slow.reason
    assert (slow.item_ps - bare.item_ps).tolist() == [n * 10**6 for n in (5, 75, 5, 75, 975)]
    assert slow.end_ps == slow.item_ps[4]
    assert slow.got_bytes.tolist() == [0, 9000, 9000, 0]


@RUNGS
def test_a_pause_waits_for_all_and_its_followers_for_it(run):
    """Three pauses side by side, one after them, and then a fan."""
    edges = np.array([[1, 4], [2, 4], [3, 4], [4, 0]])
    pauses = np.array([10, 30, 20, 5]) * 10**6
    fans = (Fan(0, (1, 2, 3), 4096),)
    out = run(build_program(NONE, edges, fans=fans, folds=True, pauses_ps=pauses))
    assert out.item_ps[1:].tolist() == [10 * 10**6, 30 * 10**6, 20 * 10**6, 35 * 10**6]
    alone = run(build_program(NONE, np.zeros((0, 2), np.int64), fans=fans, folds=True))
    assert out.item_ps[0] == alone.item_ps[0] + 35 * 10**6
    assert out.host_ps[1:].tolist() == (alone.host_ps[1:] + 35 * 10**6).tolist()


@RUNGS
def test_pauses_alone_are_a_run(run):
    out = run(build_program(NONE, np.array([[0, 1]]), pauses_ps=np.array([3, 4])))
    assert out.end_ps == 7
    assert out.item_ps.tolist() == [3, 7]


def test_an_early_start_of_a_message_still_holds():
    late = np.array([[0, 1, 9000, 10**9], [1, 2, 9000, 0]])
    bare = packet(build_program(late, CHAIN, pauses_ps=np.zeros(3, np.int64)))
    slow = packet(build_program(late, CHAIN, pauses_ps=np.array([10**8, 0, 0])))
    assert bare.item_ps.tolist()[0] == slow.item_ps.tolist()[0]


def test_wrong_pauses_are_named():
    with pytest.raises(ConfigError, match="pause 1: got -1"):
        check_program(build_program(NONE, NONE[:, :2], pauses_ps=np.array([1, -1])), 4)
    with pytest.raises(ConfigError, match="pause 0: got 'waits for itself"):
        check_program(build_program(NONE, np.array([[0, 0]]), pauses_ps=np.array([1])), 4)


def test_a_plain_program_with_pauses_stays_as_it_is():
    program = build_program(MESSAGES, CHAIN, pauses_ps=np.array([1, 2, 3]))
    assert expand(program) is program
    assert (program.n_sent, program.n_items) == (2, 5)
