"""`fanfold planes`: what it asks for, its tables, and faults by their flags."""

import json

import pytest

from fanfold.cli import planes as verb
from fanfold.cli.main import run
from fanfold.errors import ConfigError
from fanfold.study.plane_fan import FanRow, FanTable
from fanfold.study.plane_steps import NEVER_ENDS, StepRow, StepTable

US = 10**6
STEPS = StepTable(
    "superpod:gpus=64,planes=4",
    1 << 25,
    512,
    1,
    (
        StepRow(
            *("all_to_all", "whole", "per packet", 88 * US, 87 * US, 10**6, 10**6),
            *(5 << 20, 1 << 16, 7, 12, (4, 4), 0),
        ),
        StepRow(
            *("all_to_all", "leaf", "one plane", NEVER_ENDS, NEVER_ENDS, NEVER_ENDS),
            *(NEVER_ENDS, 0, 0, 0, 0, (0, 0), 0),
        ),
        StepRow(
            *("all_to_all", "port", "per packet", 117 * US, 116 * US, 1_330_000, 1_333_333),
            *(5 << 20, 1 << 16, 7, 12, (3, 4), 0),
        ),
    ),
    "fanfold planes --size 1",
)
FAN = FanTable(
    "superpod:gpus=64,planes=4",
    1 << 26,
    "h3-plane1",
    1,
    (
        FanRow(
            *("fanfold", 200 * US, (2 << 20, 1 << 20), (2 << 20, 1 << 20)),
            *((2 << 20, 1 << 20), (666667, 333333), (666667, 333333), 1234, 1 << 30),
        ),
        FanRow("one plane", NEVER_ENDS, (1, 0), (1, 0), (1, 0), (), (), 0, 1),
    ),
    "fanfold planes --fan",
)


@pytest.fixture
def seen_jobs():
    """Processes that it asks for."""
    return []


@pytest.fixture
def asked(monkeypatch, seen_jobs):
    """What the verb asks for."""
    seen = []

    def build(table):
        def built(asked, progress=None, jobs=None):
            progress("a row")
            seen.append(asked)
            seen_jobs.append(jobs)
            return table

        return built

    monkeypatch.setattr(verb, "build_step_table", build(STEPS))
    monkeypatch.setattr(verb, "build_fan_table", build(FAN))
    return seen


def test_steps_by_default_as_the_docs_have_them(asked, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "220")
    assert run(["planes"]) == 0
    (one,) = asked
    assert (one.topology, one.n_bytes, one.n_tokens) == (STEPS.topology, 32 << 20, 512)
    assert one.workloads == ("all_to_all", "all_reduce", "dispatch")
    assert (one.host, one.plane, one.seed) == ("h3", 1, 1)
    text = capsys.readouterr().out
    for word in ("cut off", "1.330", "1.333", "88 us", "3 to 4", STEPS.command):
        assert word in text


def test_a_fan_is_shown_by_plane(asked, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "220")
    line = "planes --fan --size 1MiB --fail h7-plane2 --seed 4 --topology superpod:gpus=8"
    assert run(line.split()) == 0
    (one,) = asked
    assert one == ("superpod:gpus=8", 1 << 20, "h7", 2, 4)
    text = capsys.readouterr().out
    for word in ("2.0 1.0 MiB", "66.67 33.33 %", "0.12 %", "cut off", "200 us", FAN.command):
        assert word in text


def test_programs_get_every_field(asked, capsys):
    assert run(["planes", "--json", "--workloads", "dispatch", "--tokens", "7"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (asked[0].workloads, asked[0].n_tokens) == (("dispatch",), 7)
    assert told["rows"][0]["planes"] == [4, 4]
    assert run(["planes", "--fan", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["off_ppm"] == 1234


def test_rows_run_side_by_side_as_asked(asked, seen_jobs, capsys):
    for words, jobs in (([], 0), (["--jobs", "3"], 3)):
        assert run(["planes", "--json", *words]) == 0
        assert seen_jobs.pop() == jobs
    assert run(["planes", "--jobs", "0"]) == 2
    assert "--jobs: got 0" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["h3", "h3-plane", "-plane1", "plane1"])
def test_a_port_is_a_host_and_a_plane(port, capsys):
    assert run(["planes", "--fail", port]) == 2
    assert "--fail" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("field", "flag"),
    [
        ("settings.failures[0].fail", "--fail"),
        ("topology", "--topology"),
        ("workloads", "--workloads"),
    ],
)
def test_faults_are_told_by_flag(field, flag, capsys, monkeypatch):
    def build(asked, progress=None, jobs=0):
        raise ConfigError(field, "what", "else")

    monkeypatch.setattr(verb, "build_step_table", build)
    assert run(["planes"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert flag in line
