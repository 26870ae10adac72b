"""What `fanfold push` and its lab refuse before anything is sent."""

import json
import signal
from pathlib import Path

import msgspec
import pytest

from fanfold.api import one_push
from fanfold.api.captures import check_capture
from fanfold.api.one_push import Order, ends_of, impairments_of
from fanfold.api.site import Site
from fanfold.cli.end import Told
from fanfold.cli.main import run
from fanfold.cli.push import _Signals, finish, run_shown
from fanfold.cli.reduce_bench import counts_of
from fanfold.cli.tables import summary
from fanfold.errors import ConfigError
from fanfold.live.birth import Say
from fanfold.live.lab import Lab
from fanfold.push.result import PushResult, ReceiverResult
from fanfold.topo.fabric_file import save_fabric
from fanfold.topo.lab_fabric import leaf_spine

HOSTS = ["h0", "h1", "h2"]
LINKS = {frozenset(("leaf1", "h1")), frozenset(("leaf1", "h2"))}


def test_who_sends_and_who_receives() -> None:
    assert ends_of(HOSTS, "h1", "all") == ("h1", ["h0", "h2"])
    assert ends_of(HOSTS, "h0", "h1-2") == ("h0", ["h1", "h2"])


@pytest.mark.parametrize(
    ("source", "to", "said"),
    [
        ("h0,h1", "all", "--from: got 'h0,h1', allowed: one host"),
        ("h0", "h0-2", "--to: got 'h0-2', allowed: hosts other than h0, which sends"),
    ],
)
def test_a_host_that_would_be_left_out_is_refused(source: str, to: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        ends_of(HOSTS, source, to)
    assert str(raised.value) == said


def test_a_link_s_own_mishap_comes_after_that_of_all_links() -> None:
    made = impairments_of(["1%@leaf1-h1"], ["delay=1ms"], LINKS)
    assert [one.a for one in made] == ["", "h1"]


@pytest.mark.parametrize(
    ("losses", "others", "said"),
    [
        (["1%", "2%"], [], "--loss: got '2%', allowed: one for each link, as --impair drop"),
        (["1%@leaf1-h1"], ["delay=1ms@h1-leaf1"], "--impair: got 'delay=1ms@h1-leaf1'"),
        ([], ["drop=1%,drop=2%"], "--impair: got 'drop=1%,drop=2%', allowed: each key once"),
    ],
)
def test_a_mishap_that_another_would_replace_is_refused(
    losses: list[str], others: list[str], said: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        impairments_of(losses, others, LINKS)
    assert str(raised.value).startswith(said)


def test_a_capture_that_cannot_be_written_is_refused_before_the_push(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    check_capture(tmp_path / "new.pcapng", tmp_path / "data")
    for pcap, said in (
        (tmp_path, f"--pcap: got '{tmp_path}: Is a directory'"),
        (tmp_path / "data", f"--pcap: got '{tmp_path}/data', allowed: another file than PATH"),
        (tmp_path / "no" / "x", f"--pcap: got '{tmp_path}/no/x', allowed: a file in a folder"),
    ):
        with pytest.raises(ConfigError) as raised:
            check_capture(pcap, tmp_path / "data")
        assert str(raised.value).startswith(said)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["lab", "status", "--name", "none"], 3, "lab 'none': there is none; "),
        (["lab", "down", "--name", "none"], 3, "lab 'none': there is none; "),
        (["lab", "up", "--lab", "a/b"], 2, "--name: got 'a/b', allowed: 1 to 60 letters"),
        (["lab", "up", "--name", "none", "--mtu", "575"], 2, "--mtu: got 575, allowed: 576.."),
        (["lab", "up", "--name", "none", "--mtu", "65536"], 2, "--mtu: got 65536, allowed: 57"),
        (["demo", "nowhere"], 2, "PATH: got 'nowhere', allowed: a file or a directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_nothing_starts_for_what_cannot_be(
    words: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FANFOLD_STATE_DIR", str(tmp_path))
    monkeypatch.setattr("fanfold.live.lab.Lab.up", None)
    assert run(words) == code
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"error: {said}")


@pytest.mark.parametrize("is_compiled", [True, False])
def test_a_push_that_has_to_compile_first_says_so(
    is_compiled: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    save_fabric(leaf_spine(1, 0, 2, name="cold", prefix=0), tmp_path / "cold.toml")
    (tmp_path / "data").write_text("x")

    def warm(say: Say) -> None:
        say("compiling kernels, once after a change: serve, 1 of 9")

    def push(*args: object) -> None:
        raise ConfigError("PATH", "x", "said before anything is read")

    monkeypatch.setattr(one_push, "is_compiled", lambda: is_compiled)
    monkeypatch.setattr(one_push, "warm", warm)
    monkeypatch.setattr(one_push, "Push", push)
    site = Site(Lab("cold"), tmp_path / "cold.toml")
    with pytest.raises(ConfigError):
        run_shown(site, Order(tmp_path / "data"), is_shown=False)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("compiling kernels, once") is not is_compiled


def test_sizes_are_whole_values() -> None:
    assert counts_of("0,3,16B", "", "", 0, 8) == [0, 3, 2]
    with pytest.raises(ConfigError, match="--sizes: got '12B', allowed: whole values of 8"):
        counts_of("16B,12B", "", "", 0, 8)


@pytest.mark.parametrize(
    ("states", "seconds", "said"),
    [
        (["failed"] * 8, 0.0, "x: 1 B verified at 0 of 8 receivers; no data was sent"),
        (["failed"] * 8, 2.5, "x: 1 B verified at 0 of 8 receivers"),
        (
            ["verified"] * 3 + ["failed"],
            0.0,
            "x: 1 B verified at 3 of 4 receivers, which had it all already",
        ),
        (["verified"], 0.5, "x: 1 B verified at 1 of 1 receivers in 0.50 s, 16 bit/s each"),
    ],
)
def test_the_outcome_is_said_as_it_was(states: list[str], seconds: float, said: str) -> None:
    receivers = [ReceiverResult(f"h{i}", s, "", 0.0, "", False) for i, s in enumerate(states)]
    fed = {"at_source": 0, "unfolded_equivalent": 0, "packets": 0, "bytes": 0}
    result = PushResult(
        *("x", "h0", 2, 1, 1, 3.0, seconds, 16, receivers, [], fed, fed, 0, {}, [], [], 0.1)
    )
    assert summary(result)[0] == said
    assert summary(msgspec.structs.replace(result, bytes=0))


def test_a_signal_ends_a_push_in_good_order_first_and_at_once_then() -> None:
    before = signal.getsignal(signal.SIGTERM)
    stopped = []
    with _Signals() as signals:
        with pytest.raises(KeyboardInterrupt):  # nothing was sent yet
            signal.raise_signal(signal.SIGTERM)
        signals.stop = lambda: stopped.append(1)
        signal.raise_signal(signal.SIGINT)
        assert stopped == [1]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) == before


def test_an_interrupted_push_is_code_130_and_one_value(
    capsys: pytest.CaptureFixture[str],
) -> None:
    receivers = [ReceiverResult("h1", "failed", "", 0.0, "interrupted: stopped", False)]
    fed = {"at_source": 0, "unfolded_equivalent": 0, "packets": 0, "bytes": 0}
    result = PushResult(
        *("x", "h0", 2, 1, 1, 3.0, 0.5, 16, receivers, [], fed, fed, 0, {}, [], [], 0.1)
    )
    for is_interrupted, code in ((True, 130), (False, 4)):
        with pytest.raises(Told) as end:
            finish(msgspec.structs.replace(result, is_interrupted=is_interrupted), True)
        assert end.value.code == code
        out, err = capsys.readouterr()
        assert json.loads(out)["is_interrupted"] is is_interrupted
        assert err.count("\n") == 1
