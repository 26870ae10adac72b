"""Links that lose or damage some packets are named with their direction, and no others are."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_site import Json, LiveLab, Site, finish, random_bytes, wait_for

from fanfold.kernels.jit import JIT

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not JIT, reason="a live push is for compiled code"),
]
SIZE = 16_000_000
"""About 2,000 packets: a link of 1 % is named after 915, of 0.5 % after 1,800."""
SMALL = 3_000_000


@pytest.fixture(scope="module")
def module_lab(site: Site) -> Iterator[LiveLab]:
    made = LiveLab(site, "live-gray", "--leaves", 2, "--spines", 1, "--hosts", 4)
    yield made
    made.down()


@pytest.fixture
def lab(module_lab: LiveLab) -> Iterator[LiveLab]:
    yield module_lab
    module_lab.site.read("lab", "heal", "--name", module_lab.name)


def push(lab: LiveLab, folder: Path, size: int, *flags: object) -> Json:
    path = folder / "a.bin"
    path.write_bytes(random_bytes(size, time.monotonic_ns()))
    return lab.push(path, *flags)


def named(result: Json) -> set[tuple[str, str, str]]:
    return {(row["from"], row["to"], row["kind"]) for row in result["gray"]}


def test_links_that_are_well_are_not_named(lab: LiveLab, tmp_path: Path) -> None:
    assert push(lab, tmp_path, SIZE)["gray"] == []


def test_a_link_that_loses_one_in_a_hundred_is_named(lab: LiveLab, tmp_path: Path) -> None:
    lab.site.read("lab", "fail", "gray", "leaf1-spine1", "1%", "--name", lab.name)
    result = push(lab, tmp_path, SIZE)
    assert named(result) == {("leaf1", "spine1", "drops")}
    (row,) = result["gray"]
    assert row["source"] == "counters"
    assert 0.004 < row["rate"] < 0.02
    assert row["confidence"] > 0.9999
    assert any(note.startswith("gray link: leaf1 > spine1 loses ") for note in result["notes"])
    (told,) = lab.site.read("lab", "status", "--name", lab.name)
    assert ("leaf1", "spine1", "drops") in named(told)
    said = lab.site.run("lab", "status", "--name", lab.name).stdout
    assert "gray link: leaf1 > spine1 loses " in said


def test_a_link_that_damages_is_named(lab: LiveLab, tmp_path: Path) -> None:
    result = push(lab, tmp_path, SIZE, "--impair", "corrupt=2%@leaf1-h1")
    assert named(result) == {("leaf1", "h1", "damage")}


def test_a_port_that_damages_is_named_with_its_direction(lab: LiveLab, tmp_path: Path) -> None:
    lab.site.read("lab", "fail", "port-corrupt", "leaf2-spine1", "2%", "--name", lab.name)
    result = push(lab, tmp_path, SIZE)
    assert named(result) == {("spine1", "leaf2", "damage")}


def test_a_link_whose_end_tells_nothing_is_named_by_gaps(lab: LiveLab, tmp_path: Path) -> None:
    lab.site.read("lab", "fail", "gray", "leaf1-spine1", "2%", "--name", lab.name)
    there = lab.folder / "control" / "spine1.sock"
    away = there.with_suffix(".away")
    there.rename(away)
    try:
        result = push(lab, tmp_path, SIZE, "--repair", "source")
    finally:
        away.rename(there)
    assert result["unheard"] == ["spine1"]
    (row,) = result["gray"]
    assert (row["source"], row["from"], row["to"]) == ("gaps", "leaf1", "spine1")
    assert row["alike"] == ["spine1-leaf2"]


def test_a_slow_a_stopped_and_a_restarted_receiver_name_no_link(
    lab: LiveLab, tmp_path: Path
) -> None:
    assert push(lab, tmp_path, SMALL, "--impair", "rate=20Mbps@leaf2-h3")["gray"] == []
    path = tmp_path / "b.bin"
    path.write_bytes(random_bytes(SIZE, time.monotonic_ns()))
    before = lab.sent("leaf2", "h3")
    running = lab.start_push(path, "--rate", "100Mbps")
    wait_for(lambda: lab.sent("leaf2", "h3") > before + 50, "data under way")
    lab.site.read("lab", "fail", "pause", "h3", "500ms", "--name", lab.name)
    lab.site.read("lab", "restart", "h4", "--name", lab.name)
    code, out, err = finish(running)
    assert code == 0, err
    assert '"gray":[]' in out.replace(" ", "")
