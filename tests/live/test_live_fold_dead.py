"""BFRs that die, stop or lose one way below a group: every rank says what is silent, and where.

Ranks 0 and 1 are on leaf1, the root; 2 and 3 on leaf2. A group's number decides by which spine.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from live_group import Group
from live_site import LiveLab, Site

from fanfold.group.communicator import GroupError
from fanfold.group.fabric import FabricCommunicator
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric
from fanfold.units import PS_PER_SECOND

pytestmark = pytest.mark.live

HOSTS = ["h1", "h2", "h3", "h4"]
N = 1 << 17
DEADLINE_S = 2.5
SLACK_S = 2.0
ALL = 10**9
Told = tuple[GroupError, float]


@pytest.fixture(scope="module")
def lab(site: Site) -> Iterator[LiveLab]:
    made = LiveLab(site, "dead", "--leaves", 2, "--spines", 2, "--hosts", 4)
    yield made
    made.down()


@pytest.fixture(scope="module")
def fabric(lab: LiveLab) -> Fabric:
    return load_fabric(lab.folder / "fabric.toml")


def groups_of(fabric: Fabric) -> dict[str, Group]:
    """A group over each spine."""
    made = [Group(fabric, HOSTS, timeout_ps=int(DEADLINE_S * PS_PER_SECOND)) for _ in "12"]
    return {f"spine{2 - group.ranks[0].group % 2}": group for group in made}


def sum_all(groups: dict[str, Group]) -> None:
    for group in groups.values():
        mine = [np.full(N, r + 1, np.int64) for r in range(4)]
        group.each(lambda c, mine=mine: c.all_reduce(mine[c.rank]))
        assert {int(a.max()) for a in mine} == {10}


def close_all(*groups: dict[str, Group]) -> None:
    for group in (g for each in groups for g in each.values()):
        group.close()


def repeat(comm: FabricCommunicator) -> Told:
    """Sum until it fails; the error, and seconds that the last sum took."""
    while True:
        began = time.monotonic()
        try:
            comm.all_reduce(np.full(N, 1, np.float32)).wait()
        except GroupError as error:
            return error, time.monotonic() - began


def failures(groups: list[dict[str, Group]], harm: Callable[[], None]) -> list[Told]:
    """What each rank of each group was told, in their order; all sum when harm is done."""
    ranks = [rank for each in groups for group in each.values() for rank in group.ranks]
    with ThreadPoolExecutor(len(ranks)) as pool:
        works = [pool.submit(repeat, rank) for rank in ranks]
        time.sleep(0.2)
        harm()
        told = [work.result() for work in works]
    assert max(took_s for _, took_s in told) < DEADLINE_S + SLACK_S
    for error, _ in told:
        assert error.is_deadline
        assert str(error).startswith("all_reduce: deadline, ")
    return told


def assert_root_side(told: list[Told], spine: str) -> None:
    """Ranks at the root know who is missing, and what those alone are behind."""
    chain = (f"leaf1-{spine}", spine, f"leaf2-{spine}", "leaf2")
    for error, _ in told:
        assert error.ranks == (2, 3), error
        assert error.suspects == chain, error
        assert "not heard: rank 2 (h3), 3 (h4); all of them are behind" in str(error)


def test_a_spine_that_is_gone_or_loses_one_way_is_named_by_every_rank(
    lab: LiveLab, fabric: Fabric
) -> None:
    running = groups_of(fabric)
    sum_all(running)

    def harm() -> None:
        lab.kill("spine1")
        links = {"spine2": {"drop_ppb": ALL}}
        assert lab.ask("leaf2", do="impair", links=links, seed=1) == {"ok": True}

    told = failures([running], harm)
    fresh = groups_of(fabric)
    told += failures([fresh], lambda: None)
    spines = [*running, *fresh]
    assert sorted(spines) == ["spine1", "spine1", "spine2", "spine2"]
    for i, spine in enumerate(spines):
        mine = told[4 * i : 4 * i + 4]
        assert_root_side(mine[:2], spine)
        for error, _ in mine[2:]:
            if i < 2:  # armed before
                assert error.suspects[:2] == (f"leaf2-{spine}", spine), error
                assert error.branch == spine
                assert "leaf2 answers" in str(error)
            else:
                between = ("h1-leaf1", "leaf1", f"leaf1-{spine}", spine, f"leaf2-{spine}")
                assert (error.ranks, error.suspects) == ((0,), between), error
                assert str(error).endswith("; leaf2 answers")
    lab.restart("spine1")
    assert lab.ask("leaf2", do="impair", links={}, seed=1) == {"ok": True}
    after = groups_of(fabric)
    sum_all(after)
    close_all(running, fresh, after)


def test_a_leaf_that_is_stopped_is_named_and_works_when_it_goes_on(
    lab: LiveLab, fabric: Fabric
) -> None:
    running, pid = groups_of(fabric), lab.pid("leaf2")
    sum_all(running)
    try:
        told = failures([running], lambda: os.kill(pid, signal.SIGSTOP))
    finally:
        os.kill(pid, signal.SIGCONT)
    for i, spine in enumerate(running):
        assert_root_side(told[4 * i : 4 * i + 2], spine)
        for (error, _), host in zip(told[4 * i + 2 : 4 * i + 4], HOSTS[2:], strict=True):
            assert error.suspects == ("leaf2", f"{host}-leaf2"), error
            assert (error.ranks, error.branch) == ((), "leaf2")
    after = groups_of(fabric)
    sum_all(after)
    close_all(running, after)
