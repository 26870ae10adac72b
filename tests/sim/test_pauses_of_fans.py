"""PFC with fans and sums: nothing is dropped, and a packet's copies count once."""

import numpy as np
import pytest

from fanfold.errors import ConfigError
from fanfold.kernels.jit import JIT
from fanfold.results.outcome import Outcome
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Fan, Sum, build_program
from fanfold.sim.simulate import simulate
from fanfold.topo.net import Net
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes

pytestmark = pytest.mark.skipif(not JIT, reason="many packets: for compiled code")

NO_MESSAGE, NO_EDGE = np.zeros((0, 4), np.int64), np.zeros((0, 2), np.int64)
PAUSES = Settings(pfc_pkts=(4, 2))


def run(topology: str, settings: Settings, fans=(), sums=()) -> Outcome:
    return run_on(build_named_net(topology), settings, fans, sums)


def run_on(net: Net, settings: Settings, fans=(), sums=()) -> Outcome:
    program = build_program(NO_MESSAGE, NO_EDGE, fans=tuple(fans), sums=tuple(sums), folds=True)
    return simulate(net, build_routes(net), program, settings, seed=1)


def all_gather(n: int, n_bytes: int) -> list[Fan]:
    return [Fan(s, tuple(h for h in range(n) if h != s), n_bytes) for s in range(n)]


def test_copies_of_one_packet_count_once_for_the_link_it_came_by():
    """A port per receiver and one packet in each: if each copy counted, seven packets of one
    would pause the source at once, and the fan took longer than without pauses."""
    fan = [Fan(0, tuple(range(1, 8)), 64 * 4096)]
    assert (
        run("star:hosts=8", PAUSES, fan).end_ps == run("star:hosts=8", Settings(), fan).end_ps
    )


def test_a_slow_receiver_pauses_the_source_and_all_arrives_without_a_drop():
    net = build_named_net("star:hosts=3")
    slow = (net.src == 2) | (net.dst == 2)
    net = net._replace(bps=np.where(slow, net.bps // 10, net.bps))
    fan = [Fan(0, (1, 2), 64 * 4096)]
    out = run_on(net, PAUSES, fan)
    assert not out.stuck
    assert out.link_drops.sum() == 0
    # Four packets and one more start a pause, which takes a link's delay of 1 us to work and
    # finds as much under way; what left before it was full is between.
    full, packet_ps = 4096 + 84 + 256 // 8, (4096 + 84 + 256 // 8) * 80
    assert out.link_peak_bytes.max() <= (4 + 1 + 2 * 1_000_000 // packet_ps + 2) * full
    assert run_on(net, Settings(), fan).link_peak_bytes.max() > 50 * full


@pytest.mark.parametrize("topology", ["star:hosts=8", "fat-tree:k=4"])
def test_where_many_fans_meet_queues_are_bounded_and_nothing_is_dropped(topology):
    n = build_named_net(topology).n_hosts
    fans = all_gather(n, 32 * 4096)
    free, held = run(topology, Settings(), fans), run(topology, PAUSES, fans)
    for out in (free, held):
        assert not out.stuck
        assert out.link_drops.sum() == 0
        assert out.repairs == (0, 0)
    router_links = build_named_net(topology).src >= n
    assert held.link_peak_bytes[router_links].max() < free.link_peak_bytes[router_links].max()


def test_sums_go_on_under_pauses():
    out = run("fat-tree:k=4", PAUSES, sums=[Sum(tuple(range(16)), 16 * 4096)])
    assert not out.stuck
    assert out.link_drops.sum() == 0


def test_ports_that_cut_packets_have_no_fans():
    with pytest.raises(ConfigError, match=r"settings\.transport: got 'ndp', allowed: plain or"):
        run("star:hosts=3", Settings(transport="ndp", window_pkts=8), [Fan(0, (1, 2), 1)])
