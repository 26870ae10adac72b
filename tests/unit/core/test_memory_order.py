"""Litmus programs by every order of their transactions that a mode allows."""

import pytest

from fanfold.core.memory_order import LITMUS, ONE_HOME, TWO_HOMES, Mode, Outcome, outcomes

BY_NAME = {litmus.name: litmus for litmus in LITMUS}
SEVERAL = ("MP", "SB", "LB", "IRIW")
COHERENCE = ("CoWW", "CoRR", "CoWR", "CoRW")
# The modes that let the outcome in question through, worked out by hand.
PLACES = [("one home", ONE_HOME), ("two homes", TWO_HOMES)]
ALLOWING = {
    ("one home", "several"): {Mode.SPRAY, Mode.PARTIAL},
    ("two homes", "several"): set(Mode),
    ("one home", "coherence"): {Mode.SPRAY},
    ("two homes", "coherence"): {Mode.SPRAY},
}


def allows(name, mode, homes, is_fenced=False):
    found = outcomes(BY_NAME[name], mode, homes, is_fenced=is_fenced)
    return any(BY_NAME[name].is_relaxed(outcome) for outcome in found)


@pytest.mark.parametrize(("place", "homes"), PLACES, ids=[place for place, _ in PLACES])
@pytest.mark.parametrize("name", SEVERAL + COHERENCE)
def test_modes_allow_what_they_leave_unordered(name, place, homes):
    kind = "several" if name in SEVERAL else "coherence"
    assert {mode for mode in Mode if allows(name, mode, homes)} == ALLOWING[place, kind]


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("name", SEVERAL + COHERENCE)
def test_fences_forbid_it_in_every_mode(name, mode):
    assert not allows(name, mode, ONE_HOME, is_fenced=True)
    assert not allows(name, mode, TWO_HOMES, is_fenced=True)


def test_outcomes_of_message_passing_are_those_of_its_six_orders_and_one_more():
    found = outcomes(BY_NAME["MP"], Mode.STRONG, ONE_HOME, is_fenced=False)
    assert found == {Outcome(loads, (1, 1)) for loads in ((0, 0), (0, 1), (1, 1))}
    found = outcomes(BY_NAME["MP"], Mode.SPRAY, ONE_HOME, is_fenced=False)
    assert found == {Outcome((a, b), (1, 1)) for a in (0, 1) for b in (0, 1)}
