"""Links and nodes fail in the middle of a push, and nobody has to be told."""

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_site import LiveLab, Site, finish, random_bytes, states, wait_for

from fanfold.kernels.jit import JIT
from fanfold.topo.fabric_file import load_fabric

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not JIT, reason="a live push is for compiled code"),
]
SIZE = 6_000_000
RATE = "24Mbps"
BFRS = ("leaf1", "leaf2", "spine1", "spine2")
FAR = {"h3", "h4"}
"""Behind the leaf that the source is not at."""


@pytest.fixture(scope="module")
def module_lab(site: Site) -> Iterator[LiveLab]:
    made = LiveLab(site, "live-fail", "--leaves", 2, "--spines", 2, "--hosts", 4)
    yield made
    made.down()


@pytest.fixture
def lab(module_lab: LiveLab) -> Iterator[LiveLab]:
    """Every node lives, every link carries, all neighbours are up."""
    heal(module_lab)
    wait_for(lambda: is_well(module_lab), "all neighbours up", 60)
    yield module_lab
    heal(module_lab)


def fail(lab: LiveLab, *words: object) -> None:
    done = lab.site.run("lab", "fail", *words, "--name", lab.name)
    assert done.returncode == 0, done.stderr


def heal(lab: LiveLab, *words: object) -> list[str]:
    found: list[str] = lab.site.read("lab", "heal", *words, "--name", lab.name)["healed"]
    return found


def is_well(lab: LiveLab) -> bool:
    told = [lab.status(node) for node in lab.nodes()]
    neighbours = [row for each in told for row in each.get("neighbours", {"": {}}).values()]
    return all(each.get("links_down") == [] for each in told) and all(
        row.get("state") == "up" for row in neighbours
    )


def crossed(lab: LiveLab, spine: str) -> int:
    return lab.sent(spine, "leaf2") + lab.sent(spine, "leaf2", "repair")


def push_that_meets(lab: LiveLab, path: Path, words: str, *flags: object) -> tuple[int, dict]:
    """A push, and a failure of the spine that its data pass; exit code and result."""
    path.write_bytes(random_bytes(SIZE, time.monotonic_ns()))
    before = {spine: crossed(lab, spine) for spine in ("spine1", "spine2")}
    push = lab.start_push(path, "--rate", RATE, *flags)
    counts = {}

    def is_under_way() -> bool:
        counts.update({spine: crossed(lab, spine) - n for spine, n in before.items()})
        return sum(counts.values()) > 100

    wait_for(is_under_way, "data under way", 120)
    spine = max(counts, key=lambda name: counts[name])
    fail(lab, *words.format(spine=spine).split())
    code, out, err = finish(push, 120)
    assert out, err
    other = "spine2" if spine == "spine1" else "spine1"
    more = {"spine": spine, "crossed": crossed(lab, other) - before[other]}
    return code, json.loads(out) | more


@pytest.mark.parametrize("words", ["link leaf1-{spine}", "link {spine}-leaf2", "node {spine}"])
def test_a_push_goes_on_around_what_fails(lab: LiveLab, tmp_path: Path, words: str) -> None:
    code, result = push_that_meets(lab, tmp_path / "a.bin", words)
    spine = result["spine"]
    assert (code, set(states(result).values())) == (0, {"verified"})
    assert result["suspects"] == []
    named = links_of(words, spine)
    assert "lost during the push, and routed around where possible: " in result["notes"][0]
    assert all(link in result["notes"][0] for link in named)
    down = lab.status("leaf1")["links_down"]
    assert set(down) == named
    assert all(lab.status(bfr)["links_down"] == down for bfr in BFRS if bfr != spine)
    assert result["crossed"] > 0
    heal(lab)
    wait_for(lambda: is_well(lab), "tables as given", 60)


def links_of(words: str, spine: str) -> set[str]:
    """Links that go with what fails."""
    if words.startswith("node"):
        return {f"leaf1-{spine}", f"leaf2-{spine}"}
    return {"leaf1-" + spine} if "leaf1" in words else {"leaf2-" + spine}


def test_who_is_behind_a_leaf_that_died_is_named_and_nobody_else_waits(
    lab: LiveLab, tmp_path: Path
) -> None:
    code, result = push_that_meets(lab, tmp_path / "a.bin", "node leaf2", "--patience", "2s")
    assert code == 4
    assert {name for name, state in states(result).items() if state != "verified"} == FAR
    assert result["suspects"] == ["leaf2"]
    ended = [row["seconds"] for row in result["receivers"] if row["id"] not in FAR]
    assert max(ended) < result["seconds"] - 1
    assert heal(lab, "leaf2") == ["leaf2"]
    wait_for(lambda: is_well(lab), "a leaf that is back", 60)
    again = lab.push(tmp_path / "a.bin")
    assert set(states(again).values()) == {"verified"}


