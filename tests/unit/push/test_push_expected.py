"""What a push is expected to send: worked out by hand, whatever was really sent."""

from fanfold.core.flight import Shape
from fanfold.push.expected import Expected

HEAD = 84


def test_one_copy_of_each_block_to_who_lacks_it() -> None:
    expected = Expected(Shape(2 * 400 + 150, 100, 4))  # blocks of 4, 4 and 2 packets
    expected.note(0, (0, 1, 2))
    expected.note(1, (1, 2))
    expected.note(2, ())
    assert expected.copies(HEAD) == {
        0b01: (4, 400 + 4 * (HEAD + 28)),
        0b11: (4 + 2, 400 + 150 + 6 * (HEAD + 28)),
    }


def test_a_receiver_that_forgot_is_no_more_expected_than_before() -> None:
    expected = Expected(Shape(400, 100, 4))
    expected.note(3, ())
    expected.note(3, (0,))
    assert expected.copies(HEAD) == {}


def test_needs_are_those_of_who_is_ready() -> None:
    expected = Expected(Shape(800, 100, 4))
    assert expected.needs({0: (0, 1), 2: (1,)}) == [0b001, 0b101]


def test_blocks_of_one_plane() -> None:
    expected = Expected(Shape(3 * 400, 100, 4))
    expected.note(0, (0, 1, 2))
    plan = bytes([1, 0, 1])
    assert expected.copies(HEAD, plan, 0) == {1: (4, 400 + 4 * (HEAD + 28))}
    assert expected.copies(HEAD, plan, 1) == {1: (8, 800 + 8 * (HEAD + 28))}
    assert expected.copies(HEAD, plan, 2) == {}
