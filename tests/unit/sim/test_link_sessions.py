"""Sessions between neighbours in the simulator: when a loss is noticed, and who is told."""

import pytest

from fanfold.core.neighbours import LinksChanged, NeighbourBack, NeighbourLost
from fanfold.scenario.settings import Settings
from fanfold.sim.link_sessions import LinkSessions, failed_links
from fanfold.topo.nets import build_named_net
from fanfold.units import PS_PER_MS, PS_PER_US
from fanfold.wire.hello import Diag

NET = build_named_net("leaf-spine:leaves=3,spines=2,hosts=3")
NODES = {NET.node_name(n): n for n in range(NET.n_nodes)}
HELLO_PS = 20 * PS_PER_US


def built(hello_ps=HELLO_PS, **more):
    return LinkSessions(NET, Settings(hello_ps=hello_ps, **more), seed=1)


def links(a, b):
    pair = min(NODES[a], NODES[b]), max(NODES[a], NODES[b])
    return sorted(failed_links(NET, frozenset({pair})))


def told(sessions, kind):
    return [one for one in sessions.heard if isinstance(one.effect, kind)]


@pytest.mark.parametrize("hello_ps", [HELLO_PS, PS_PER_MS, 50 * PS_PER_MS, 200 * PS_PER_MS])
def test_both_ends_notice_within_three_intervals(hello_ps):
    sessions = built(hello_ps)
    sessions.run(10 * hello_ps)
    assert not sessions.heard  # nobody is lost where all is well
    sessions.cut(links("leaf1", "spine0"))
    sessions.run(20 * hello_ps)
    lost = told(sessions, NeighbourLost)
    assert {one.node for one in lost} == {NODES["leaf1"], NODES["spine0"]}
    for one in lost:
        assert 2 * hello_ps < one.at_ps - 10 * hello_ps <= 3 * hello_ps + hello_ps // 4


def test_data_until_the_cut_make_it_three_intervals_to_the_point():
    sessions, cut_ps = built(), 10 * HELLO_PS + 7 * PS_PER_US
    sessions.run(cut_ps)
    both = links("leaf1", "spine0")
    for link in both:
        sessions.note_life(link, cut_ps)
    sessions.cut(both)
    sessions.run(30 * HELLO_PS)
    spans = [one.at_ps - cut_ps for one in told(sessions, NeighbourLost)]
    assert len(spans) == 2
    assert 3 * HELLO_PS <= min(spans) <= max(spans) < 3 * HELLO_PS + PS_PER_US // 1000


def test_nodes_that_say_that_they_are_late_are_waited_for():
    """By twice what they say, in a fiftieth of the interval of HELLOs each."""
    sessions, cut_ps = built(50 * PS_PER_MS, lag_ms=12), 500 * PS_PER_MS
    sessions.run(cut_ps)
    both = links("leaf1", "spine0")
    for link in both:
        sessions.note_life(link, cut_ps)
    sessions.cut(both)
    sessions.run(cut_ps + 300 * PS_PER_MS)
    spans = [one.at_ps - cut_ps for one in told(sessions, NeighbourLost)]
    assert len(spans) == 2
    assert max(spans) - 174 * PS_PER_MS < PS_PER_MS // 1000


def test_all_routers_hear_of_it_once_and_the_flood_ends():
    sessions = built()
    sessions.cut(links("leaf1", "spine0"))
    sessions.run(100 * HELLO_PS)
    pair = frozenset({(NODES["leaf1"], NODES["spine0"])})
    knows = {one.node for one in told(sessions, LinksChanged) if one.effect.failed == pair}
    routers = {n for name, n in NODES.items() if not name.startswith("h")}
    assert knows == routers
    n_notices = sessions.n_notices
    assert 0 < n_notices < 60
    sessions.run(200 * HELLO_PS)
    assert sessions.n_notices == n_notices


def test_a_notice_waits_for_the_processor():
    slow, fast = built(notice_ps=100 * PS_PER_US), built(notice_ps=0)
    first = {}
    for sessions in (slow, fast):
        sessions.cut(links("leaf1", "spine0"))
        sessions.run(200 * HELLO_PS)
        far = [o.at_ps for o in told(sessions, LinksChanged) if o.node == NODES["leaf2"]]
        first[sessions] = far[0]
    assert first[slow] - first[fast] >= 99 * PS_PER_US


def test_a_node_that_ends_is_lost_to_all_its_neighbours_and_comes_back_empty():
    sessions = built()
    spine, cut = NODES["spine0"], [k for n in range(3) for k in links(f"leaf{n}", "spine0")]
    sessions.end(spine)
    sessions.cut(cut)
    sessions.run(10 * HELLO_PS)
    assert {one.node for one in told(sessions, NeighbourLost)} == {
        NODES[f"leaf{n}"] for n in range(3)
    }
    sessions.heard.clear()
    sessions.mend(cut)
    sessions.begin(spine)
    sessions.run(400 * HELLO_PS)
    assert len([one for one in told(sessions, NeighbourBack) if one.node == spine]) == 3
    assert sessions.machines[spine].failed == frozenset()
    assert all(not sessions.machines[NODES[f"leaf{n}"]].failed for n in range(3))


def test_who_stands_still_for_less_than_detection_is_missed_by_nobody():
    sessions, spine = built(), NODES["spine0"]
    cut = [k for n in range(3) for k in links(f"leaf{n}", "spine0")]
    for span_ps, is_missed in ((HELLO_PS, False), (6 * HELLO_PS, True)):
        now = sessions.now_ps
        sessions.stand(spine)
        sessions.cut(cut)
        sessions.run(now + span_ps)
        sessions.mend(cut)
        sessions.go_on(spine)
        sessions.run(now + 20 * HELLO_PS)
        lost = [one for one in told(sessions, NeighbourLost) if one.node != spine]
        assert bool(lost) == is_missed
    mine = [one.effect.diag for one in told(sessions, NeighbourLost) if one.node == spine]
    assert Diag.SILENT not in mine  # it knows that it could not hear


def test_the_same_seed_sends_the_same_and_another_one_does_not():
    def times(seed):
        sessions = LinkSessions(NET, Settings(hello_ps=HELLO_PS), seed)
        sessions.cut(links("leaf1", "spine0"))
        sessions.run(10 * HELLO_PS)
        return [(one.at_ps, one.node) for one in sessions.heard], sessions.n_bytes

    assert times(1) == times(1)
    assert times(1)[0] != times(2)[0]
