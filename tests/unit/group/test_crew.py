"""Ranks of a command as processes: who failed is named, and nobody is left."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fanfold.cli.reduce_bench import room_note
from fanfold.errors import CheckFailed, ConfigError, EnvironmentLack, FanfoldError
from fanfold.group.bench import Line, check_memory, memory_of
from fanfold.group.crew import Crew
from fanfold.group.expectation import Case
from fanfold.live import memory
from fanfold.live.syscalls import end_with_parent

NAMES = ["h1", "h2", "h3"]
LONG_S = 20

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def never() -> None:
    """Nothing to watch."""


def run(task: Callable[[int], object], watch: Callable[[], None] = never) -> list[object]:
    return Crew("crew", NAMES).run(task, watch)


def children() -> list[str]:
    pid = os.getpid()
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_answers_stand_by_rank_however_long_they_are() -> None:
    before = children()
    assert run(lambda rank: ["x" * 200_000 * rank]) == [["x" * 200_000 * r] for r in range(3)]
    assert children() == before


def test_a_rank_that_is_killed_is_named_at_once_and_the_others_are_ended() -> None:
    def task(rank: int) -> None:
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(LONG_S)

    before, began = children(), time.monotonic()
    with pytest.raises(CheckFailed, match=r"^crew: rank 1 \(h2\) was killed by signal 9$"):
        run(task)
    assert time.monotonic() - began < LONG_S / 2
    assert children() == before


def test_the_first_rank_that_failed_says_why_and_the_rest_is_not_waited_for() -> None:
    def task(rank: int) -> None:
        if rank == 0:
            time.sleep(LONG_S)
        raise EnvironmentLack("no port") if rank == 1 else ConfigError("a", 1, "2")

    began = time.monotonic()
    with pytest.raises(EnvironmentLack, match=r"^crew: rank 1: no port$"):
        run(task)
    assert time.monotonic() - began < LONG_S / 2


def test_what_nobody_raises_on_purpose_is_unexpected() -> None:
    with pytest.raises(FanfoldError, match=r"^crew: rank 0: ZeroDivisionError: ") as caught:
        run(lambda rank: 1 // 0)
    assert type(caught.value) is FanfoldError


def test_who_watches_ends_all() -> None:
    def gone() -> None:
        raise EnvironmentLack("the lab went down")

    before = children()
    with pytest.raises(EnvironmentLack, match="went down"):
        run(lambda _: time.sleep(LONG_S), gone)
    assert children() == before


def test_who_is_orphaned_before_it_could_ask_for_it_ends_as_well() -> None:
    read, write = os.pipe()
    middle = os.fork()
    if middle == 0:
        parent = os.getpid()
        if os.fork() == 0:
            while os.getppid() == parent:
                time.sleep(0.01)
            end_with_parent(parent)
            os.write(write, b"alive")
        os._exit(0)
    os.close(write)
    os.waitpid(middle, 0)
    assert os.read(read, 8) == b""
    os.close(read)


@pytest.mark.parametrize(
    ("collective", "kind", "need"),
    [
        ("all_reduce", "float32", 4 * 3 * 4096 + 4 * 4096),  # rank 0 draws the values of all
        ("all_reduce", "int32", 4 * 3 * 4096 + 2 * 4 * 4096),  # and puts them side by side
        ("all_gather", "float32", 4 * 6 * 4096 + 2 * 4 * 4096),
        ("reduce_scatter", "bfloat16", 4 * 3 * 2048 + 4 * 4 * 2048),  # every rank does
    ],
)
def test_a_case_that_does_not_fit_is_refused_before_it_begins(
    collective: str, kind: str, need: int
) -> None:
    case = Case(collective, kind, "sum", 1024)
    assert memory_of(case, 4) == need
    check_memory(case, 4, need)
    check_memory(case, 4, None)
    with pytest.raises(EnvironmentLack, match=f"{collective} of 1024 {kind} on 4 ranks needs"):
        check_memory(case, 4, need - 1)


def test_free_memory_is_the_kernels_or_the_containers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, limit = tmp_path / "meminfo", tmp_path / "max"
    monkeypatch.setattr(memory, "MEMINFO", said)
    monkeypatch.setattr(memory, "LIMITS", (tmp_path / "none", limit))
    assert memory.free_bytes() is None
    said.write_text("MemTotal:  9 kB\nMemAvailable:   5 kB\n")
    assert memory.free_bytes() == 5 * 1024
    limit.write_text("max\n")
    assert memory.free_bytes() == 5 * 1024
    limit.write_text("4096\n")
    assert memory.free_bytes() == 4096


def test_too_few_slots_are_told_in_words() -> None:
    line = Line(Case("all_reduce", "float32", "sum", 1), 4, 1, 0, True, 1, 0, 512, 0, False)
    assert room_note([line], NAMES) == ""
    less = line._replace(n_slots=64, n_refused=3)
    assert room_note([line, less], NAMES).startswith(
        "BFRs had too few slots, 3 times: 64 in place of 512, or a root further up; "
    )
    host = line._replace(at_host=True, n_refused=28)
    assert "no BFR had slots for this group: host h1 summed" in room_note([host, less], NAMES)
