"""Neighbours that are lost are noticed, told of, and taken back; nobody is blamed wrongly."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from neighbour_net import FABRIC, PACE, Net, settled

from fanfold.core.neighbours import HOLD_PS, Ground, Neighbours, SendLink
from fanfold.core.session import DOWN, INIT, UP, Pace, Session
from fanfold.units import PS_PER_MS, PS_PER_SECOND
from fanfold.wire.hello import Diag, Hello, SessionState
from fanfold.wire.notice import Notice

MS = PS_PER_MS
LEAVES, SPINES = (0, 1), (2, 3)
TWO_BY_TWO = [(leaf, spine) for leaf in LEAVES for spine in SPINES]
RING = [(n, (n + 1) % 6) for n in range(6)]
FAST_PS = PACE.detect_mult * PACE.fast_ps


def said(state, your=0, **more):
    return Hello(
        state, 3, FABRIC, 9, your, **{"interval_us": 50_000, "wanted_us": 50_000} | more
    )


# RFC 5880 section 6.8.6, by the state here and what the other end says.
TABLE = {
    (DOWN, SessionState.ADMIN_DOWN): DOWN,
    (DOWN, DOWN): INIT,
    (DOWN, INIT): UP,
    (DOWN, UP): DOWN,
    (INIT, SessionState.ADMIN_DOWN): DOWN,
    (INIT, DOWN): INIT,
    (INIT, INIT): UP,
    (INIT, UP): UP,
    (UP, SessionState.ADMIN_DOWN): DOWN,
    (UP, DOWN): DOWN,
    (UP, INIT): UP,
    (UP, UP): UP,
}


@pytest.mark.parametrize(("here", "there"), TABLE)
def test_a_session_changes_as_rfc_5880_says(here, there):
    session = Session(5, PACE)
    session.state = here
    assert session.on_hello(0, said(there, 5))
    assert session.state == TABLE[here, there]
    is_told = here == UP and session.state == DOWN
    assert (session.diag == Diag.TOLD) == (is_told or there == SessionState.ADMIN_DOWN)


def test_words_of_another_session_are_refused():
    session = Session(5, PACE)
    assert not session.on_hello(0, said(DOWN, 6))
    assert not session.on_hello(0, said(UP, 0))
    assert not session.on_hello(0, said(INIT, 0))
    assert session.state == DOWN
    assert session.on_hello(0, said(DOWN, 0))


def test_who_was_never_there_is_not_missed():
    net = Net(TWO_BY_TWO)
    net.cut(0, 2)
    net.run(10 * PS_PER_SECOND)
    assert net.nodes[0].sessions[0].state == DOWN
    assert net.agree()
    assert net.sent[Notice] == 0


@pytest.mark.parametrize("links", [TWO_BY_TWO, RING])
def test_all_learn_of_a_link_that_is_cut_and_of_its_return(links):
    net = settled(links)
    net.busy(*net.nodes)
    net.run(PS_PER_SECOND)
    link = links[0]
    net.cut(*link)
    took = net.run(PS_PER_SECOND, lambda: net.agree(link))
    assert FAST_PS // 2 < took < FAST_PS + 5 * MS
    first = min(at for at, _, failed in net.changes if failed)
    last = max(at for at, _, failed in net.changes if failed)
    assert last - first < 5 * MS
    net.heal(*link)
    assert net.run(5 * PS_PER_SECOND, net.agree) < 2 * PS_PER_SECOND
    digests = {node.states.digest for node in net.nodes.values()}
    assert len(digests) == 1
    assert net.sent[Notice] < 40


def test_a_node_that_dies_is_lost_to_all_who_were_beside_it_and_comes_back_empty():
    net = settled(TWO_BY_TWO)
    net.busy(*net.nodes)
    net.run(PS_PER_SECOND)
    for leaf in LEAVES:
        net.cut(leaf, 2)
    net.run(PS_PER_SECOND)
    assert [net.nodes[n].failed for n in (0, 1, 3)] == [{(0, 2), (1, 2)}] * 3
    for leaf in LEAVES:
        net.heal(leaf, 2)
    net.start(2)
    net.run(2 * PS_PER_SECOND)
    assert net.agree()


def test_what_an_earlier_life_said_is_taken_back():
    net = settled(TWO_BY_TWO)
    net.busy(*net.nodes)
    net.cut(0, 2)
    net.run(PS_PER_SECOND)
    net.start(0)  # has forgotten that it said so, and hears nothing of node 2
    net.heal(0, 2)
    net.run(3 * PS_PER_SECOND)
    assert net.agree()


def test_a_link_that_is_dead_one_way_is_down_at_both_ends():
    net = settled(TWO_BY_TWO)
    net.busy(*net.nodes)
    net.run(PS_PER_SECOND)
    net.cut(0, 2, both=False)
    net.run(FAST_PS + 50 * MS)
    ends = [net.nodes[0].sessions[0], net.nodes[2].sessions[0]]
    assert [end.diag for end in ends] == [Diag.TOLD, Diag.SILENT]
    assert net.agree((0, 2))


def test_a_link_that_died_at_rest_is_noticed_soon_after_traffic_begins():
    net = settled(TWO_BY_TWO)
    net.run(3 * PS_PER_SECOND)
    net.cut(0, 2)
    net.busy(0)
    assert net.run(PS_PER_SECOND, lambda: net.agree((0, 2))) < FAST_PS + 5 * MS


def test_who_carries_nothing_says_little():
    net = settled(TWO_BY_TWO)
    before = net.sent[Hello]
    net.run(10 * PS_PER_SECOND)
    assert (net.sent[Hello] - before) / len(TWO_BY_TWO) / 2 < 14
    net.busy(*net.nodes)
    net.run(PS_PER_SECOND)
    before = net.sent[Hello]
    net.run(PS_PER_SECOND)
    assert 20 <= (net.sent[Hello] - before) / len(TWO_BY_TWO) / 2 < 30
    net.busy(*net.nodes, is_busy=False)
    net.run(5 * PS_PER_SECOND)
    assert net.agree()


def test_who_is_going_to_say_less_announces_it_more_than_once():
    net = settled(TWO_BY_TWO)
    net.busy(*net.nodes)
    net.run(PS_PER_SECOND)
    dropped = set()

    def drop_first(src, dst, message):
        is_slow = isinstance(message, Hello) and message.interval_us > 50_000
        is_first = is_slow and (src, dst) not in dropped
        dropped.update({(src, dst)} if is_first else ())
        return is_first

    net.drop = drop_first
    net.busy(*net.nodes, is_busy=False)
    net.run(4 * PS_PER_SECOND)
    assert len(dropped) == 2 * len(TWO_BY_TWO)
    assert not net.changes


def test_data_are_a_sign_of_life():
    net = settled(TWO_BY_TWO)
    net.busy(*net.nodes)
    net.run(PS_PER_SECOND)
    net.drop = lambda src, dst, message: isinstance(message, Hello) and {src, dst} == {0, 2}
    for _ in range(100):
        net.run(20 * MS)
        net.data(0, 2)
        net.data(2, 0)
    assert net.agree()
    net.run(FAST_PS + 50 * MS)
    assert net.agree((0, 2))


@pytest.mark.parametrize("time_ms", [90, 400, 800])
def test_who_was_stopped_does_not_blame_others(time_ms):
    """Its neighbours lose it, rightly; it finds what they sent, and loses nobody itself."""
    net = settled(TWO_BY_TWO)
    net.busy(*net.nodes)
    net.run(PS_PER_SECOND)
    net.stop(2, time_ms * MS)
    net.run(time_ms * MS - 1)
    lost = net.nodes[0].lost
    assert bool(lost) == (time_ms > 150)
    net.run(100 * MS)
    assert all(s.diag != Diag.SILENT for s in net.nodes[2].sessions)
    net.run(3 * PS_PER_SECOND)
    assert net.agree()


def test_who_says_that_it_is_starved_is_waited_for():
    net = settled(TWO_BY_TWO)
    net.busy(*net.nodes)
    for time_ms in (60, 90, 140, 240, 400):
        net.run(PS_PER_SECOND)
        net.stop(2, time_ms * MS)
    net.run(3 * PS_PER_SECOND)
    assert net.nodes[2].lag_ms() == 384 or net.nodes[2].lag_ms() == 512
    assert all(not failed for _, _, failed in net.changes)


def test_notices_that_are_lost_are_made_good_by_digests():
    net = settled(TWO_BY_TWO)
    net.busy(*net.nodes)
    net.run(PS_PER_SECOND)
    net.drop = lambda src, dst, message: isinstance(message, Notice) and net.now % 3 != 0
    net.cut(0, 2)
    net.run(5 * PS_PER_SECOND)
    assert net.agree((0, 2))


def test_a_link_that_flaps_is_held_for_longer_each_time_and_told_of_seldom():
    net = settled(RING)
    net.busy(*net.nodes)
    net.run(PS_PER_SECOND)
    holds = []
    for _ in range(6):
        net.cut(0, 1)
        net.run(PS_PER_SECOND, lambda: bool(net.nodes[0].lost))
        net.heal(0, 1)
        net.run(2 * PS_PER_SECOND, lambda: net.nodes[0].sessions[0].state == UP)
        holds.append(net.run(5 * PS_PER_SECOND, lambda: not net.nodes[0].lost))
        net.run(100 * MS)
    assert holds == sorted(holds)
    assert holds[0] < HOLD_PS < 8 * HOLD_PS <= holds[-1] <= 17 * HOLD_PS
    assert net.sent[Notice] < 300


def test_what_makes_no_sense_changes_nothing():
    net = settled(TWO_BY_TWO)
    node, out = net.nodes[0], []
    good = Notice(FABRIC, 3, 2, 5, 1)
    disc = node.sessions[0].disc
    assert not node.on_hello(net.now, 1, replace(said(UP, disc), fabric=FABRIC + 1), out)
    assert not node.on_hello(net.now, 1, said(UP, disc + 1), out)
    for bad in (
        replace(good, fabric=FABRIC + 1),
        replace(good, origin=4),
        replace(good, n_ports=3),
    ):
        assert not node.on_notice(net.now, 1, bad, out)
    assert (out, node.failed) == ([], frozenset())
    assert node.on_notice(net.now, 1, good, out)
    assert node.failed == {(0, 3)}
    out.clear()
    assert node.on_notice(net.now, 2, replace(good, seq=4, down=0), out)
    assert node.failed == {(0, 3)}
    assert out == [SendLink(2, good)]


def test_a_notice_goes_no_further_than_those_who_have_not_got_it():
    net = settled(RING)
    net.busy(*net.nodes)
    net.run(PS_PER_SECOND)
    before = net.sent[Notice]
    net.nodes[0].lost = 1
    net.run(PS_PER_SECOND)
    assert 6 <= net.sent[Notice] - before <= 2 * len(RING) + 4
    before = net.sent[Notice]
    net.run(5 * PS_PER_SECOND)
    assert net.sent[Notice] == before


def test_a_stub_is_watched_and_no_table_changes_for_it():
    net = settled([*TWO_BY_TWO, (0, 4)])
    net.busy(*net.nodes)
    net.cut(0, 4)
    net.run(4 * PS_PER_SECOND)
    assert net.nodes[0].sessions[2].state == DOWN
    assert net.agree()
    assert net.sent[Notice] == 0


def test_three_times_three_milliseconds():
    net = settled(TWO_BY_TWO, Pace(fast_ps=3 * MS))
    net.busy(*net.nodes)
    net.run(PS_PER_SECOND)
    net.cut(1, 3)
    assert net.run(PS_PER_SECOND, lambda: net.agree((1, 3))) < 11 * MS


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(RING), st.booleans(), st.integers(1, 900)), max_size=12)
)
def test_whatever_is_cut_and_mended_in_the_end_all_agree(steps):
    """Safety first, then heal, then demand progress; and no machine ever spins."""
    net = settled(RING)
    net.busy(*net.nodes)
    for link, is_cut, time_ms in steps:
        net.cut(*link) if is_cut else net.heal(*link)
        net.run(time_ms * MS)
    for link in RING:
        net.heal(*link)
    net.run(12 * PS_PER_SECOND)
    assert net.agree()
    assert len({node.states.digest for node in net.nodes.values()}) == 1
    n = net.sent[Hello] + net.sent[Notice]
    assert n < 30 * 12 * (20 + len(steps)) * 3


def test_an_early_timer_changes_nothing():
    node = Neighbours(0, Ground(FABRIC, 0, [[1, 2], [0], [0]], [True, True]), 1, PACE)
    out = []
    node.listen(0, 0, [0, 0, 0])
    node.on_timer(0, out)
    due = node.deadline_ps(0)
    assert (len(out), due > 0) == (2, True)
    node.listen(due // 4, due // 4, [0, 0, 0])
    node.on_timer(due // 4, out)
    assert (len(out), node.deadline_ps(due // 4)) == (2, due)


@pytest.mark.parametrize("way_ps", [0, 200 * MS])
def test_an_answer_is_missed_when_the_way_to_it_and_back_is_over(way_ps):
    """Links of 100 ms were taken for dead by each first packet on them."""
    session = Session(5, PACE)
    session.on_hello(0, said(INIT, 5, interval_us=1_000_000))
    assert session.hello(0, FABRIC, 0, 0, 0).poll  # it is up, and asks how long an answer takes
    session.on_hello(way_ps, said(UP, 5, final=True, interval_us=1_000_000))
    assert session.way_ps == way_ps
    later = PS_PER_SECOND
    session.on_life(later)
    session.want(later, often=True)
    assert not session.expire(later + FAST_PS + 2 * way_ps - 1)
    assert session.expire(later + FAST_PS + 2 * way_ps)


def test_before_an_answer_took_its_time_silence_is_as_long_as_at_rest():
    session = Session(5, PACE)
    session.on_hello(0, said(INIT, 5))
    session.on_hello(0, said(UP, 5, final=True, interval_us=1_000_000))
    session.learn_way(0)  # it became another
    assert not session.expire(3 * PS_PER_SECOND - 1)
    assert session.expire(3 * PS_PER_SECOND)
