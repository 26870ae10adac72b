import json
import signal

import pytest

from fanfold.cli import peers as verb
from fanfold.cli.main import run
from fanfold.peers.race import Race, Row
from fanfold.peers.transfer import Outcome

FIRST = Outcome(
    *("fanfold", 0, 2.5, 2.4, 0, False, ["h1", "h2"], [], 1016, 3000, 0.5, 0.1, 0, "", [], ""),
)
LATE = Outcome(
    *("tcp", 10**7, 42.0, 0.0, None, True, ["h1"], ["h2"], 8000, 9000, 0.1, 0.1, 9),
    *("", [], "x"),
)
WELL = Row("fanfold", 0, 2, 2, 2.5, 2.4, 160_000_000, 0.8, 1.016, 3.0, 0.5, 0, "", [FIRST])
BROKEN = Row("tcp", 10**7, 2, 1, 42.0, 0.0, 0, 0.0, 8.0, 9.0, 0.1, 0, "", [LATE])
ABSENT = Row("uftp", 0, 2, note="not here: apt install uftp")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(b"model")
    return str(path)


@pytest.fixture
def raced(monkeypatch):
    """What the verb asks for, and the rows that it gets."""
    rows = [WELL]
    asked = []

    def race(what, say, tell):
        asked.append(what)
        tell("a line")
        commands = {"fanfold": {"sender": ["fanfold", "push"], "receiver": ["fanfold", "lab"]}}
        return Race(1000, 2, 2 * 10**8, 9000, 2.0, 34.0, "", 0.5, list(rows), commands)

    monkeypatch.setattr(verb, "race", race)
    return asked, rows


def test_all_peers_at_three_losses_unless_asked_otherwise(file, raced, capsys):
    asked, _ = raced
    assert run(["peers", file]) == 0
    (one,) = asked
    assert [peer.name for peer in one.peers] == [
        *("fanfold", "uftp", "udpcast", "norm", "openmpi", "aria2", "tcp"),
    ]
    assert (one.n_hosts, one.rate_bps, one.mtu, one.rounds) == (8, 200_000_000, 9000, 3)
    assert list(one.losses) == [0, 10**6, 10**7]
    assert (one.kills, one.installs, one.scratch) == (False, False, None)
    text = capsys.readouterr().out
    assert "160 Mbit/s" in text
    assert "1.016" in text
    assert "2 of 2" in text
    assert "fanfold push" in text


def test_chosen_ones_are_in_the_order_of_the_catalog(file, raced):
    asked, _ = raced
    words = ["--with", "tcp,uftp", "--loss", "1%", "--mtu", "1500", "--rate", "50Mbps"]
    assert run(["peers", file, *words, "--hosts", "3", "--kill", "--install", "--json"]) == 0
    (one,) = asked
    assert [peer.name for peer in one.peers] == ["uftp", "tcp"]
    assert (one.n_hosts, one.rate_bps, one.mtu, one.losses) == (3, 50_000_000, 1500, [10**7])
    assert one.kills
    assert one.installs


def test_a_row_that_is_not_right_ends_with_4_and_is_named(file, raced, capsys):
    _, rows = raced
    rows += [BROKEN, ABSENT]
    assert run(["peers", file]) == 4
    said = capsys.readouterr()
    assert "not right: 1 of 2, 1 wrong" in said.out
    assert "ended by the bound" in said.out
    assert "not here: apt install uftp" in said.out
    last = said.err.strip().splitlines()[-1]
    assert last == (
        "error: not right: tcp at 1 %: 1 of 2 have the file, ended by the bound in 1 of 1 "
        "rounds; uftp at 0 %: not here: apt install uftp"
    )
    assert run(["peers", file, "--json"]) == 4
    told = json.loads(capsys.readouterr().out)
    assert [row["n_right"] for row in told["rows"]] == [2, 1, 0]
    assert told["rows"][1]["rounds"][0]["wrong"] == ["h2"]


def test_of_a_killed_receiver_is_said_who_named_it(monkeypatch):
    race = Race(1000, 3, 2 * 10**8, 9000, 2.0, 34.0, "h2", 0.5)
    named = Row("fanfold", 0, 2, 2, 2.5, 2.4, 160_000_000, 0.8, 1.0, 3.0, 0.5, 1, "", [FIRST])
    assert verb.cells_of(named, race)[-2:] == ["2.40", "1 of 1"]
    assert verb.cells_of(BROKEN, race)[-2:] == ["0.00", "0 of 1"]
    assert verb.code_of(None, is_late=False) == "none"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--with", "uftp,scp"], "--with: got 'scp', allowed: all, fanfold, uftp, udpcast"),
        (["--loss", "0,50%"], "--loss: got '50%', allowed: below 50%"),
        (["--loss", "much"], "--loss: got 'much'"),
        (["--rate", "1Tbps"], "--rate: got '1Tbps', allowed: 1 Mbit/s to 100 Gbit/s"),
        (["--hosts", "1"], "--hosts: got 1, allowed: 2..64"),
        (["--mtu", "500"], "--mtu: got 500, allowed: 1000..9000"),
        (["--rounds", "0"], "--rounds: got 0, allowed: 1..100"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(words, said, file, raced, capsys):
    assert run(["peers", file, *words]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_a_file_that_is_none_is_refused(tmp_path, raced, capsys):
    (tmp_path / "empty").touch()
    for path in (tmp_path / "empty", tmp_path, tmp_path / "none"):
        assert run(["peers", str(path)]) == 2
        assert "allowed: a file that holds something" in capsys.readouterr().err


def test_without_root_it_ends_with_3(file, monkeypatch, capsys):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert run(["peers", file]) == 3
    told = capsys.readouterr().err
    assert "peers: needs root, who may make network namespaces" in told
    assert told.count("\n") == 1


def test_a_signal_is_an_interrupt_and_the_next_one_waits(file, monkeypatch, capsys):
    def race(what, say, tell):
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError("goes on")

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(verb, "race", race)
    assert run(["peers", file]) == 130
    assert signal.getsignal(signal.SIGTERM) is before
