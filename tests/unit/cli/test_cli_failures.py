import json

import msgspec
import pytest

from fanfold.cli import failures as verb
from fanfold.cli.main import run
from fanfold.errors import ConfigError
from fanfold.study.failure_table import NEVER_COMES, NOBODY, FailureRow, FailureTable
from fanfold.units import PS_PER_US

ROW = FailureRow(
    *("spine", "node core0", 100, "fanfold", "tables made ahead"),
    *(57 * PS_PER_US, 60 * PS_PER_US, NEVER_COMES, 361, 112, 112, 0, 4000),
    *(NEVER_COMES, 350 * PS_PER_US, 4060, ""),
)
BY_RULE = ROW.__class__(
    *("spine", "node core0", 100, "bier", "none"),
    *(57 * PS_PER_US, NOBODY, NOBODY, 361, 112, 112, 0, 4000),
    *(400 * PS_PER_US, 350 * PS_PER_US, 0, "by definition: no messages of its own"),
)
TABLE = FailureTable(
    "fat-tree:k=8",
    127,
    1 << 20,
    1,
    {"detection": "3 HELLOs"},
    (ROW, BY_RULE),
    "fanfold failures",
)
LEFT_OUT = ("pim-sm, node core0: more words than a run has room for",)


@pytest.fixture
def asked(monkeypatch):
    """What the verb asks for."""
    seen = []

    def build(asked, progress=None, jobs=0):
        seen.append(asked)
        return TABLE

    monkeypatch.setattr(verb, "build_failure_table", build)
    return seen


def test_defaults_are_the_table_of_the_docs(asked, capsys):
    assert run(["failures"]) == 0
    (one,) = asked
    assert one.topology == "fat-tree:k=16,rate=400Gbps"
    assert (one.n_bytes, one.schemes, one.failures) == (
        1 << 24,
        "all",
        ("link", "spine", "leaf"),
    )
    assert (one.settings.hello_ps, one.share_ppm) == (20 * PS_PER_US, 500_000)
    text = capsys.readouterr().out
    assert "spine: node core0" in text
    assert "57 us" in text
    assert "never" in text
    assert "none" in text
    assert "0 *" in text
    assert "by definition: no messages of its own" in text
    assert "3 HELLOs" in text


def test_flags_reach_the_runs(asked, capsys):
    line = "failures --schemes fanfold,bier --failure link --at 25% --hello 1ms --reroute 50ms"
    assert run([*line.split(), "--failure", "node core3", "--size", "1MiB", "--seed", "5"]) == 0
    (one,) = asked
    assert one.failures == ("link", "node core3")
    assert (one.share_ppm, one.seed, one.n_bytes) == (250_000, 5, 1 << 20)
    assert (one.settings.hello_ps, one.settings.reroute_ps) == (10**9, 50 * 10**9)


def test_json_has_every_row(asked, capsys):
    assert run(["failures", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["scheme"] for row in told["rows"]] == ["fanfold", "bier"]
    assert told["rows"][0]["detect_ps"] == 57 * PS_PER_US
    assert told["rows"][1]["by_definition"]


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_rows_that_did_not_run_are_no_success(monkeypatch, capsys, flags):
    part = msgspec.structs.replace(TABLE, left_out=LEFT_OUT)
    monkeypatch.setattr(verb, "build_failure_table", lambda *_: part)
    assert run(["failures", *flags]) == 4
    told = capsys.readouterr()
    assert told.err == f"error: rows that did not run: {LEFT_OUT[0]}\n"
    assert "core0" in told.out


@pytest.mark.parametrize("at", ["0%", "100%", "soon"])
def test_a_share_is_within_the_transfer(asked, at, capsys):
    assert run(["failures", "--at", at]) == 2
    assert "--at" in capsys.readouterr().err
    assert not asked


@pytest.mark.parametrize(
    ("field", "flag"),
    [
        ("settings.failures[0].fail", "--failure"),
        ("schemes", "--schemes"),
        ("topology", "--topology"),
    ],
)
def test_faults_are_told_by_flag(monkeypatch, capsys, field, flag):
    def build(asked, progress=None, jobs=0):
        raise ConfigError(field, "x", "y")

    monkeypatch.setattr(verb, "build_failure_table", build)
    assert run(["failures"]) == 2
    assert f"{flag}: got" in capsys.readouterr().err


@pytest.mark.parametrize(("word", "is_kind"), [("bogus", True), ("node zz", False)])
def test_kinds_are_told_to_who_gave_no_words(capsys, word, is_kind):
    assert run(["failures", "--topology", "fat-tree:k=4", "--failure", word]) == 2
    assert ("allowed: link, spine, leaf, " in capsys.readouterr().err) is is_kind
