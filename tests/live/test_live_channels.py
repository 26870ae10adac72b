"""Ranks and BFRs of a lab by shared memory: used, done without, and made anew."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from live_group import Group
from live_site import LiveLab, Site

from fanfold.kernels.jit import JIT
from fanfold.live.capture import read_raw
from fanfold.topo.fabric_file import load_fabric
from fanfold.wire.fold import Fold
from fanfold.wire.link import is_link
from fanfold.wire.packet import parse

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not JIT, reason="live ranks are for compiled code"),
]

HOSTS = ["h1", "h2", "h3", "h4"]
SIZE = 300_000
TOTAL = 10.0
WITHIN_S = 15.0
OFFERS = 2
"""Ranks at leaf1."""
LEAST_ARRAYS = 100
"""That a BFR has on one of its links in a sum of SIZE."""


@contextmanager
def a_lab(site: Site, name: str, *flags: object) -> Iterator[tuple[LiveLab, Group]]:
    lab = LiveLab(site, name, "--leaves", 2, "--spines", 1, "--hosts", 4, *flags)
    group = Group(load_fabric(lab.folder / "fabric.toml"), HOSTS)
    yield lab, group
    group.close()
    assert lab.deaths() == {}
    lab.down()


@pytest.fixture(scope="module")
def world(site: Site) -> Iterator[tuple[LiveLab, Group]]:
    with a_lab(site, "rings") as made:
        yield made


def begin_sum(group: Group) -> list[tuple[object, np.ndarray]]:
    arrays = [np.full(SIZE, r + 1.0, np.float32) for r in range(len(HOSTS))]
    return [(c.all_reduce(a), a) for c, a in zip(group.ranks, arrays, strict=True)]


def end_sum(begun: list[tuple[object, np.ndarray]]) -> None:
    for work, array in begun:
        work.wait()
        assert (array == TOTAL).all()


def rings(lab: LiveLab, node: str) -> dict[str, int]:
    told = lab.status(node)["rings"]
    assert told["broken"] == 0
    return dict(told)


def sum_until(lab: LiveLab, group: Group, n_channels: int) -> None:
    """Sums that are right, until leaf1 has so many channels."""
    until = time.monotonic() + WITHIN_S
    while True:
        end_sum(begin_sum(group))
        if rings(lab, "leaf1")["channels"] == n_channels:
            return
        assert time.monotonic() < until, rings(lab, "leaf1")
        time.sleep(0.2)


def test_arrays_pass_by_rings_on_every_link(world: tuple[LiveLab, Group]) -> None:
    lab, group = world
    sum_until(lab, group, OFFERS + 1)
    before = {name: rings(lab, name) for name in ("leaf1", "leaf2", "spine1")}
    end_sum(begin_sum(group))
    for name, was in before.items():
        now = rings(lab, name)
        assert now["channels"] == (2 if name == "spine1" else OFFERS + 1)
        assert now["blocks_in"] - was["blocks_in"] > 20
        assert now["blocks_out"] - was["blocks_out"] > 20
    assert rings(lab, "h1") == {"channels": 0, "blocks_in": 0, "blocks_out": 0, "broken": 0}


def test_what_is_captured_has_the_checksums_that_rings_do_without(
    world: tuple[LiveLab, Group], tmp_path: Path
) -> None:
    lab, group = world
    sum_until(lab, group, OFFERS + 1)
    paths = {node: tmp_path / f"{node}.tap" for node in ("leaf1", "leaf2", "spine1")}
    for node, path in paths.items():
        assert lab.ask(node, do="capture", path=str(path))["ok"]
    end_sum(begin_sum(group))
    for node, path in paths.items():
        lab.ask(node, do="capture")
        said = [record.packet for record in read_raw(path)[2]]
        packets = [parse(octets) for octets in said if not is_link(octets)]
        arrays = [p for p in packets if isinstance(p.message, Fold) and p.payload]
        assert len(arrays) > LEAST_ARRAYS


def test_a_bfr_that_is_killed_in_the_midst_has_channels_again(
    world: tuple[LiveLab, Group],
) -> None:
    lab, group = world
    sum_until(lab, group, OFFERS + 1)
    for node in ("leaf1", "spine1"):
        begun = begin_sum(group)
        lab.kill(node)
        lab.restart(node)
        end_sum(begun)
        sum_until(lab, group, OFFERS + 1)


def test_a_link_with_an_impairment_has_none_while_it_lasts(
    world: tuple[LiveLab, Group],
) -> None:
    lab, group = world
    sum_until(lab, group, OFFERS + 1)
    links = {"h1": {"delay_ps": 10**9}, "spine1": {"delay_ps": 10**9}}
    assert lab.ask("leaf1", do="impair", links=links, seed=1) == {"ok": True}
    assert rings(lab, "leaf1")["channels"] == OFFERS - 1
    for _ in range(3):
        end_sum(begin_sum(group))
    assert rings(lab, "leaf1")["channels"] == OFFERS - 1
    assert lab.ask("leaf1", do="impair", links={}, seed=1) == {"ok": True}
    sum_until(lab, group, OFFERS + 1)


def test_a_group_that_ends_leaves_no_channel(world: tuple[LiveLab, Group]) -> None:
    lab, group = world
    sum_until(lab, group, OFFERS + 1)
    more = Group(group.ranks[0].fabric, HOSTS)
    sum_until(lab, more, 2 * OFFERS + 1)
    more.close()
    sum_until(lab, group, OFFERS + 1)


def test_a_lab_without_rings_sums_by_sockets(site: Site) -> None:
    with a_lab(site, "sockets", "--no-rings") as (lab, group):
        end_sum(begin_sum(group))
        nothing = {"channels": 0, "blocks_in": 0, "blocks_out": 0, "broken": 0}
        assert rings(lab, "leaf1") == nothing
        assert [len(c.end.channels) for c in group.ranks] == [0] * len(HOSTS)
        assert lab.sent("leaf1", "h1", "fold") > 20
