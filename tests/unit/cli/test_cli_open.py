"""Fabrics over several machines are open where their file asks for it, and say so."""

from pathlib import Path

import msgspec
import pytest

from fanfold.api import labs, one_push
from fanfold.api.one_push import Order, Watch
from fanfold.api.site import Site
from fanfold.cli import bfr, receive
from fanfold.cli.main import run
from fanfold.errors import ConfigError, EnvironmentLack
from fanfold.live.lab import Lab
from fanfold.topo.fabric import Fabric, KeyMode, Link, Node, Openness
from fanfold.topo.fabric_file import load_fabric, save_fabric
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.topo.openness import check_links, check_receiver, is_told, may_be_open, open_links

KEYS = ["fl1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "fl1:" + "B" * 42 + "A"]
KEYS.append("fl1:" + "C" * 42 + "A")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FANFOLD_STATE_DIR", str(tmp_path / "state"))
    return tmp_path


def rack(word: Openness = "", mode: KeyMode = "off", net: str = "10.7.0") -> Fabric:
    roles = (("h0", "host", 1), ("h1", "host", 2), ("leaf1", "bfr", 0))
    nodes = tuple(
        Node(name, f"{net}.{i + 1}", role, bfr_id, KEYS[i] if mode != "off" else "")
        for i, (name, role, bfr_id) in enumerate(roles)  # type: ignore[arg-type]
    )
    links = (Link("leaf1", "h0"), Link("leaf1", "h1"))
    return Fabric("rack", nodes, links, open=word, link_keys=mode)


@pytest.mark.parametrize(
    ("word", "links", "ends"),
    [
        ("", False, False),
        ("none", False, False),
        ("links", True, False),
        ("ends", False, True),
        ("all", True, True),
    ],
)
def test_what_is_open_over_several_machines_was_asked_for(
    word: Openness, links: bool, ends: bool
) -> None:
    fabric = rack(word)
    assert (may_be_open(fabric, "links"), may_be_open(fabric, "ends")) == (links, ends)
    for check, is_allowed in (
        (lambda: check_links(fabric, "leaf1", "rack.toml"), links),
        (lambda: check_receiver(fabric, "h1", "rack.toml", is_open=True), ends),
    ):
        if is_allowed:
            check()
            continue
        with pytest.raises(ConfigError) as error:
            check()
        assert error.value.field == "rack.toml: fabric.open"
        assert "`fanfold fabric init`" in error.value.allowed
        assert '"all"' in error.value.allowed
    check_receiver(fabric, "h1", "rack.toml", is_open=False)


def test_keys_need_no_word_and_links_that_lack_them_are_told() -> None:
    closed = rack(mode="required")
    assert check_links(closed, "leaf1", "x") == ""
    assert open_links(closed, "leaf1") == ()
    asked = msgspec.structs.replace(
        closed, links=(msgspec.structs.replace(closed.links[0], keys="off"), closed.links[1])
    )
    assert check_links(asked, "leaf1", "x").startswith("leaf1: open to h0: packets from")
    assert check_links(asked, "h1", "x") == ""
    assert "open to h0, h1" in check_links(rack(mode="on"), "leaf1", "x")
    assert "h1: open to leaf1" in check_links(rack("links"), "h1", "x")


def test_a_fabric_of_one_machine_is_open_without_a_word_unless_it_says_otherwise() -> None:
    near = leaf_spine(1, 0, 2)
    assert (may_be_open(near, "links"), is_told(near)) == (True, False)
    assert check_links(near, "leaf1", "x") == ""
    check_receiver(near, "h1", "x", is_open=True)
    closed = msgspec.structs.replace(near, open="none")
    with pytest.raises(ConfigError, match="keys for the links of leaf1"):
        check_links(closed, "leaf1", "x")
    with pytest.raises(ConfigError, match="a trust file for h1"):
        check_receiver(closed, "h1", "x", is_open=True)
    asked = msgspec.structs.replace(near, open="all")
    assert "open to h0, h1, h2" in check_links(asked, "leaf1", "x")


@pytest.mark.parametrize(
    ("fabric", "flags", "said"),
    [
        (rack("all"), (), "links without keys, pushes of anybody are taken"),
        (rack("all"), ("--keys",), "links without keys"),
        (rack("all"), ("--link-keys",), "pushes of anybody are taken"),
        (rack("all"), ("--keys", "--link-keys"), ""),
        (rack("ends"), (), "pushes of anybody are taken"),
        (rack("links"), (), "links without keys"),
        (rack(), (), ""),
        (rack("all", "required"), (), "pushes of anybody are taken"),
        (rack("ends", "required"), (), "pushes of anybody are taken"),
        (msgspec.structs.replace(leaf_spine(1, 0, 2), open="all"), (), ""),
    ],
)
def test_a_lab_that_others_reach_says_what_its_file_asks_to_leave_open(
    home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    fabric: Fabric,
    flags: tuple[str, ...],
    said: str,
) -> None:
    def start(*args: object, **more: object) -> None:
        raise EnvironmentLack("started")

    monkeypatch.setattr(labs, "start_lab", start)
    save_fabric(fabric, home / "rack.toml")
    assert run(["lab", "up", "--config", str(home / "rack.toml"), *flags, "--json"]) == 3
    err = capsys.readouterr().err
    line = f"note: lab lab: open to whoever reaches its addresses: {said}\n" if said else ""
    assert err == f"{line}error: started\n"


def test_the_word_stands_in_the_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_fabric(rack("ends"), home / "rack.toml")
    assert load_fabric(home / "rack.toml") == rack("ends")
    text = (home / "rack.toml").read_text()
    (home / "rack.toml").write_text(text.replace('"ends"', '"yes"'))
    assert run(["bfr", "--config", str(home / "rack.toml"), "--node", "leaf1"]) == 2
    assert "fabric.open: got 'yes', allowed: none, links, ends, all" in capsys.readouterr().err


class Stopped(Exception):  # noqa: N818 - no error: as far as a test goes
    """A node that would run now."""


@pytest.fixture
def files(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def stop(*args: object, **more: object) -> None:
        raise Stopped

    for verb in (bfr, receive):
        monkeypatch.setattr(verb, "warm", stop)
    save_fabric(rack(), home / "rack.toml")
    save_fabric(rack("links"), home / "links.toml")
    save_fabric(rack("all"), home / "open.toml")
    return home


def words_of(verb: str, file: Path) -> list[str]:
    words = [verb, "--config", str(file), "--node", "leaf1" if verb == "bfr" else "h1"]
    return words + (["--into", str(file.parent / "in")] if verb == "receive" else [])


@pytest.mark.parametrize("verb", ["bfr", "receive"])
def test_a_node_refuses_in_one_line_or_says_that_it_is_open(
    files: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "leaf1" if verb == "bfr" else "h1"
    assert run(words_of(verb, files / "rack.toml")) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "rack.toml: fabric.open: got 'nothing', allowed: keys for the links of" in line
    assert run(words_of(verb, files / "open.toml")) == 1, "it would have started"
    out, err = capsys.readouterr()
    assert err.startswith(f"note: {name}: open to ")
    assert out == ""
    assert run(words_of(verb, files / "links.toml")) == (1 if verb == "bfr" else 2)
    _, err = capsys.readouterr()
    assert ("allowed: a trust file for h1" in err) == (verb == "receive")


ENDS = "h0", ["h1"]


class Heard(Watch):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def warn(self, text: str) -> None:
        self.lines.append(text)


def test_a_push_over_several_machines_is_signed_or_says_that_it_is_open(files: Path) -> None:
    order, heard = Order(files), Heard()
    with pytest.raises(ConfigError, match=r"keys for the links of h0"):
        one_push._seals_of(Site(Lab("x"), files / "rack.toml"), order, ENDS, heard)
    with pytest.raises(ConfigError, match=r'--keys.*open = "ends" in .*links.toml'):
        one_push._seals_of(Site(Lab("x"), files / "links.toml"), order, ENDS, heard)
    heard.lines.clear()
    site = Site(Lab("x"), files / "open.toml")
    assert one_push._seals_of(site, order, ENDS, heard) is None
    assert [line.partition(":")[0] for line in heard.lines] == ["h0", "h0"]
    assert "this push is not signed" in heard.lines[1]
    for node in ("h0", "h1"):
        assert run(["keys", "init", "--node", node]) == 0
    public = files / "state" / "keys" / "h1" / "key.pub"
    assert run(["keys", "trust", "h1", str(public), "--node", "h0"]) == 0
    seals = one_push._seals_of(Site(Lab("x"), files / "links.toml"), order, ENDS, heard)
    assert seals is not None
    assert (seals.is_sealed, set(seals.trust)) == (False, {"h1"})
    heard.lines.clear()
    assert (
        run(["keys", "trust", "h1", str(public), "--node", "h0", "--until", "1999-12-31"]) == 0
    )
    seals = one_push._seals_of(Site(Lab("x"), files / "links.toml"), order, ENDS, heard)
    assert seals is not None
    assert seals.trust["h1"] == ()
    assert [line.endswith(" of h1 ended (1999-12-31)") for line in heard.lines] == [False, True]
    one_push._seals_of(Site(Lab("x"), files / "links.toml"), order, ("h0", []), heard)
    assert len(heard.lines) == 3, "nobody that it goes to"
