"""Arrays through live BFRs that lose packets, run out of slots, and ranks that stop or die."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_group import BLOCK, Group, Losses, values
from live_site import LiveLab, Site

from fanfold.group.communicator import Op
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric

pytestmark = pytest.mark.live

N = 8
HOSTS = [f"h{i + 1}" for i in range(N)]
BFRS = ("leaf1", "leaf2", "spine1", "spine2")
ONE_PERCENT = 10_000_000
RANKS = Path(__file__).parent / "fold_ranks.py"
DEADLINE_S = 3
HEAR_S = 60
"""Ranks that start on a busy machine import and load kernels; longer is silence."""
SLACK_S = 2.0
MANY = 32


@pytest.fixture(scope="module")
def lab(site: Site) -> Iterator[LiveLab]:
    made = LiveLab(site, "faults", "--leaves", 2, "--spines", 2, "--hosts", N)
    yield made
    made.down()


@pytest.fixture(scope="module")
def fabric(lab: LiveLab) -> Fabric:
    return load_fabric(lab.folder / "fabric.toml")


@pytest.fixture(scope="module")
def small(site: Site) -> Iterator[LiveLab]:
    """BFRs with room for little: the groups of one leaf fill it."""
    limits = f"array_groups={MANY},array_slots={40 * MANY},group_slots=64"
    sizes = ("--leaves", 2, "--spines", 1, "--hosts", 4)
    made = LiveLab(site, "small", *sizes, "--limits", limits)
    yield made
    made.down()


@pytest.mark.parametrize("root_level", [0, 1], ids=["root_on_a_leaf", "root_on_a_spine"])
@pytest.mark.parametrize("kind", ["float32", "int64"])
def test_loss_on_every_link_changes_no_bit_and_little_is_sent_again(
    lab: LiveLab, fabric: Fabric, kind: str, root_level: int
) -> None:
    every = [values(kind, (2 << 20) // np.dtype(kind).itemsize, r) for r in range(N)]
    losses, results = Losses(lab, fabric), set()
    for chance in (0, ONE_PERCENT):
        group = Group(fabric, HOSTS, root_level=root_level)
        losses.begin(group, 5, **({"drop_ppb": chance} if chance else {}))
        mine = [a.copy() for a in every]
        group.each(lambda c, mine=mine: c.all_reduce(mine[c.rank]))
        results |= {a.tobytes() for a in mine}
        found = losses.counts(group, "overlap", "unlike")
        assert found["overlap"] == found["unlike"] == 0
        if chance:
            assert found["lost"] > 50
            assert 0 < found["again"] <= 3 * found["lost"], found
        losses.begin(group, 5)
        group.close()
    assert len(results) == 1
    if kind == "int64":
        assert results == {np.sum(every, axis=0).tobytes()}


def test_runs_that_lose_repeat_and_reorder_end_with_the_same_bits(
    lab: LiveLab, fabric: Fabric
) -> None:
    every = [values("float32", 12 * BLOCK + 1, r) for r in range(N)]
    chances = dict.fromkeys(("drop_ppb", "duplicate_ppb", "reorder_ppb"), 2 * ONE_PERCENT)
    losses, results = Losses(lab, fabric), set()
    group = Group(fabric, HOSTS)
    for seed in range(10):
        losses.begin(group, seed, **(chances if seed else {}))
        mine = [a.copy() for a in every]
        group.each(lambda c, mine=mine: c.all_reduce(mine[c.rank]))
        results |= {a.tobytes() for a in mine}
    assert losses.counts(group)["lost"] > 0
    losses.begin(group, 0)
    group.close()
    assert len(results) == 1


class Ranks:
    """Processes of ``fold_ranks.py`` and what they said."""

    def __init__(self, site: Site, lab: LiveLab, group: int, victim: int) -> None:
        words = [lab.folder / "fabric.toml", ",".join(HOSTS), group, victim, DEADLINE_S]
        self.process = subprocess.Popen(
            [sys.executable, str(RANKS), *map(str, words)],
            stdout=subprocess.PIPE,
            env=site.env,
        )
        self._left = b""
        self.pids: dict[int, int] = {}

    def hear(self, word: str, n: int) -> dict[int, Any]:
        """Values of a word, by rank, until ``n`` ranks have said it.

        They say it in time, or this fails.
        """
        found: dict[int, Any] = {}
        until = time.monotonic() + HEAR_S
        while len(found) < n:
            line = self._line(until)
            assert line, f"{word!r} said by {sorted(found)} only, of {n}, in {HEAR_S} s"
            told = json.loads(line)
            self.pids |= {told["rank"]: told["pid"]} if "pid" in told else {}
            found |= {told["rank"]: told[word]} if word in told else {}
        return found

    def _line(self, until: float) -> bytes:
        """The next line; nothing where the ranks ended or time is over."""
        assert self.process.stdout is not None
        while b"\n" not in self._left:
            left_s = max(until - time.monotonic(), 0.0)
            ready, _, _ = select.select([self.process.stdout], [], [], left_s)
            part = os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""
            if not part:
                return b""
            self._left += part
        line, _, self._left = self._left.partition(b"\n")
        return line

    def end(self) -> None:
        for pid in self.pids.values():
            if Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.communicate(timeout=10)


def assert_named(errors: dict[int, Any], victim: int) -> None:
    """All others raised in time, and named one rank; a group without it works."""
    assert sorted(errors) == [r for r in range(N) if r != victim]
    for told in errors.values():
        assert told["ranks"] == [victim], told
        assert told["late"]
        assert (
            f"all_reduce: deadline, not heard: rank {victim} ({HOSTS[victim]})" in told["text"]
        )
        assert told["s"] < DEADLINE_S + SLACK_S
        assert told["rest"] == N * (N - 1) // 2


def test_a_rank_killed_in_the_midst_is_named_on_every_other_one(
    site: Site, lab: LiveLab
) -> None:
    victim, pids = 5, [lab.pid(name) for name in BFRS]
    ranks = Ranks(site, lab, 0x5EEE0000, victim)
    try:
        assert ranks.hear("sum", N) == dict.fromkeys(range(N), float(sum(range(N))))
        os.kill(ranks.pids[victim], signal.SIGKILL)
        assert_named(ranks.hear("error", N - 1), victim)
    finally:
        ranks.end()
    assert pids == [lab.pid(name) for name in BFRS]


def test_a_sleeping_rank_is_named_at_the_deadline_and_lives_on(
    site: Site, lab: LiveLab
) -> None:
    victim = 2
    ranks = Ranks(site, lab, 0x5EEE1000, victim)
    try:
        ranks.hear("sum", N)
        os.kill(ranks.pids[victim], signal.SIGSTOP)
        assert_named(ranks.hear("error", N - 1), victim)
        time.sleep(1.5)
        os.kill(ranks.pids[victim], signal.SIGCONT)
        own = ranks.hear("error", 1)[victim]
        assert own["late"]
        # It slept in an operation, or between two and nobody answers in the next one.
        slept_in_it = own["s"] > DEADLINE_S + 1
        assert own["ranks"] == ([victim] if slept_in_it else [])
        assert ("itself was stopped" if slept_in_it else "does not answer") in own["text"]
        assert ranks.hear("all", N) == dict.fromkeys(range(N), N * (N + 1) // 2)
        assert ranks.process.wait(10) == 0
    finally:
        ranks.end()


def test_a_group_more_than_a_bfr_has_room_for_goes_further_up_or_to_a_host_and_is_counted(
    small: LiveLab,
) -> None:
    fabric = load_fabric(small.folder / "fabric.toml")
    groups = [Group(fabric, ["h1", "h2"], window=4) for _ in range(MANY)]
    for group in groups:
        group.each(lambda c: c.barrier())
    arrays = small.status("leaf1")["arrays"]
    assert (arrays["armed"], arrays.get("full", 0), arrays.get("passed", 0)) == (MANY, 0, 0)
    for other, root in (("h3", "spine1"), ("h2", "h1")):
        before = small.status(root)["arrays"].get("complete", 0)
        group = Group(fabric, ["h1", other], window=4)
        mine = [values("int64", 40 * BLOCK, r) for r in range(2)]
        want = mine[0] + mine[1]
        if root == "h1":
            with pytest.warns(RuntimeWarning, match=r"rank 0 \(h1\) sums"):
                group.each(lambda c, mine=mine: c.all_reduce(mine[c.rank]))
        else:
            group.each(lambda c, mine=mine: c.all_reduce(mine[c.rank]))
        assert all(np.array_equal(m, want) for m in mine)
        assert small.status(root)["arrays"]["complete"] - before >= 80
        assert group.ranks[0].counters()["host_root"] == int(root == "h1")
        group.close()
    arrays = small.status("leaf1")["arrays"]
    assert arrays["full"] > 0
    assert arrays["passed"] >= 80 + 80  # what h1 sends to its own host passes no BFR
    groups.pop().close()
    after = Group(fabric, ["h1", "h2"], window=4)  # a place is free again
    after.each(lambda c: c.barrier())
    assert after.ranks[0].counters()["shrunk"] == 0
    for group in [*groups, after]:
        group.close()


def test_a_job_gets_its_quota_of_slots_and_others_theirs(small: LiveLab) -> None:
    fabric = load_fabric(small.folder / "fabric.toml")
    hosts = ["h1", "h2", "h3", "h4"]
    jobs = [Group(fabric, hosts, window=2000) for _ in range(3)]
    mine = [[values("int64", 100 * BLOCK, 4 * j + r) for r in range(4)] for j in range(3)]
    wants = [np.sum(each, axis=0) for each in mine]
    works = [c.all_reduce(mine[j][c.rank]) for j, group in enumerate(jobs) for c in group.ranks]
    for work in works:
        work.wait()
    assert all(np.array_equal(m, wants[j]) for j in range(3) for m in mine[j])
    for group in jobs:
        assert {c.counters()["window"] for c in group.ranks} == {32}
        assert {c.counters()["shrunk"] for c in group.ranks} == {1}
    for group in jobs:
        group.close()


def test_bfrs_without_any_slots_pass_all_to_a_host_whatever_is_lost(site: Site) -> None:
    sizes = ("--leaves", 2, "--spines", 1, "--hosts", 4)
    lab = LiveLab(site, "none", *sizes, "--limits", "array_slots=0")
    try:
        fabric = load_fabric(lab.folder / "fabric.toml")
        group, losses = Group(fabric, ["h1", "h2", "h3", "h4"]), Losses(lab, fabric)
        every = [values("float32", 100 * BLOCK, r) for r in range(4)]
        mine = [a.copy() for a in every]
        with pytest.warns(RuntimeWarning, match=r"no BFR has slots for group"):
            group.each(lambda c: c.all_reduce(mine[c.rank]))
        arrays = lab.status("leaf1")["arrays"]
        assert arrays["full"] > 0
        assert arrays.get("absorbed", 0) == 0 < arrays["passed"]
        losses.begin(group, 3, drop_ppb=ONE_PERCENT)
        again = [a.copy() for a in every]
        group.each(lambda c: c.all_reduce(again[c.rank]))
        assert {a.tobytes() for a in again} == {mine[0].tobytes()}
        assert losses.counts(group)["lost"] > 0
        part = [np.zeros(25 * BLOCK, np.float32) for _ in range(4)]
        group.each(lambda c: c.reduce_scatter(part[c.rank], every[c.rank], Op.MAX))
        most = np.max(every, axis=0).reshape(4, -1)
        assert all(np.array_equal(p, q) for p, q in zip(part, most, strict=True))
        losses.begin(group, 3)
        group.close()
    finally:
        lab.down()
