"""`fanfold fabric init`: folders with keys, whole or to be completed, never written over."""

import json
import stat
from pathlib import Path

import msgspec
import pytest

from fanfold.api import fabric_init, labs
from fanfold.cli.main import run
from fanfold.kernels.layout import TRAILER_BYTES
from fanfold.live.lab import Lab
from fanfold.seals.keys import load_keys
from fanfold.seals.link_keys import load_link_key
from fanfold.seals.trust import load_trust
from fanfold.topo.fabric import Tenant
from fanfold.topo.fabric_file import load_fabric, save_fabric
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.topo.labels import proven_labels

HOSTS = "h0=10.0.0.10,h1=10.0.0.11,h2=10.0.0.12"
FEW = ("--hosts", HOSTS, "--bfrs", "leaf1=10.0.0.1")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FANFOLD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*words: str) -> int:
    return run(["fabric", "init", "rack", *words])


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_each_machine_gets_a_folder_that_only_its_owner_reads(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init(*FEW) == 0
    out, err = capsys.readouterr()
    assert err == ""
    fabric = load_fabric(home / "rack" / "rack.toml")
    assert (fabric.open, fabric.link_keys, fabric.name) == ("none", "required", "rack")
    assert (fabric.mtu, fabric.line_mtu()) == (1500 - TRAILER_BYTES, 1500)
    for node in fabric.nodes:
        own = home / "rack" / node.name
        assert load_link_key(own).text == node.link_key
        assert load_fabric(own / "rack.toml") == fabric
        assert f"scp -rp rack/{node.name} {node.address}:" in out
        assert mode_of(own) == mode_of(home / "rack") == 0o700
        secret = [path for path in own.iterdir() if path.name != "rack.toml"]
        assert {mode_of(path) for path in secret} == {0o600}
        trust = load_trust(own / "trusted.toml")
        others = {f"h{i}" for i in range(3)} - {node.name} if node.role == "host" else set()
        assert set(trust) == others | {"operator"}
        for name in others:
            assert trust[name][0].key == load_keys(home / "rack" / name).public
    assert not (home / "rack" / "leaf1" / "key").exists(), "a BFR signs nothing"
    assert "fanfold bfr --config leaf1/rack.toml --node leaf1 --keys leaf1" in out
    words = "--config h1/rack.toml --node h1 --keys h1 --into incoming"
    assert f"fanfold receive {words}" in out
    assert "fanfold push FILE --config h0/rack.toml --from h0 --keys h0" in out


def test_what_is_there_is_not_written_over_and_what_was_broken_off_goes_on(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = fabric_init.save_trust

    def break_off(path: Path, rows: object) -> None:
        if path.parent.name == "h1":
            raise KeyboardInterrupt
        made(path, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(fabric_init, "save_trust", break_off)
    assert init(*FEW) == 130
    monkeypatch.setattr(fabric_init, "save_trust", made)
    key = load_link_key(home / "rack" / "h0").text
    assert not (home / "rack" / "rack.toml").exists()
    assert init(*FEW, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["is_new"]
    assert load_fabric(home / "rack" / "rack.toml").by_name["h0"].link_key == key
    before = {path: path.read_bytes() for path in (home / "rack").rglob("*") if path.is_file()}
    assert init(*FEW) == 0
    assert "it was there, nothing was changed" in capsys.readouterr().out
    for words in (
        ("--hosts", HOSTS.replace(".12", ".13"), "--bfrs", "leaf1=10.0.0.1"),
        (*FEW, "--open"),
        (*FEW, "--mtu", "9000"),
    ):
        assert init(*words) == 2
        assert "rack.toml: another fabric" in capsys.readouterr().err
    after = {path: path.read_bytes() for path in (home / "rack").rglob("*") if path.is_file()}
    assert after == before


def test_a_folder_of_something_else_is_left_alone(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "rack").mkdir()
    (home / "rack" / "thesis.tex").write_text("x")
    assert init(*FEW) == 2
    assert "has thesis.tex" in capsys.readouterr().err
    assert [path.name for path in (home / "rack").iterdir()] == ["thesis.tex"]
    (home / "rack" / "thesis.tex").unlink()
    (home / "rack" / "h0").mkdir()
    (home / "rack" / "h0" / "trusted.toml").write_text("")
    assert init(*FEW) == 2
    assert "h0/trusted.toml: has other things" in capsys.readouterr().err


def test_senders_that_are_named_are_the_only_ones(home: Path) -> None:
    assert init(*FEW, "--senders", "h0,h2") == 0
    (of_h0,) = load_trust(home / "rack" / "h1" / "trusted.toml")["h0"]
    (of_h1,) = load_trust(home / "rack" / "h0" / "trusted.toml")["h1"]
    assert (of_h0.is_sender, of_h1.is_sender) == (True, False)


def test_an_open_fabric_is_asked_for_and_said(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init(*FEW, "--open") == 0
    out, err = capsys.readouterr()
    assert err == "note: open: whoever reaches these machines may push, read and forge\n"
    fabric = load_fabric(home / "rack" / "rack.toml")
    assert (fabric.open, fabric.link_keys, fabric.mtu) == ("all", "off", 1500)
    assert [path.name for path in (home / "rack").iterdir()] == ["rack.toml"]
    assert "fanfold bfr --config rack.toml --node leaf1\n" in out


def test_any_topology_is_put_at_the_addresses_of_a_network_or_a_file(home: Path) -> None:
    words = ("--topology", "leaf-spine:leaves=2,spines=1,hosts=4", "--addresses")
    assert init(*words, "10.3.0.0/28") == 0
    fabric = load_fabric(home / "rack" / "rack.toml")
    given = [f"10.3.0.{i}" for i in range(1, 8)]
    assert [node.address for node in fabric.nodes] == given
    lines = [f"{node.name} 10.4.0.{i}  # rack 7" for i, node in enumerate(fabric.nodes, 1)]
    (home / "places").write_text("\n".join(["# all", *lines]))
    assert run(["fabric", "init", "other", *words, "places"]) == 0
    other = load_fabric(home / "other" / "other.toml")
    assert [node.address for node in other.nodes] == [f"10.4.0.{i}" for i in range(1, 8)]
    assert other.links == fabric.links


def test_hosts_are_at_the_bfrs_that_they_name(home: Path) -> None:
    words = ("--hosts", "a=10.0.0.1@l1,b=10.0.0.2@l1+l2", "--bfrs", "l1=10.0.1.1,l2=10.0.1.2")
    assert init(*words) == 0
    links = load_fabric(home / "rack" / "rack.toml").links
    assert [(x.a, x.b) for x in links] == [("l1", "a"), ("l1", "b"), ("l2", "b"), ("l1", "l2")]
    more = (*words[:3], words[3] + ",s=10.0.1.3", "--links", "l1-s,s-l2", "--name", "rack2")
    assert run(["fabric", "init", "two", *more]) == 0
    links = load_fabric(home / "two" / "rack2.toml").links
    assert [(x.a, x.b) for x in links][3:] == [("l1", "s"), ("s", "l2")]


def test_tenants_and_labels_of_a_file_are_kept(home: Path) -> None:
    plain = leaf_spine(1, 0, 3, name="rack")
    labelled = tuple(
        msgspec.structs.replace(node, labels=(("region", "eu"),)) for node in plain.nodes
    )
    tenants = (Tenant("red", 1, ("h0", "h1")),)
    save_fabric(
        msgspec.structs.replace(plain, nodes=labelled, tenants=tenants), home / "plain.toml"
    )
    assert init("--config", "plain.toml") == 0
    fabric = load_fabric(home / "rack" / "rack.toml")
    assert fabric.line_mtu() == plain.mtu, "links are as they were"
    assert run(["fabric", "init", "open", "--config", "plain.toml", "--open"]) == 0
    assert load_fabric(home / "open" / "rack.toml").mtu == plain.mtu
    operator = load_keys(home / "rack" / "operator").public
    assert all(proven_labels(fabric, node, [operator]) for node in fabric.nodes)
    assert set(load_trust(home / "rack" / "h0" / "trusted.toml")) == {"h1", "operator"}
    assert set(load_trust(home / "rack" / "h2" / "trusted.toml")) == {"h3", "operator"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--bfrs: got '', allowed: NAME=ADDRESS"),
        (("--bfrs", "l=10.0.0.1", "--hosts", "h0"), "--hosts: got 'h0', allowed: NAME=ADDRESS"),
        (("--bfrs", "l=10.0.0.1@x", "--hosts", "h0=10.0.0.2"), "--bfrs: got 'l=10.0.0.1@x'"),
        (
            ("--bfrs", "l=10.0.0.1,m=10.0.0.2", "--hosts", "h0=10.0.0.3"),
            "--hosts: got 'h0', allowed: h0=ADDRESS@BFR, with l, m",
        ),
        (("--bfrs", "l=10.0.0.1", "--hosts", "h0=10.0.0.2@x"), "--hosts: got 'h0 at x'"),
        (("--bfrs", "l=10.0.0.1", "--hosts", "h0=10.0.0.1"), "one that node[0] has not"),
        (("--bfrs", "l=10.0.0.1", "--hosts", "operator=10.0.0.2"), "another name: it is that"),
        ((*FEW, "--links", "leaf1-x"), "--links: got 'leaf1-x', allowed: two of --bfrs"),
        ((*FEW, "--senders", "leaf1"), "--senders: got 'leaf1'"),
        ((*FEW, "--open", "--senders", "h0"), "--senders: got 'h0', allowed: none beside"),
        ((*FEW, "--addresses", "10.0.0.0/8"), "--addresses: got '10.0.0.0/8', allowed: none"),
        (("--config", "x.toml", "--mtu", "1500"), "--mtu: got 1500, allowed: none beside"),
        ((*FEW, "--mtu", "599"), "--mtu: got 599, allowed: 600..65535"),
        (("--topology", "star:hosts=4"), "--addresses: got '', allowed: a network"),
        (("--topology", "star:hosts=4", "--addresses", "10.0.0.0/30"), "with room for 5 nodes"),
        (("--topology", "star:hosts=4", "--addresses", "lines"), "line 2: got 'h9 x'"),
        (
            ("--topology", "star:hosts=4", "--addresses", "short"),
            "got 'no h1', allowed: a line",
        ),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_made(
    home: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    (home / "lines").write_text("h0 10.0.0.1\nh9 x\n")
    (home / "short").write_text("h0 10.0.0.1\n")
    assert init(*words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not (home / "rack").exists()


def test_a_lab_of_a_closed_fabric_has_keys_without_being_told(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert init(*FEW) == 0
    made: dict[str, object] = {}

    def up(lab: Lab, fabric: object, supervise: object, say: object) -> dict[str, object]:
        made[lab.name] = fabric
        return {}

    monkeypatch.setattr(Lab, "up", up)
    monkeypatch.setattr(labs, "require_mtu", lambda fabric: None)
    closed = load_fabric(home / "rack" / "rack.toml")
    labs.start_lab(Lab("closed"), closed)
    assert (Lab("closed").folder / "keys" / "trusted.toml").exists()
    far = msgspec.structs.replace(closed, open="", link_keys="off")
    labs.start_lab(Lab("far"), far)
    fabric = made["far"]
    assert (fabric.open, fabric.link_keys) == ("none", "required")  # type: ignore[attr-defined]
    labs.start_lab(Lab("asked"), msgspec.structs.replace(far, open="all"))
    assert not (Lab("asked").folder / "keys").exists()
