"""One seed and one name make one stream; another seed or name makes another (ADR 0003)."""

import numpy as np
import pytest

from fanfold.streams import stream, stream_key


def test_a_seed_and_a_name_draw_the_same_again() -> None:
    first, again = stream(7, "link/leaf1-h3/loss"), stream(7, "link/leaf1-h3/loss")
    assert np.array_equal(first.integers(0, 2**63, 8), again.integers(0, 2**63, 8))


@pytest.mark.parametrize("other", [(8, "link/leaf1-h3/loss"), (7, "link/leaf1-h4/loss")])
def test_two_seeds_and_two_names_differ(other: tuple[int, str]) -> None:
    assert stream_key(7, "link/leaf1-h3/loss") != stream_key(*other)
    ours = stream(7, "link/leaf1-h3/loss").integers(0, 2**63, 8)
    assert not np.array_equal(ours, stream(*other).integers(0, 2**63, 8))
