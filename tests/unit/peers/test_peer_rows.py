"""Rows of a comparison: what counts as right, and what a transfer leaves at its receivers."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from blake3 import blake3

from fanfold.errors import EnvironmentLack
from fanfold.peers import race as races
from fanfold.peers.catalog import PEERS
from fanfold.peers.race import Asked, Race, Row, order, row_of, told
from fanfold.peers.transfer import NAME, Outcome, Peer, Transfer, empty, judge
from fanfold.units import Ppb

DATA = bytes(range(256)) * 40
DIGEST = blake3(DATA).hexdigest()
HOSTS = ["h1", "h2", "h3"]
RACE = Race(len(DATA), 3, 200_000_000, 9000, 1.0, 22.0, "", 0.1)
WELL = Outcome(
    *("tcp", 0, 2.0, 1.9, 0, False, HOSTS, [], 3 * len(DATA), 6 * len(DATA), 0.5, 0.1, 0),
    *("", [], "done"),
)


def outcome(**changes: object) -> Outcome:
    return Outcome(**{f: changes.get(f, getattr(WELL, f)) for f in Outcome.__struct_fields__})


@pytest.fixture
def transfer(tmp_path: Path) -> Transfer:
    """One whose receivers all have the file."""
    ground = SimpleNamespace(
        lab=SimpleNamespace(hosts=lambda host: tmp_path / host),
        receivers=HOSTS,
        limit_s=lambda n_bytes: n_bytes / 1000,
    )
    file = tmp_path / NAME
    file.write_bytes(DATA)
    for host in HOSTS:
        empty(tmp_path / host)
        (tmp_path / host / NAME).write_bytes(DATA)
    return Transfer(ground, file, tmp_path, Ppb(0))  # type: ignore[arg-type]


def test_one_wrong_byte_at_one_receiver_turns_the_row(transfer: Transfer) -> None:
    right, wrong, had_ns = judge(Peer(), transfer, DIGEST)
    assert (right, wrong) == (HOSTS, [])
    assert had_ns == max((transfer.into(h) / NAME).stat().st_ctime_ns for h in HOSTS)
    assert row_of("tcp", Ppb(0), [outcome(right=right, wrong=wrong)], RACE).is_right

    copy = transfer.into("h2") / NAME
    copy.write_bytes(DATA[:77] + b"?" + DATA[78:])
    right, wrong, _ = judge(Peer(), transfer, DIGEST)
    assert (right, wrong) == (["h1", "h3"], ["h2"])
    row = row_of("tcp", Ppb(0), [WELL, outcome(right=right, wrong=wrong)], RACE)
    assert (row.is_right, row.n_right) == (False, 2)


def test_a_copy_that_is_missing_or_of_the_dead_is_not_right(transfer: Transfer) -> None:
    (transfer.into("h1") / NAME).unlink()
    transfer.victim = "h3"
    right, wrong, _ = judge(Peer(), transfer, DIGEST)
    assert (right, wrong) == (["h2"], [])
    dead = Race(len(DATA), 3, 200_000_000, 9000, 1.0, 22.0, "h3", 0.1)
    both = outcome(right=["h1", "h2"], dead="h3", named=["h3"])
    assert row_of("tcp", Ppb(0), [both], dead).is_right
    assert not row_of("tcp", Ppb(0), [outcome(right=right, dead="h3")], dead).is_right
    more = outcome(right=["h1", "h2"], dead="h3", named=["h2", "h3"])
    assert row_of("tcp", Ppb(0), [both, more], dead).named == 1
    early = row_of("tcp", Ppb(0), [both, outcome(right=["h1", "h2"])], dead)
    assert (early.is_right, early.note) == (
        False,
        "over before h3 was to die, in 1 of 2 rounds",
    )


def test_medians_are_of_all_rounds() -> None:
    took = [outcome(seconds=s, sender_bytes=n * len(DATA)) for s, n in ((5, 1), (2, 9), (4, 3))]
    row = row_of("tcp", Ppb(0), took, RACE)
    assert (row.seconds, row.limit_share, row.sender_copies, row.all_copies) == (4, 0.25, 3, 6)
    assert row.goodput_bps == len(DATA) * 8 // 4
    assert told(took[0], 3) == "tcp, 0 % lost: 5.00 s, 3 of 3 have the file"
    stood = outcome(seconds=9, stood_s=7.0)
    assert told(stood, 3).endswith(", the machine stood still for 7.0 s of it")
    late = outcome(is_late=True, code=None, right=["h1"], wrong=["h2"], loss_ppb=10**7)
    assert told(late, 3) == (
        "tcp, 1 % lost: 2.00 s, 1 of 3 have the file, 1 a broken one, ended by the bound"
    )


@pytest.mark.parametrize(
    ("took", "note"),
    [
        ([], "not here: apt install uftp"),
        ([outcome(is_late=True)], ""),
        ([WELL, outcome(right=[])], ""),
        ([WELL], "did not start: waited"),
    ],
)
def test_what_did_not_run_or_hung_is_not_right(took: list[Outcome], note: str) -> None:
    assert not row_of("uftp", Ppb(0), took, RACE, note).is_right
    assert Row("uftp", Ppb(0), 3).seconds == 0


def test_each_second_round_goes_the_other_way_round() -> None:
    losses = [Ppb(0), Ppb(10**7)]
    names = [(peer.name, int(ppb)) for peer, ppb in order(PEERS[:3], losses, 2)]
    first = ["fanfold", "uftp", "udpcast"]
    there = [(name, ppb) for ppb in (0, 10**7) for name in first]
    assert names[:6] == there
    assert names[6:] == [(name, ppb) for ppb in (0, 10**7) for name in reversed(first)]


def test_who_is_not_root_or_lacks_tools_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(races.shutil, "which", lambda name: None if name == "tc" else name)
    with pytest.raises(EnvironmentLack, match="needs ip and tc"):
        races.require_tools()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EnvironmentLack, match="needs root"):
        races.require_tools()


def test_what_is_not_here_has_a_row_that_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And a folder without room is refused before anything is made."""
    monkeypatch.setattr(races, "require_tools", lambda: None)
    monkeypatch.setattr(races, "lacking", list)
    file = tmp_path / "file"
    file.write_bytes(DATA)
    begun = []

    class NoGround(races.Ground):
        def up(self, say: object = None) -> object:
            begun.append(self.has_nodes)
            return (tmp_path / "some").open("w")

    monkeypatch.setattr(races, "Ground", NoGround)
    asked = Asked(file, 3, 10**8, 1500, [Ppb(0)], 1, PEERS[1:3], False, False, tmp_path)
    found = races.race(asked, lambda text: None, lambda text: None)
    assert [(row.peer, row.note) for row in found.rows] == [
        ("uftp", "not here: apt install uftp"),
        ("udpcast", "not here: apt install udpcast"),
    ]
    assert begun == [False]
    assert found.limit_s == round(len(DATA) * 1514 * 8 / 1472 / 10**8, 3)
    assert list(tmp_path.glob("fanfold-peers-*")) == []
    monkeypatch.setattr(races, "room_of", lambda folder: 1000)
    with pytest.raises(EnvironmentLack, match="name another by --scratch"):
        races.race(asked, lambda text: None, lambda text: None)
