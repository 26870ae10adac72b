"""A few seeds of the swarm, and that it finds each fault that is planted (tests/hunt.py)."""

import pytest
from hunt import plant_all
from swarm import run_seed

from fanfold.kernels.jit import JIT

SEEDS = range(1, 17)


def test_no_law_is_broken_and_the_seeds_have_in_them_what_they_should():
    seen = [run_seed(seed) for seed in SEEDS]
    assert sum(s.is_middle for s in seen) >= 3
    assert sum(s.is_told for s in seen) >= 3
    assert sum(s.is_rerouted for s in seen) >= 4
    assert sum(s.n_repairs for s in seen) > 100
    assert sum(s.is_full for s in seen) >= 1
    assert sum(s.n_bad for s in seen) > 50


def test_who_ends_while_it_puts_files_in_place_begins_anew():
    """Seed 6317: its lock has to go with its process."""
    assert run_seed(6317).is_rerouted


@pytest.mark.skipif(JIT, reason="it is no compiled code that runs here; once is enough")
def test_each_planted_fault_is_caught(capsys):
    assert plant_all(1, 20, "") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert all("caught with seed" in line for line in lines)
