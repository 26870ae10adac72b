"""Transfers that start one by one: shares of links by hand, and what stops in the middle."""

import pytest

from fanfold.errors import ConfigError
from fanfold.kernels.slots import NEVER_PS
from fanfold.sim.transfers import FIRST_ROOM, Transfers
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes

NET = build_named_net("star:hosts=5,rate=8Gbps")
NS = 1000  # of a byte at 8 Gbit/s


@pytest.fixture
def transfers():
    return Transfers(NET, build_routes(NET), 1)


def test_two_into_one_host_share_its_link_until_one_ends(transfers):
    a = transfers.start(0, 0, 4, 1000)
    b = transfers.start(0, 1, 4, 3000)
    c = transfers.start(0, 2, 3, 1000)  # elsewhere: alone
    assert transfers.next_ps() == 1000 * NS
    assert transfers.end() == c
    assert transfers.next_ps() == 2000 * NS  # half the rate
    assert transfers.end() == a
    assert transfers.next_ps() == 4000 * NS  # 1000 bytes by then, 2000 at the whole rate
    assert transfers.end() == b
    assert transfers.next_ps() == NEVER_PS


def test_one_that_comes_later_slows_the_first(transfers):
    a = transfers.start(0, 0, 4, 4000)
    assert transfers.next_ps() == 4000 * NS
    b = transfers.start(2000 * NS, 1, 4, 1000)
    assert transfers.next_ps() == 4000 * NS
    assert transfers.end() == b
    assert transfers.next_ps() == 5000 * NS
    assert transfers.end() == a


def test_one_that_is_stopped_gives_its_share_back(transfers):
    transfers.start(0, 0, 4, 4000)
    b = transfers.start(0, 1, 4, 4000)
    assert transfers.next_ps() == 8000 * NS
    transfers.stop(4000 * NS, b)
    assert transfers.next_ps() == 6000 * NS


def test_there_is_room_for_more_than_at_first(transfers):
    n = 2 * FIRST_ROOM + 1
    all_of_them = [transfers.start(0, 0, 4, 100) for _ in range(n)]
    assert len(set(all_of_them)) == n
    assert transfers.next_ps() == 100 * n * NS
    assert {transfers.end() for _ in range(n)} == set(all_of_them)
    assert transfers.next_ps() == NEVER_PS


def test_a_host_without_a_path_is_refused():
    cut = NET._replace(is_up=NET.is_up * (NET.dst != 4) * (NET.src != 4))
    with pytest.raises(ConfigError, match="no path from h0 to h4"):
        Transfers(cut, build_routes(cut), 1).start(0, 0, 4, 1)
