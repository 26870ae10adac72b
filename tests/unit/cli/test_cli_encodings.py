import json
from pathlib import Path

import pytest

from fanfold.cli.main import run
from fanfold.encodings.catalog import CATALOG, offers

FABRIC = ["--topology", "leaf-spine:leaves=4,spines=2,hosts=64"]


def told(capsys, *flags):
    assert run(["encodings", *FABRIC, *flags, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_every_encoding_tells_its_numbers_as_json(capsys):
    rows = told(capsys, "--members", "9")
    assert [row["encoding"] for row in rows] == [offer.name for offer in offers()]
    assert {row["n_members"] for row in rows} == {9}
    assert {row["payload_bytes"] for row in rows} == {7392}
    assert all(row["link_bytes"] > row["tree_bytes"] for row in rows)


def test_all_are_shown_on_a_screen(capsys):
    flags = ["--members", "contiguous:32", "--limit-bits", "256", "--payload", "256B"]
    assert run(["encodings", *FABRIC, *flags]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("31 receivers of 64 hosts")
    assert "256 B each" in lines[0]
    assert "bier-512: cannot: BitStrings of 512 bits; switches read 256" in lines
    assert max(map(len, lines)) <= 132
    shown = [line.split()[0] for line in lines if line.strip()]
    assert {"unicast", "bier-256", "rbs", "elmo-s", "peel-c"} <= set(shown)


def test_without_a_topology_all_are_listed(capsys):
    assert run(["encodings", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == [kind.name for kind in CATALOG]
    assert run(["encodings"]) == 0
    assert "draft-eckert-pim-rts-forwarding-01" in capsys.readouterr().out


def test_members_are_drawn_counted_or_named(capsys):
    bier = ["--encoding", "bier-64"]
    some = told(capsys, *bier, "--members", "20")
    assert some == told(capsys, *bier, "--members", "20")
    others = [told(capsys, *bier, "--members", "20", "--seed", str(i)) for i in range(1, 5)]
    assert all(other[0]["n_members"] == 20 for other in others)
    assert any(other != some for other in others)
    assert told(capsys, *bier, "--members", "all")[0]["n_members"] == 63
    named = told(capsys, *bier, "--members", "h1,h3-5,h0")[0]
    assert named["n_members"] == 4
    assert named["n_copies"] == 5  # all on the source's leaf
    block = told(capsys, *bier, "--members", "contiguous:16", "--source", "h20")[0]
    assert (block["n_members"], block["n_copies"]) == (15, 16)


def test_a_plan_is_shown_with_its_pick_first(capsys):
    flags = ["--members", "40", "--encoding", "bier-64,bier-256,rbs,unicast", "--plan"]
    found = told(capsys, *flags)
    assert found["picked"] == found["candidates"][0]["row"]
    assert found["candidates"][0]["verdict"] == "picked"
    assert run(["encodings", *FABRIC, *flags]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith(f"pick: {found['picked']['encoding']}")
    assert sum("% more bytes on links" in line for line in lines) >= 1


def test_a_sweep_draws_scattered_groups_up_to_all(capsys):
    flags = ["--members", "all", "--encoding", "bier-64,bier-4096", "--sweep"]
    found = told(capsys, *flags, "--payload", "64B")
    assert [row["n_members"] for row in found["sizes"]] == [1, 4, 16, 63]
    assert found["beats"]["bier-64"] == 4
    four = found["sizes"][1]["rows"][0]
    assert four["unicast_link_bytes"] > 3 * 2 * 64  # not all on the source's leaf
    assert run(["encodings", *FABRIC, *flags, "--payload", "64B"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    rows = {words[0]: words[1:] for words in lines}
    assert rows["unicast"] == ["100.0"] * 4
    assert (rows["bier-64"][-1], rows["bier-4096"][-1]) == ("4", "never")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--members", "64"], "--members"),
        (["--members", "0"], "--members"),
        (["--members", "h0"], "--members"),
        (["--members", "h99"], "--members"),
        (["--members", "contiguous:65"], "contiguous:2 to contiguous:64"),
        (["--members", "contiguous:x"], "contiguous:2 to contiguous:64"),
        (["--payload", "0B"], "--payload"),
        (["--payload", "7 apples"], "--payload"),
        (["--mtu", "100B"], "--mtu"),
        (["--limit-bits", "5000"], "--limit-bits"),
        (["--encoding", "bire"], "--encoding: got 'bire'; did you mean bier?"),
        (["--placement", "random"], "--placement"),
        (["--source", "leaf0"], "--source"),
        (["--plan", "--sweep"], "--plan"),
        (["--encoding", "bier-512", "--limit-bits", "256", "--plan"], "--encoding"),
    ],
)
def test_a_wrong_flag_is_one_line_that_names_it(flags, said, capsys):
    assert run(["encodings", *FABRIC, *flags]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_the_page_says_what_the_command_prints(capsys):
    """Columns: packets, header, shares at two payloads, rows read; of 9 of 256."""
    page = (Path(__file__).parents[3] / "docs/encodings.md").read_text()
    table = page.partition("header % at 7,392 B")[2].partition("\n\n")[0].splitlines()[2:]
    told = {}
    for payload in ("7392B", "256B"):
        net = ["--topology", "leaf-spine:leaves=16,spines=8,hosts=256"]
        assert run(["encodings", *net, "--payload", payload, "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)
        told[payload] = {row["encoding"]: row for row in rows}
    assert len(table) == 12
    for line in table:
        name, packets, head, *shares, most = (
            cell.strip("* ") for cell in line.split("|")[1:-1]
        )
        large, small = (rows[name] for rows in told.values())
        assert (large["n_packets"], large["most_lookups"]) == (int(packets), int(most))
        mean = (2 * large["link_header_bytes"] // large["n_copies"] + 1) // 2
        first = large["header_bytes"]
        assert head == (f"{first} / {mean}" if first else "0")
        for row, (share, of_unicast) in ((large, shares[:2]), (small, shares[2:])):
            exact = row["link_header_bytes"] * 100 / row["link_bytes"]
            assert float(share) == pytest.approx(exact, abs=0.051)
            exact = row["link_bytes"] * 100 / row["unicast_link_bytes"]
            assert float(of_unicast) == pytest.approx(exact, abs=0.051)
