"""What ranks were asked for, as errors tell it."""

from fanfold.group.ask import LEAVING, Ask, text_of
from fanfold.group.values import MOVED


def test_the_barrier_that_a_rank_leaves_by_is_none_of_a_program():
    """Else the others would pass theirs, though a rank died before it came to its own."""
    asked, left = (Ask("barrier", MOVED, root).words() for root in (0, LEAVING))
    assert asked != left
    assert text_of(asked) == "a barrier, or a call that it refused"
    assert text_of(left) == "the end of the group"
