"""Gray links that pushes leave out of a lab's tables, and take back when they are well."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_site import Json, LiveLab, Site, all_verified, carried, random_bytes

from fanfold.kernels.jit import JIT

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not JIT, reason="a live push is for compiled code"),
]
SIZE = 12_000_000
"""About 1,500 packets: a link of 3 % is named after 300."""
TRIES = 8
LINKS = ("leaf1-spine1", "leaf2-spine1")


@pytest.fixture(scope="module")
def lab(site: Site) -> Iterator[LiveLab]:
    made = LiveLab(site, "avoid", "--leaves", 2, "--spines", 2, "--hosts", 4)
    yield made
    made.down()


def push(lab: LiveLab, folder: Path, *flags: object) -> Json:
    path = folder / "a.bin"
    path.write_bytes(random_bytes(SIZE, time.monotonic_ns()))
    result = lab.push(path, "--avoid-gray", *flags)
    assert all_verified(lab, result)
    return result


def over(result: Json, link: str) -> int:
    a, b = link.split("-")
    return carried(result, a, b) + carried(result, b, a)


def until(lab: LiveLab, folder: Path, fate: str) -> Json:
    """Push until that becomes of the first link: a push has one way of two."""
    for _ in range(TRIES):
        result = push(lab, folder)
        if (LINKS[0], fate) in [(row["link"], row["fate"]) for row in result["avoided"]]:
            return result
    raise AssertionError(f"no push in which {LINKS[0]} is {fate}")


def try_now(lab: LiveLab) -> None:
    """The time for which links are left out is over."""
    path = lab.folder / "avoided.json"
    book = json.loads(path.read_text())
    for kept in book.values():
        kept["until_s"] = 0
    path.write_text(json.dumps(book))


def test_a_gray_link_is_left_out_and_taken_back_when_it_is_well(
    lab: LiveLab, tmp_path: Path
) -> None:
    lab.site.read("lab", "fail", "gray", LINKS[0], "3%", "--name", lab.name)
    result = until(lab, tmp_path, "avoided")
    assert f"avoided from now on: {LINKS[0]}, tried again after 60 s" in result["notes"]
    for _ in range(3):
        result = push(lab, tmp_path)
        assert over(result, LINKS[0]) == 0
        assert (result["gray"], result["avoided"]) == ([], [])
        assert result["repairs"]["packets"] < 20
    try_now(lab)  # it is as bad as before
    (row,) = [r for r in until(lab, tmp_path, "avoided")["avoided"] if r["link"] == LINKS[0]]
    assert row["again_s"] == 120
    assert over(push(lab, tmp_path), LINKS[0]) == 0
    lab.site.read("lab", "heal", LINKS[0], "--name", lab.name)
    try_now(lab)
    result = until(lab, tmp_path, "well")
    assert any(note.startswith(f"well again: {LINKS[0]} carried ") for note in result["notes"])
    assert json.loads((lab.folder / "avoided.json").read_text()) == {}


def test_a_link_without_another_way_stays_and_that_is_said(
    lab: LiveLab, tmp_path: Path
) -> None:
    lab.site.read("lab", "fail", "gray", "leaf1-h1", "3%", "--name", lab.name)
    try:
        result = push(lab, tmp_path)
    finally:
        lab.site.read("lab", "heal", "--name", lab.name)
    assert [(r["link"], r["fate"]) for r in result["avoided"]] == [("h1-leaf1", "no other way")]
    assert "not avoided: h1-leaf1, there is no other way" in result["notes"]
    push(lab, tmp_path)
