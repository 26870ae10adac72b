"""A file of a topology is a net or one line that says what is wrong, whatever stands in it."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topo_samples import NODE_LINK, SAMPLES, TOPO

from fanfold.errors import ConfigError
from fanfold.topo.net_catalog import FILE_CATALOG
from fanfold.topo.sketch import LINE

LAW = settings(max_examples=60, deadline=None)
TEXTS = SAMPLES | {"net.json": NODE_LINK, "eight.topo": TOPO}
LOADS = {row.suffix: row.load for row in FILE_CATALOG}
MARKS = [*'"[]{}<>=,:#-&\\', "\n", "\x00", "\xff"]
NUMBERS = ["0", "-1", "9" * 5000, "nan", "inf", "1e999", "1e99999999"]
WORDS = st.sampled_from([*MARKS, *NUMBERS])


def check(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        net = LOADS[path.suffix](path, LINE)
    except ConfigError as error:
        told = str(error)
    else:
        assert net.n_hosts >= 1
        return
    assert "\n" not in told
    assert len(told) < 600


@pytest.mark.parametrize("name", TEXTS)
def test_a_file_cut_anywhere_is_a_net_or_a_refusal(tmp_path, name):
    content = TEXTS[name].encode()
    for n in range(len(content)):
        check(tmp_path / name, content[:n])


@LAW
@given(suffix=st.sampled_from(sorted(LOADS)), content=st.binary(max_size=80))
def test_any_bytes_are_a_net_or_a_refusal(tmp_path_factory, suffix, content):
    check(tmp_path_factory.getbasetemp() / f"any{suffix}", content)


@settings(LAW, max_examples=300)
@given(name=st.sampled_from(sorted(TEXTS)), at=st.data(), word=WORDS, n=st.integers(0, 6))
def test_a_file_with_something_put_in_or_taken_out_is_a_net_or_a_refusal(
    tmp_path_factory, name, at, word, n
):
    text = TEXTS[name]
    where = at.draw(st.integers(0, len(text)))
    changed = f"{text[:where]}{word}{text[where + n :]}"
    check(tmp_path_factory.getbasetemp() / f"put-{name}", changed.encode())
