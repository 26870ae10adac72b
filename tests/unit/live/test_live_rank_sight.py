"""What the root said counts as long as nothing says that it is out of date."""

from types import SimpleNamespace

import pytest

from fanfold.live.rank_sight import LATELY_PS, SILENT_PS, is_told

NOW = 10 * LATELY_PS


@pytest.mark.parametrize(
    ("ping_ago", "told_ago", "is_lately"),
    [
        (0, LATELY_PS - 1, True),
        (0, LATELY_PS, False),
        (SILENT_PS, SILENT_PS - 1, True),
        (SILENT_PS, SILENT_PS, False),  # the uplink is silent: nobody knows what it heard since
    ],
)
def test_a_word_of_the_root_is_out_of_date_sooner_behind_a_silent_uplink(
    ping_ago: int, told_ago: int, is_lately: bool
) -> None:
    job = {"heard_of": 0, "told_ps": NOW - told_ago}
    state = SimpleNamespace(row=[{"ping_ps": NOW - ping_ago}], job=[job], have=[0])
    assert is_told(state, NOW) is is_lately
    state.have[0] = 1
    assert not is_told(state, NOW)
