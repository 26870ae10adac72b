"""Links slower than the sender, whose queues drop: how many copies leave, how long it takes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_site import Json, LiveLab, Site, finish, random_bytes, states
from tries import Tries

pytestmark = [pytest.mark.live, pytest.mark.alone]

MB = 1_000_000
TRIES = 2
COPIES = Tries("pushes through queues that drop, more copies than usual")
"""When a queue overflows is chance; what holds each time is asserted in each."""


@pytest.fixture(scope="module")
def lab(site: Site) -> Iterator[LiveLab]:
    made = LiveLab(site, "queues", "--leaves", 2, "--spines", 2, "--hosts", 4)
    yield made
    made.down()


def seconds(told: Json) -> dict[str, float]:
    return {r["id"]: r["seconds"] for r in told["receivers"]}


def test_slow_links_get_one_copy_and_little_more(lab: LiveLab, tmp_path: Path) -> None:
    """12 MB at 60 Mbit/s: 1.6 s; a queue of 20 ms before each link."""
    file = tmp_path / "all.bin"
    file.write_bytes(random_bytes(12 * MB, 20))
    told = lab.push(file, "--impair", "rate=60Mbps")
    assert set(states(told).values()) == {"verified"}
    assert told["source_link_bytes"] <= 1.3 * 12 * MB, told
    assert not any(r["split"] for r in told["receivers"])


def one_slow(lab: LiveLab, file: Path, seed: int) -> float:
    """Copies of 6 MB: 1.2 s at 40 Mbit/s, 6 s at 8; all else holds each time."""
    file.write_bytes(random_bytes(6 * MB, seed))
    told = lab.push(file, "--impair", "rate=40Mbps", "--impair", "rate=8Mbps@leaf2-h3")
    took = seconds(told)
    slow_s = took.pop("h3")
    assert set(states(told).values()) == {"verified"}
    assert max(took.values()) < slow_s / 2, told
    assert slow_s < 2 * 6, told
    return float(told["source_link_bytes"] / (6 * MB))


def test_one_slow_link_costs_a_copy_and_the_others_little(lab: LiveLab, tmp_path: Path) -> None:
    for seed in range(TRIES):
        if COPIES.count(one_slow(lab, tmp_path / f"one{seed}.bin", 21 + seed) <= 2.7):
            return
    raise AssertionError(f"more than 2.7 copies in each of {TRIES} pushes")


def two_pushes(lab: LiveLab, files: list[Path], seed: int) -> float:
    """The larger one's copies of 8 MB; nobody is ever split off."""
    for i, file in enumerate(files):
        file.write_bytes(random_bytes(8 * MB, seed + i))
    flags = ("--impair", "rate=60Mbps@h0-leaf1")
    started = [lab.start_push(file, *flags) for file in files]
    copies = []
    for each in started:
        code, out, err = finish(each, 60)
        assert code == 0, err
        told = json.loads(out)
        assert not any(r["split"] for r in told["receivers"]), told
        copies.append(told["source_link_bytes"] / (8 * MB))
    return float(max(copies))


def test_two_pushes_over_one_uplink_split_nobody(lab: LiveLab, tmp_path: Path) -> None:
    """The queue that both fill is nobody's slowness."""
    for seed in range(TRIES):
        files = [tmp_path / f"two{seed}{i}.bin" for i in (1, 2)]
        if COPIES.count(two_pushes(lab, files, 22 + 2 * seed) <= 1.4):
            return
    raise AssertionError(f"more than 1.4 copies in each of {TRIES} pairs")
