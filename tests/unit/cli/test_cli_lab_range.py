"""Which loopback addresses a lab takes: the first free range, and one lab only."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanfold.api import labs as lab
from fanfold.api.labs import pick_fabric
from fanfold.errors import EnvironmentLack
from fanfold.live.lab import Lab, _check_paths, claim_range
from fanfold.topo.lab_fabric import leaf_spine

SPARE = range(251, 254)
"""No lab takes these by itself."""
PICK = """
import sys
from fanfold.api.labs import pick_fabric
print(pick_fabric("twin", 1, 0, 1, 9000).nodes[0].address, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def claimed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Claims made here that nobody gave back; only spare ranges are tried."""
    monkeypatch.setattr(lab, "PREFIXES", SPARE)
    made: list[int] = []

    def claim(prefix: int) -> int | None:
        fd = claim_range(prefix)
        if fd is not None:
            made.append(fd)
        return fd

    monkeypatch.setattr(lab, "claim_range", claim)
    yield made
    for fd in made:
        os.close(fd)


def prefix_of(address: str) -> int:
    return int(address.split(".")[2])


def test_labs_of_other_state_folders_take_other_ranges_even_at_once(tmp_path: Path) -> None:
    twins = [
        subprocess.Popen(
            [sys.executable, "-c", PICK],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "FANFOLD_STATE_DIR": str(tmp_path / name)},
        )
        for name in ("a", "b", "c")
    ]
    try:
        taken = [twin.stdout.readline() for twin in twins if twin.stdout]
        assert len({prefix_of(address) for address in taken}) == 3
    finally:
        for twin in twins:
            twin.communicate(timeout=30)


def test_the_first_free_range_is_taken_and_free_again_when_it_is_given_back(
    claimed: list[int],
) -> None:
    assert prefix_of(pick_fabric("one", 1, 0, 1, 9000).nodes[0].address) == SPARE[0]
    assert prefix_of(pick_fabric("two", 1, 0, 1, 9000).nodes[0].address) == SPARE[1]
    os.close(claimed.pop(0))
    assert prefix_of(pick_fabric("three", 1, 0, 1, 9000).nodes[0].address) == SPARE[0]


def test_a_range_with_one_address_in_use_is_left_and_not_kept(claimed: list[int]) -> None:
    last = leaf_spine(2, 2, 4, prefix=SPARE[0]).nodes[-1]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((last.address, 8138))
        fabric = pick_fabric("beside", 2, 2, 4, 9000)
        assert prefix_of(fabric.nodes[0].address) == SPARE[1]
    assert len(claimed) == 2
    claimed.pop(0)  # given back
    again = claim_range(SPARE[0])
    assert again is not None
    os.close(again)


def test_no_range_at_all_is_said_with_whose_they_are(claimed: list[int]) -> None:
    kept = [claim_range(SPARE[0]), claim_range(SPARE[1])]
    last = leaf_spine(1, 0, 1, prefix=SPARE[2]).nodes[0]
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind((last.address, 8138))
            with pytest.raises(EnvironmentLack, match="of 3, 2 are other labs', the rest has"):
                pick_fabric("none", 1, 0, 1, 9000)
            claimed.clear()  # the one it had, it gave back
    finally:
        for fd in kept:
            assert fd is not None
            os.close(fd)


def test_a_state_folder_whose_sockets_nobody_could_open_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control_sockets = [Path("/a/h1.sock"), Path("/" + "x" * 106)]
    _check_paths(control_sockets)
    with pytest.raises(
        EnvironmentLack, match=f"^{control_sockets[1]}y: a socket's path has at most 107"
    ):
        _check_paths([control_sockets[0], Path(f"{control_sockets[1]}y")])
    monkeypatch.setenv("FANFOLD_STATE_DIR", str(tmp_path / ("x" * 107)))
    with pytest.raises(EnvironmentLack, match="; set FANFOLD_STATE_DIR to a folder with a"):
        Lab("deep").up(leaf_spine(1, 0, 2, name="deep", prefix=0), lambda *_: None)
