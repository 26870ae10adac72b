"""Where queues are bounded fans of a collective take turns, each its share of a link."""

import pytest
from outcomes import outcome_of

from fanfold.kernels.jit import JIT
from fanfold.results.outcome import Outcome

pytestmark = pytest.mark.skipif(not JIT, reason="many packets: for compiled code")


def gather(topology: str, n_bytes: int, name: str = "fanfold", **settings) -> Outcome:
    return outcome_of(topology, name, "all_gather", n_bytes, **settings)


def test_on_a_star_nothing_is_dropped_and_the_link_of_a_receiver_is_full():
    out = gather("star:hosts=8,rate=400Gbps", 2**20, queue_bytes=2**16)
    assert not out.stuck
    assert out.link_drops.sum() == 0
    assert out.repairs == (0, 0)
    # Seven shares of 128 KiB come to each receiver by its own link, at 99 % of its rate: two
    # links of 1 us, and the last of them to begin waits for six packets of the others.
    packet_ps = (4096 + 84 + 256 // 8) * 20
    gap_ps = 7 * packet_ps * 1000 // 990
    least_ps = 31 * gap_ps + packet_ps + 2 * 1_000_000
    assert least_ps <= max(out.host_ps) <= least_ps + 9 * packet_ps


@pytest.mark.parametrize("name", ["fanfold", "bier", "mldp"])
def test_in_a_fat_tree_few_are_dropped_and_it_takes_little_longer(name):
    free = gather("fat-tree:k=4,rate=400Gbps", 2**20, name)
    held = gather("fat-tree:k=4,rate=400Gbps", 2**20, name, queue_bytes=2**16)
    assert not held.stuck
    n_pkts = 16 * 15 * 16
    assert held.link_drops.sum() < n_pkts // 100
    assert held.end_ps < 2 * free.end_ps
