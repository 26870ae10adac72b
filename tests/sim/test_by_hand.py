"""What the slow plane does to the loop's arrays by hand is what the loop's kernels would do."""

import numpy as np
import pytest

from fanfold.scenario.settings import Settings
from fanfold.sim import build, by_hand
from fanfold.sim.loop import events, nic, ports, unicast
from fanfold.sim.loop import rows as r
from fanfold.streams import stream
from fanfold.topo.nets import build_named_net

NET = build_named_net("star:hosts=4")


def queue(end_ps=0):
    q = build.build_queue(NET, Settings(), 512, 64)
    if end_ps:
        width = 1 << int(q[r.SHIFT])
        q[r.BASE], q[r.END] = end_ps - width, end_ps
        q[r.HORIZON] = q[r.BASE] + width * int(q[r.MASK] + 1)
    return q


@pytest.mark.parametrize("seed", range(5))
def test_push(seed):
    rng = stream(seed, "test/by-hand")
    end_ps = 3 << int(queue()[r.SHIFT])
    a, b = queue(end_ps), queue(end_ps)
    places = (end_ps // 2, end_ps, end_ps + 5, int(a[r.HORIZON]) - 1, int(a[r.HORIZON]) + 7)
    for i in range(300):
        when = int(rng.choice(places)) + int(rng.integers(0, 3))
        events.push(a, when, i)
        by_hand.push(b, when, i)
    assert (a == b).all()


def test_many_before_the_run_begins():
    a, b = queue(), queue()
    times = stream(1, "test/by-hand").integers(0, 50, 200) * 10**6
    for i, when in enumerate(times.tolist()):
        events.push(a, when, i)
    by_hand.push_all(b, times, np.arange(200))
    pkts = np.zeros(200, r.PKT_ROW)  # an event may be the arrival of one of them
    assert (
        drain(a, pkts) == drain(b, pkts) == sorted(zip(times.tolist(), range(200), strict=True))
    )


def drain(q, pkts):
    found = []
    while events.next_bucket(q, pkts):
        at = int(q[r.AT_READY])
        found += q[at : at + 2 * int(q[r.N_READY])].reshape(-1, 2).tolist()
    return [tuple(row) for row in found]


@pytest.mark.parametrize("seed", range(5))
def test_join(seed):
    rng = stream(seed, "test/by-hand")
    sides = []
    for _ in range(2):
        links, streams = np.zeros(3, r.LINK_ROW), np.zeros(20, r.STREAM_ROW)
        links["ring"] = r.NONE
        streams["nic"] = np.arange(20) % 3
        sides.append((links, streams))
    for s in rng.integers(0, 20, 40).tolist():
        nic.join(*sides[0], s)
        by_hand.join(*sides[1], s)
        if s % 7 == 0:
            for links, streams in sides:
                nic.part(links, streams, s)
    for a, b in zip(*sides, strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("on", [unicast.RECEIVED, unicast.ACKED])
def test_finish(on):
    deps = np.array([0, 2, 2, 2, 1, 2], np.int64)  # items 1 and 2 wait for item 0
    sides = []
    for settle in (lambda q, i, d: unicast.settle(q, i, d, 0, unicast.ACKED), None):
        q, items = queue(), np.zeros(3, r.ITEM_ROW)
        q[r.ON], q[r.NOW] = on, 77
        items["unacked"], items["needs"], items["start_ps"] = 2, (0, 1, 2), (0, 500, 0)
        for _ in range(2):
            settle(q, items, deps) if settle else by_hand.finish(q, items, deps, 0)
        sides.append((q.tobytes(), items.tobytes()))
    assert sides[0] == sides[1]


def test_free():
    sides = []
    for give in (ports.free_pkt, by_hand.free):
        q, pkts = queue(), np.zeros(8, r.PKT_ROW)
        pkts["kind"], pkts["path"] = r.PK_FEEDBACK, np.arange(8) + 40
        q[r.N_BODIES] = 3
        for p in (5, 1, 6):
            give(q, pkts, p)
        sides.append((q.tobytes(), pkts.tobytes()))
    assert sides[0] == sides[1]
