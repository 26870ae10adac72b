"""What is compiled is kept by a digest of all that it was made of."""

from pathlib import Path

import numpy as np
import pytest

import fanfold
from fanfold.kernels import jit
from fanfold.kernels.octets import read_u16, sum_octets

ROOT = Path(fanfold.__file__).parent


@pytest.mark.parametrize("package", sorted(jit._COMPILED))
def test_every_file_with_kernels_is_in_the_digest_of_its_package(package):
    digested = {f for pattern in jit._COMPILED[package] for f in ROOT.glob(pattern)}
    compiled = {
        file
        for file in (ROOT / package).rglob("*.py")
        if "@kernel" in file.read_text(encoding="utf-8").splitlines()
    }
    assert compiled
    assert sorted(compiled - digested) == []


def test_what_is_bound_answers_as_the_kernel_does():
    octets = np.arange(40, dtype=np.uint8)
    bound = jit.bind(sum_octets, octets, 0, 0)
    for at, n in ((0, 0), (0, 40), (3, 7), (8, 32)):
        assert bound(octets, at, n) == sum_octets(octets, at, n)


@pytest.mark.skipif(not jit.JIT, reason="types are of compiled code")
def test_what_is_bound_is_of_the_types_that_it_was_bound_with():
    octets = np.arange(80, dtype=np.uint8)
    apart = octets[::2]
    of_whole, bound = jit.bind(read_u16, octets, 0), jit.bind(read_u16, apart, 0)
    assert (of_whole(octets, 1), bound(apart, 1)) == (0x0102, 0x0204)
