"""`fanfold bitstring`, `fanfold decode`, `fanfold dissector` as an operator types them."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result
from vec_file import VECTORS, load

from fanfold.cli.bitstring import bitstring
from fanfold.cli.decode import decode
from fanfold.cli.dissector import dissector
from fanfold.errors import ConfigError
from fanfold.wire import bier
from fanfold.wire.feedback import Feedback, FeedbackRow
from fanfold.wire.packet import build

SEED = load(VECTORS / "bier" / "bsl256_chinog_three_bfers.vec").buf
CLOSE = load(VECTORS / "inner" / "close_to_group.vec").buf
MPLS = load(VECTORS / "bier_mpls" / "bsl256_label_18.vec").buf

app = typer.Typer()
app.command()(bitstring)
app.command()(decode)
app.command()(dissector)


def run(*words: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, list(words), input=text)


def test_ids_become_the_header_of_the_vector() -> None:
    result = run("bitstring", "1-3", "--bfir-id", "10", "--json")
    assert result.exit_code == 0
    (row,) = json.loads(result.stdout)
    assert row["header"] == SEED.hex()
    assert (row["si"], row["bift_id"], row["ids"]) == (0, "0x30000", [1, 2, 3])


def test_ids_of_two_sets_become_two_headers() -> None:
    rows = json.loads(run("bitstring", "1,3-5,300", "--sub-domain", "5", "--json").stdout)
    assert [(row["bift_id"], row["ids"]) for row in rows] == [
        ("0x30500", [1, 3, 4, 5]),
        ("0x30501", [300]),
    ]


def test_bitstring_becomes_ids() -> None:
    result = run("bitstring", "--hex", "0x80000000001", "--si", "1")
    assert (result.exit_code, result.stdout) == (0, "257,300\n")
    assert run("bitstring", "--hex", "7", "--json").stdout == '{"ids":[1,2,3]}\n'


def test_table_shows_the_whole_header() -> None:
    result = run("bitstring", "1-3", "--bsl", "64")
    assert result.exit_code == 0
    assert "0x10000" in result.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["bitstring"],
        ["bitstring", "1", "--hex", "1"],
        ["bitstring", "0"],
        ["bitstring", "1", "--bsl", "100"],
        ["bitstring", "1", "--ttl", "256"],
        ["bitstring", "1", "--proto", "64"],
        ["bitstring", "1", "--bfir-id", "0"],
        ["bitstring", "1", "--entropy", "1048576"],
        ["bitstring", "1", "--sub-domain", "256"],
        ["bitstring", "65000", "--bsl", "64"],
        ["bitstring", "--hex", "xyz"],
        ["bitstring", "--hex", "1_0"],
        ["bitstring", "--hex", "-1"],
        ["bitstring", "--hex", "1" + "0" * 64],
        ["bitstring", "--hex", "1", "--si", "256"],
        ["bitstring", "--hex", "8" + "0" * 63, "--si", "255"],
        ["decode", "abc"],
        ["decode", "00", "--as", "zebra"],
        ["decode", "00", "--bsl", "100"],
    ],
)
def test_bad_input_names_field_value_and_what_is_allowed(words: list[str]) -> None:
    error = run(*words).exception
    assert isinstance(error, ConfigError)
    assert error.exit_code == 2
    assert "\n" not in str(error)
    assert "allowed" in str(error)


def test_packet_becomes_fields() -> None:
    result = run("decode", "-", "--json", text=(SEED + CLOSE).hex(" ", 4) + "\n")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert [layer["layer"] for layer in found["layers"]] == ["BierHeader", "Inner", "Close"]
    assert found["layers"][0]["bitstring"] == "0x7"
    assert found["layers"][1]["dst"] == "239.81.38.1"
    assert found["layers"][2]["reason"] == 1
    assert found["refused"] is None


def test_refused_packet_shows_its_reason_and_exits_two() -> None:
    result = run("decode", (SEED + CLOSE)[:-1].hex())
    assert result.exit_code == 2
    assert "BierHeader" in result.stdout
    assert "refused: inner: truncated (got 107)" in result.stdout
    found = json.loads(run("decode", SEED[:5].hex(), "--json").stdout)
    assert found["layers"] == []
    assert found["refused"] == {"header": "bier", "reason": "truncated", "got": "5"}


def test_feedback_shows_its_rows() -> None:
    rows = (FeedbackRow(psn=9, lacking=2),)
    message = Feedback(bift_id=0x30000, flow=3, block=0, n_psn=16, heard=7, done=5, rows=rows)
    buf = build(bier.decode(SEED), 1, 2, 40000, message)
    result = run("decode", buf.hex())
    assert result.exit_code == 0
    assert "payload: 0 bytes" in result.stdout
    found = json.loads(run("decode", buf.hex(), "--json").stdout)
    assert found["layers"][2]["rows"] == [{"psn": 9, "lacking": "0x2"}]


def test_mpls_packet_needs_its_length() -> None:
    result = run("decode", (MPLS + CLOSE).hex(), "--mpls", "--bsl", "256")
    assert result.exit_code == 0
    assert "0x12" in result.stdout


def test_dissector_is_shipped() -> None:
    path = Path(run("dissector").stdout.strip())
    assert path.name == "fanfold.lua"
    assert path.is_file()