def test_a_host_that_stops_for_a_while_gets_the_rest(lab: LiveLab, tmp_path: Path) -> None:
    code, result = push_that_meets(lab, tmp_path / "a.bin", "pause h3 2s")
    assert (code, set(states(result).values())) == (0, {"verified"})


def test_a_link_that_comes_and_goes_stops_no_push(lab: LiveLab, tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(random_bytes(SIZE, 77))
    push = lab.start_push(path, "--rate", RATE)
    for spine in ("spine1", "spine2", "spine1", "spine2"):
        fail(lab, "link", f"leaf1-{spine}")
        heal(lab)
    code, out, err = finish(push, 120)
    assert code == 0, err
    assert set(states(json.loads(out)).values()) == {"verified"}


PORT = "port-corrupt leaf2-spine2 2%"


def test_what_failed_is_shown_and_outlives_a_node(lab: LiveLab) -> None:
    fail(lab, "link", "spine1-leaf1")
    fail(lab, "gray", "leaf2-spine2", "1%")
    fail(lab, "port-corrupt", "leaf2-spine2", "2%")
    fail(lab, "node", "spine2")
    wait_for(lambda: "spine2" in lab.deaths(), "a node that is gone")
    said = lab.site.run("lab", "status", "--name", lab.name).stdout
    for what in ("link leaf1-spine1", "gray leaf2-spine2 1%", "node spine2", PORT):
        assert f"failed by hand: {what}\n" in said
    lab.site.read("lab", "restart", "leaf1", "--name", lab.name)
    assert lab.status("leaf1")["failed"] == {"spine1": {"shut": True}}
    assert heal(lab, "spine2") == ["spine2"]
    assert lab.status("spine2")["failed"] == {"leaf2": {"impair": {"drop_ppb": 10_000_000}}}
    both = {"drop_ppb": 10_000_000, "corrupt_ppb": 20_000_000}
    assert lab.status("leaf2")["failed"] == {"spine2": {"impair": both}}
    assert heal(lab, "leaf1-spine1") == ["leaf1-spine1"]
    assert lab.status("leaf1")["failed"] == {}
    fail(lab, "pause", "h1", "600s")
    assert heal(lab) == ["leaf2-spine2", "h1"]
    assert heal(lab) == []


def test_failures_that_cannot_be_are_refused_in_one_line(lab: LiveLab) -> None:
    for words, said in (
        (
            "wire leaf1-spine1",
            "WHAT: got 'wire', allowed: link, node, pause, gray, slow, port",
        ),
        ("link leaf1-leaf2", "link: got 'leaf1-leaf2'; did you mean leaf1-spine2?"),
        ("node h9", "node: got 'h9', allowed: h1, "),
        ("pause h3", "pause h3: got 'nothing behind it', allowed: a duration such as 3s"),
        ("pause h3 2h", "pause h3: got '2h', allowed: up to 3600 s"),
        ("gray leaf1-spine1", "allowed: a share of packets such as 1%"),
        ("slow leaf1-spine1", "allowed: a rate such as 50Mbps"),
        ("link leaf1-spine1 1%", "link leaf1-spine1: got '1%', allowed: nothing"),
    ):
        done = lab.site.run("lab", "fail", *words.split(), "--name", lab.name)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
    done = lab.site.run("lab", "heal", "spine1", "--name", lab.name)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "heal: got 'spine1', allowed: nothing: all is well" in done.stderr


def test_words_of_neighbours_that_make_no_sense_are_counted(lab: LiveLab) -> None:
    """From a neighbour's address; from others they are nobody's."""
    leaf = lab.status("leaf1")
    before = leaf["drops"].get("bad_link", 0)
    lab.kill("h1")
    junk = [b"\0\0\x01\xff" + body for body in (b"", b"\x18", b"\x19" + bytes(40), bytes(36))]
    fabric = load_fabric(lab.folder / "fabric.toml")
    addresses = [(fabric.by_name[node].address, fabric.port) for node in ("h1", "leaf1")]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(addresses[0])
        for octets in junk:
            sock.sendto(octets, addresses[1])
    wait_for(lambda: lab.status("leaf1")["drops"].get("bad_link", 0) == before + 4, "counted")
    assert lab.status("leaf1")["links_down"] == []
    lab.restart("h1")
