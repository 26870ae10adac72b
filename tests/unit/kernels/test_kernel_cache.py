"""What is compiled is kept by a digest of all that it was made of."""

from pathlib import Path

import pytest

import fanfold
from fanfold.kernels import jit

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
