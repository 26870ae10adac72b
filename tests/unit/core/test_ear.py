"""The clock that stands while a node cannot hear."""

from hypothesis import given
from hypothesis import strategies as st

from fanfold.core.ear import COUNTED, Ear
from fanfold.units import PS_PER_SECOND

MS = PS_PER_SECOND // 1000


def test_a_node_that_is_in_time_and_finds_its_socket_empty_has_heard_all():
    ear = Ear(0)
    for now in range(0, 1000 * MS, 10 * MS):
        ear.listen(now, now, now)
    assert ear.unheard_ps == 0
    assert ear.time_ps(1000 * MS) == 1000 * MS


def test_the_time_that_a_step_came_late_is_not_heard():
    ear = Ear(0)
    ear.listen(3210 * MS, 10 * MS, 3210 * MS)
    assert ear.unheard_ps == 3200 * MS - 3200 * MS // COUNTED
    ear.listen(3215 * MS, 3220 * MS, 3214 * MS)  # early, a packet came
    assert ear.unheard_ps == 3200 * MS - 3200 * MS // COUNTED


def test_what_waits_in_the_socket_was_not_heard():
    ear = Ear(0)
    ear.listen(100 * MS, 100 * MS, 99 * MS)
    assert ear.unheard_ps == 0
    ear.listen(260 * MS, 260 * MS, 99 * MS)
    assert ear.unheard_ps == 150 * MS
    ear.listen(261 * MS, 300 * MS, 261 * MS)
    assert ear.unheard_ps == 150 * MS


@given(st.lists(st.tuples(*[st.integers(0, 10**12)] * 3, st.booleans()), max_size=60))
def test_it_never_goes_back_and_never_stands_for_ever(steps):
    ear, now, shown = Ear(0), 0, 0
    for passed, due, empty, asks in steps:
        now += passed
        if asks:
            assert ear.time_ps(now) >= shown
            shown = ear.time_ps(now)
        ear.listen(now, due, empty)
        assert ear.time_ps(now) >= shown
        shown = ear.time_ps(now)
        assert now // COUNTED - len(steps) <= shown <= now
