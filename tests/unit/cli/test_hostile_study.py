"""The study's verbs against odd values: one line, the right code, and never a wrong table."""

import errno
import json
from pathlib import Path

import numpy as np
import pytest

from fanfold.cli import main
from fanfold.cli.main import run
from fanfold.errors import ConfigError
from fanfold.results.store import Store
from fanfold.run import build_stage
from fanfold.scenario.horizon import MAX_PS, check_horizon
from fanfold.scenario.scenario import Scenario, Workload
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import build_program

STAR = ("--topology", "star:hosts=4")
SLOWER = ("--topology", "star:hosts=4,rate=100Gbps")
SMALL = ("--workload", "broadcast:1kB", "--schemes", "unicast")
GOAL = "num_ranks 2\nrank 0 {\na: send 9b to 1 tag 1\n}\nrank 1 {\na: recv 9b from 0 tag 1\n}\n"


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        (["--topology", "star:hosts=1", *SMALL], "--topology: got '1 host', allowed: two"),
        (["--topology", "star:hosts=4,rate=9Tbps", *SMALL], "--topology: got '9 Tbit/s'"),
        (["--topology", "star:hosts=4,delay=2000000s", *SMALL], "allowed: links of up to"),
        (["--topology", "star:hosts=4,rate=9999bps", *SMALL], "links of at least 10 kbit/s"),
        (["--topology", "star:hosts=4,rate=10kbps", *SMALL[2:], "--workload", "broadcast:20GB"],
         "--workload: got 'what may take 564 days', allowed: 53 days"),
        ([*SLOWER, *SMALL[2:], "--workload", "all_to_all:32PiB"], "got 'what may take"),
    ],
)  # fmt: skip
def test_times_that_no_number_holds_are_refused(flags, what, tmp_path, capsys):
    assert run(["compare", *flags, "--out", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert what in told
    assert told.count("\n") == 1


def test_the_horizon_counts_all_items_pauses_and_headers():
    stage = build_stage(Scenario("star:hosts=4", workload=Workload("broadcast", 1)))
    byte_ps = 8 * 10**12 // int(stage.net.bps.min())
    settings = Settings(header_bytes=0)

    def check(n_bytes: int, n_items: int, settings: Settings = settings) -> None:
        rows = np.array([[0, 1, n_bytes, 0]] * n_items, np.int64)
        check_horizon(stage.net, build_program(rows, np.zeros((0, 2), np.int64)), settings)

    most = MAX_PS // byte_ps
    check(most - 2**20, 1)
    check(most // 4 - 2**20, 4)
    for wrong in (
        (most + 1, 1, settings),
        (most // 4 + 1, 4, settings),
        (most - 2**20, 1, Settings()),
    ):
        with pytest.raises(ConfigError, match="53 days at the worst"):
            check(*wrong)


@pytest.mark.parametrize(
    ("line", "field"),
    [("header_bytes = 65537", "header_bytes"), ("switch_ps = 1125899906842625", "switch_ps")],
)
def test_settings_that_would_overflow_packets_are_refused(line, field, tmp_path, capsys):
    file = tmp_path / "wide.toml"
    table = '[workload]\nkind = "broadcast"\nn_bytes = 1000\n[settings]\n'
    file.write_text(f'topology = "star:hosts=4"\n{table}{line}\n')
    assert run(["compare", str(file), "--out", str(tmp_path / "out")]) == 2
    assert f"settings.{field}: got " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        (["model-push", "--size", "0"], "size: got '0', allowed: a byte or more"),
        (["moe-dispatch", "--gpus", "1000000", "--ep", "64", "--tokens", "16777217"],
         "tokens: got 16777217"),
        (["moe-dispatch", "--gpus", "1000000"], "tokens: got 128000000, allowed: up to 1073"),
    ],
)  # fmt: skip
def test_a_workload_says_no_before_it_draws(flags, what, capsys, monkeypatch):
    def too_late(*_: object) -> None:
        raise AssertionError("drawn")

    monkeypatch.setattr("fanfold.work.volumes.draw_choices", too_late)
    assert run(["workload", *flags]) == 2
    assert what in capsys.readouterr().err


@pytest.mark.parametrize("verb", [["trees", "pim-sm"], ["vat"]])
@pytest.mark.parametrize("members", ["h1-99999999999", "9" * 5000, "²", "\u0663", "h1-x", ""])
def test_members_that_are_none_are_told_at_once(verb, members, capsys):
    assert run([*verb, *STAR, "--members", members]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: --members: got ")


@pytest.mark.parametrize("rate", ["-5", str(10**30)])
def test_operations_a_second_are_told_as_they_were_given(rate, tmp_path, capsys):
    (tmp_path / "one.goal").write_text(GOAL)
    flags = [*STAR, "--workload", f"goal:{tmp_path / 'one.goal'}", "--ops-rate", rate]
    assert run(["compare", *flags]) == 2
    assert f"--ops-rate: got {rate}, allowed: 0..1000000" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (MemoryError("Unable to allocate 288. GiB"), 3, "memory: Unable to allocate 288. GiB"),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            3,
            "output: No space left on device",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "a/b"),
            3,
            "a/b: Permission denied",
        ),
        (KeyboardInterrupt(), 130, "interrupted"),
        (ValueError("odd"), 1, "unexpected ValueError: odd"),
    ],
)
def test_the_cause_decides_the_code(error, code, text, monkeypatch, capsys):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("fanfold.cli.topo_view.build_named_net", fail)
    assert run(["topo", "star:hosts=4", "--json"]) == code
    out, err = capsys.readouterr()
    assert text in err
    assert err.count("\n") == 1
    assert json.loads(out)["exit_code"] == code


def test_a_full_disk_below_the_output_is_one_line(monkeypatch, capsys):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(main, "print", full, raising=False)
    monkeypatch.setattr("fanfold.cli.topo.print", full, raising=False)
    assert run(["topo", "star:hosts=4", "--json"]) == 3
    assert "No space left on device" in capsys.readouterr().err


def test_two_processes_that_keep_the_same_run_both_end_well(tmp_path, monkeypatch, capsys):
    """The other one renames its folder into the place between our removal and our rename."""
    home = tmp_path / "runs"
    assert run(["compare", *STAR, *SMALL, "--out", str(home), "--json"]) == 0
    (name,) = (path.name for path in home.iterdir())
    capsys.readouterr()
    monkeypatch.setattr("fanfold.results.store.shutil.rmtree", lambda *_, **__: None)
    assert run(["compare", *STAR, *SMALL, "--out", str(home), "--no-cache", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["run_id"] == name
    assert Store(home).is_sound(name)


def test_a_kept_run_that_was_spoilt_is_made_again(tmp_path, capsys):
    flags = ["compare", *STAR, *SMALL, "--out", str(tmp_path), "--json"]
    assert run(flags) == 0
    first = json.loads(capsys.readouterr().out)["runs"][0]
    for file in Path(tmp_path, first["run_id"]).glob("*.parquet"):
        file.write_bytes(b"spoilt")
    assert run(flags) == 0
    again = json.loads(capsys.readouterr().out)["runs"][0]
    assert not again["is_cached"]
    assert again["end_ps"] == first["end_ps"]
