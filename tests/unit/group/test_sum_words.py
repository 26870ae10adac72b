"""The simulator's words are those that live ranks choose for float32 and int32."""

import pytest

from fanfold.group.communicator import Op
from fanfold.group.rules import Rules
from fanfold.group.values import form_of, wide_of
from fanfold.scenario.settings import Settings
from fanfold.scenario.sum_words import n_blocks, sum_word, words_bytes
from fanfold.schemes.program import Sum

KINDS = {"value": "float32", "block": "float32", "integer": "int32"}


def test_the_default_is_the_default_of_live_ranks():
    assert Settings().sum_numbers == Rules().numbers


@pytest.mark.parametrize("numbers", KINDS)
@pytest.mark.parametrize("n_ranks", [2, 64, 65, 1024])
@pytest.mark.parametrize("room", [4096, 1280, 8888])
def test_words_are_those_of_live_ranks(numbers, n_ranks, room):
    one = Sum(tuple(range(n_ranks)), 4 * 10_001)
    settings = Settings(payload_bytes=room, sum_numbers=numbers)
    rules = Rules(numbers="block" if numbers == "block" else "value")
    wide = wide_of(KINDS[numbers], Op.SUM, n_ranks)
    form = form_of(wide, Op.SUM, by_block=rules.is_by_block)
    assert sum_word(one, settings) == form.word
    n_values = form.block_bytes(room) // form.value_bytes
    assert words_bytes(one, settings) == n_values * form.word_bytes
    assert n_blocks(one, settings) == -(-10_001 // n_values)
