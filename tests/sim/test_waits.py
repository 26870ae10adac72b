"""Waits go by round trips, for every scheme alike: what one lost packet costs."""

import msgspec
import pytest
from validation_world import US, messages

from fanfold.kernels.jit import JIT
from fanfold.scenario.settings import Failure, Settings
from fanfold.sim.round_trip import round_trip
from fanfold.sim.simulate import simulate
from fanfold.sim.waits import ROUNDS
from fanfold.study.gap_ground import ROWS, build_ground
from fanfold.study.gap_sim import play, program_of, settings_of
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes

LEAF = "leaf-spine:leaves=2,spines=2,hosts=4"
UNHEARD = 4
"""A connection that knows no round trip waits so many times as long (RFC 6298 2.1)."""


def end_ps(net, program, settings):
    out = simulate(net, build_routes(net), program, settings, seed=1)
    assert out.stuck == ()
    return out.end_ps, out.repairs[0]


@pytest.mark.parametrize("rate", ["10Gbps", "400Gbps"])
@pytest.mark.parametrize("transport", ["plain", "roce"])
def test_what_is_lost_is_sent_again_after_round_trips_and_not_after_microseconds(
    rate, transport
):
    net = build_named_net(f"{LEAF},rate={rate}")
    rtt_ps = round_trip(net, build_routes(net))
    cable = "h0", "leaf0"
    failures = (Failure(0, *cable), Failure(US // 1000, *cable, up=True))
    without = Settings(transport=transport)
    alone_ps, _ = end_ps(net, messages((0, 3, 4096)), without)
    lost = msgspec.structs.replace(without, failures=failures)
    took = end_ps(net, messages((0, 3, 4096)), lost)
    assert took == (UNHEARD * ROUNDS * rtt_ps + alone_ps, 1)


def test_a_time_that_was_asked_for_is_kept():
    net = build_named_net(LEAF)
    failures = (Failure(0, "h0", "leaf0"), Failure(US // 1000, "h0", "leaf0", up=True))
    alone_ps, _ = end_ps(net, messages((0, 3, 4096)), Settings())
    asked = Settings(failures=failures, rto_ps=700 * US)
    assert end_ps(net, messages((0, 3, 4096)), asked) == (UNHEARD * 700 * US + alone_ps, 1)


def test_a_queue_is_no_loss():
    """Messages that wait for each other in a queue of 16 round trips are sent once."""
    net = build_named_net("star:hosts=33")
    program = messages(*((host, 0, 32 * 4096) for host in range(1, 33)))
    took = end_ps(net, program, Settings())
    assert end_ps(net, program, Settings(queue_bytes=2**30)) == took


@pytest.mark.skipif(not JIT, reason="255 receivers are for compiled code")
@pytest.mark.parametrize("name", ["ring", "fanfold"])
def test_nobody_loses_half_of_the_goodput_to_waits(name):
    """Seeds in which a word or a last packet is lost: they left 40 to 56 % before."""
    ground = build_ground(message_bytes=8 << 20)
    row = next(row for row in ROWS if row.name == name)
    program, settings = program_of(ground, row, ground.receivers, 8 << 20), settings_of(row)
    base = play(ground, program, settings)
    lossy = msgspec.structs.replace(settings, loss_ppb=ground.loss_ppb)
    for more_seed in (3, 4, 8):
        told = play(ground, program, lossy, more_seed=more_seed)
        assert 10 * base.end_ps >= 8 * told.end_ps, more_seed
