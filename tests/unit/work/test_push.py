import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import ConfigError
from fanfold.streams import stream
from fanfold.work.push import (
    Region,
    cold_start_fan,
    cold_start_unicast,
    draw_arrivals,
    send_ps,
    wan_egress,
)

RATE = 8 * 10**12
"""One byte takes one ps."""


def test_a_model_of_500_gb_to_four_regions():
    regions = tuple(Region(name, 8) for name in ("us", "eu", "in", "jp"))
    egress = wan_egress(500 * 10**9, regions)
    assert egress.copy_per_region == 2 * 10**12
    assert egress.multicast == 500 * 10**9
    assert egress.copy_per_replica == 32 * 500 * 10**9


@pytest.mark.parametrize("names", [(), ("us", "us")])
def test_regions_have_names_of_their_own(names):
    with pytest.raises(ConfigError, match="regions"):
        wan_egress(1, tuple(Region(name, 1) for name in names))


def test_three_joiners_by_hand():
    """A model of 100 bytes, its first layer 10; joiners at 0, 30 and 250."""
    at = np.array([0, 30, 250])
    one = cold_start_unicast(at, 100, 10, RATE)
    assert one.all_ps.tolist() == [100, 170, 100]
    assert one.first_layer_ps.tolist() == [10, 80, 10]
    assert one.source_bytes == 300
    fan = cold_start_fan(at, 100, 10, RATE)
    assert fan.all_ps.tolist() == [100, 100, 100]
    assert fan.first_layer_ps.tolist() == [10, 80, 10]
    assert fan.source_bytes == 130 + 100


def naive_fan(arrivals, size, first):
    """Byte by byte: the source sends while anybody lacks some; a byte takes one ps."""
    lacks, got_first, got_all = {}, {}, {}
    sent = place = 0
    for now in range(max(arrivals) + 3 * size):
        place = place if lacks else 0
        lacks |= {i: set(range(size)) for i, at in enumerate(arrivals) if at == now}
        sent += bool(lacks)
        for i, missing in lacks.items():
            missing.discard(place)
            if not missing & set(range(first)):
                got_first.setdefault(i, now + 1 - arrivals[i])
            if not missing:
                got_all[i] = now + 1 - arrivals[i]
        lacks = {i: missing for i, missing in lacks.items() if missing}
        place = (place + 1) % size
    return got_first, got_all, sent


@given(
    gaps=st.lists(st.integers(0, 30), min_size=1, max_size=6),
    size=st.integers(1, 20),
    first=st.integers(1, 20),
)
def test_a_fan_is_as_byte_by_byte(gaps, size, first):
    first = min(first, size)
    at = np.cumsum([0, *gaps[1:]])
    made = cold_start_fan(at, size, first, RATE)
    got_first, got_all, sent = naive_fan(at.tolist(), size, first)
    n = range(at.size)
    assert made.all_ps.tolist() == [got_all[i] for i in n]
    assert made.source_bytes == sent
    # A joiner in the middle of the first layer has the end of it, and waits for its beginning.
    assert all(got_first[i] <= made.first_layer_ps[i] for i in n)
    aligned = [i for i in n if made.first_layer_ps[i] == first]
    assert all(got_first[i] == first for i in aligned)


@given(
    gaps=st.lists(st.integers(0, 300), min_size=1, max_size=20),
    size=st.integers(1, 100),
)
def test_a_fan_is_never_later_and_never_sends_more(gaps, size):
    at = np.cumsum([0, *gaps[1:]])
    one = cold_start_unicast(at, size, size, RATE)
    fan = cold_start_fan(at, size, size, RATE)
    assert (fan.all_ps <= one.all_ps).all()
    assert size <= fan.source_bytes <= one.source_bytes == size * at.size
    ends = at + one.all_ps
    assert (np.diff(ends) >= size).all(), "one whole copy after the other"


def test_arrivals_are_drawn_from_the_seed_and_rise_from_0():
    drawn = [draw_arrivals(stream(seed, "a"), 100, 10**12) for seed in (1, 1, 2)]
    assert (drawn[0] == drawn[1]).all()
    assert (drawn[0] != drawn[2]).any()
    assert drawn[0][0] == 0
    assert (np.diff(drawn[0]) >= 0).all()
    assert drawn[0][-1] <= 10**12
    assert draw_arrivals(stream(1, "a"), 3, 0).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: draw_arrivals(stream(1, "a"), 0, 1), "replicas"),
        (lambda: draw_arrivals(stream(1, "a"), 2**20 + 1, 1), "replicas"),
        (lambda: draw_arrivals(stream(1, "a"), 1, -1), "within"),
        (lambda: cold_start_fan(np.array([0]), 10, 11, RATE), "first_layer"),
        (lambda: cold_start_unicast(np.array([0]), 10, 0, RATE), "first_layer"),
        (lambda: cold_start_unicast(np.array([0]), 10**15, 1, 1), "rate"),
    ],
)
def test_what_cannot_be_is_named(call, field):
    with pytest.raises(ConfigError) as caught:
        call()
    assert caught.value.field == field


def test_time_is_rounded_up():
    assert send_ps(1, 400 * 10**9) == 20
    assert send_ps(1, 3 * 10**12) == 3
