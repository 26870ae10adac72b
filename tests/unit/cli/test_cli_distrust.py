"""`fanfold keys distrust`: who is trusted no more, by which file, and what is refused."""

from contextlib import closing
from pathlib import Path

import pytest

from fanfold.api.keys import gate_of, make_link_keys, place_of
from fanfold.api.site import Site
from fanfold.cli.main import run
from fanfold.errors import ConfigError
from fanfold.live.event_loop import EventLoop
from fanfold.live.key_watch import KeyPlace, OwnKey
from fanfold.live.lab import Lab
from fanfold.live.link_driver import drive_links, room_for_links
from fanfold.live.ports import Limits, build_node_state, build_sock, open_socket
from fanfold.seals.keys import keys_folder
from fanfold.seals.link_keys import LinkKey, load_link_key
from fanfold.seals.trust import load_trust
from fanfold.topo.fabric import REVOKED, Fabric
from fanfold.topo.fabric_file import load_fabric, save_fabric
from fanfold.topo.lab_fabric import leaf_spine


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FANFOLD_STATE_DIR", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def trusted(home: Path) -> Path:
    """The trust file of h1: of h0 two keys, of h2 one, whose pushes it does not take."""
    for name in ("h0", "h2", "new"):
        assert run(["keys", "init", "--node", name]) == 0
    of = {name: str(keys_folder(name) / "key.pub") for name in ("h0", "h2", "new")}
    for node, key, flags in (
        ("h0", of["h0"], []),
        ("h0", of["new"], []),
        ("h2", of["h2"], ["--no-sender"]),
    ):
        assert run(["keys", "trust", node, key, "--node", "h1", *flags]) == 0
    return keys_folder("h1") / "trusted.toml"


def distrust(*words: str) -> int:
    return run(["keys", "distrust", *words])


def test_one_key_or_all_of_a_node_go_and_the_rest_stays(
    trusted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = (keys_folder("h0") / "key.pub").read_text().strip()
    assert distrust("h0", key, "--node", "h1") == 0
    assert capsys.readouterr().out.endswith("; 1 may push there still\n")
    assert [row.key.text == key for row in load_trust(trusted)["h0"]] == [False]
    assert distrust("h0", "--node", "h1") == 0
    assert capsys.readouterr().out.endswith("; nobody may push there now\n")
    assert set(load_trust(trusted)) == {"h2"}
    assert distrust("h2", "--trusted", str(trusted)) == 0
    assert load_trust(trusted) == {}
    gate = gate_of(leaf_spine(1, 0, 2), "h1", place_of(None, None))
    assert not gate.is_open, "an empty file trusts nobody"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("h9", "--node", "h1"), "NAME: got 'h9', allowed: who is in"),
        (("h2", "{new}", "--node", "h1"), "NAME: got 'h2 by ff1:"),
        (("h0", "--node", "h7"), "a trust file that can be read"),
        (("h0",), "--node: got ''"),
        (("h0", "ff1:x", "--node", "h1"), "KEY: got 'ff1:x', allowed: a public key"),
        (("h0", "--config", "x.toml", "--node", "h1"), "none without --links"),
        (("h0", "--links"), "beside it --config FILE or --lab"),
        (("h0", "--links", "--config", "x", "--lab", "y"), "beside it --config FILE or --lab"),
        (("h0", "--lab", "nowhere"), "nowhere"),
        (("h0", "--links", "--lab", "nowhere"), "nowhere"),
    ],
)
def test_what_is_wrong_is_one_line_and_changes_nothing(
    trusted: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    before = trusted.read_text()
    new = str(keys_folder("new") / "key.pub")
    capsys.readouterr()
    assert distrust(*(word.replace("{new}", new) for word in words)) in (2, 3)
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert trusted.read_text() == before


@pytest.fixture
def keyed(home: Path) -> Path:
    """A fabric file with keys and a comment."""
    fabric = make_link_keys(leaf_spine(1, 0, 2, name="rack"), home / "secret", "required")
    save_fabric(fabric, home / "keyed.toml")
    text = (home / "keyed.toml").read_text()
    (home / "keyed.toml").write_text(f"# in the cellar\n{text}")
    return home / "keyed.toml"


def test_the_key_of_a_node_s_links_is_revoked_in_the_file(
    keyed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keyed.chmod(0o640)
    before = load_fabric(keyed)
    assert distrust("h2", "--links", "--config", str(keyed)) == 0
    assert "the key of h2 is revoked; what runs with this file" in capsys.readouterr().out
    after = load_fabric(keyed)
    assert after.by_name["h2"].link_key == REVOKED
    assert [n for n in after.nodes if n.name != "h2"] == [
        n for n in before.nodes if n.name != "h2"
    ]
    assert keyed.read_text().startswith("# in the cellar\n")
    assert keyed.stat().st_mode & 0o777 == 0o640
    other = LinkKey(bytes([7]) * 32).text
    own = after.by_name["h1"].link_key
    both = f'{own}"\nlink_key_also = "{other}"'
    keyed.write_text(keyed.read_text().replace(f'{own}"', both))
    assert load_fabric(keyed).by_name["h1"].link_key_also == other
    assert distrust("h1", "--links", "--config", str(keyed)) == 0, "a second one"
    assert load_fabric(keyed).by_name["h1"].link_key_also == ""
    for words, said in (
        (("h2",), "h2, which is revoked"),
        (("h9",), "NAME: got 'h9', allowed: h1, h2, h0, leaf1"),
    ):
        assert distrust(*words, "--links", "--config", str(keyed)) == 2
        assert said in capsys.readouterr().err


def test_who_is_revoked_in_the_file_has_no_session_within_a_second(
    keyed: Path, home: Path
) -> None:
    fabric = load_fabric(keyed)
    place = KeyPlace(home / "secret" / "leaf1", keyed)
    with closing(loop_of(fabric, "leaf1")) as loop:
        driver = drive_links(loop, fabric, "leaf1", OwnKey(load_link_key(place.folder), place))
        assert driver is not None
        driver.on_timer(0)
        assert all(peer.public for port, peer in driver.machine.peers.items() if port)
        assert distrust("h2", "--links", "--config", str(keyed)) == 0
        driver.read_files()
        known = {port: bool(peer.known()) for port, peer in driver.machine.peers.items()}
        assert known == {0: True, 1: True, 2: True, 3: False}
        told = driver.status()["link_keys"]["links"]
        assert told["h2"] == {"mode": "required", "revoked": True}
        assert "h2" not in driver._lacking()
        assert list(loop.io.exits["keys"]) == [2, 2, 2, 2], "nothing passes without a key"
    revoked, own = load_fabric(keyed), OwnKey(load_link_key(home / "secret" / "h2"))
    with (
        closing(loop_of(revoked, "h2")) as loop,
        pytest.raises(ConfigError, match=r"h2: link_key: got 'revoked'"),
    ):
        drive_links(loop, revoked, "h2", own)


@pytest.mark.parametrize("answer", [{"ok": True}, {"error": "did not answer"}])
def test_nodes_of_a_lab_are_told_to_read_its_file(
    keyed: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: dict[str, object],
) -> None:
    asked: dict[str, object] = {}

    def order(site: Site, requests: dict[str, dict[str, object]]) -> dict[str, object]:
        asked.update(requests)
        return dict.fromkeys(requests, answer)

    monkeypatch.setattr(Lab, "is_up", lambda lab: True)
    monkeypatch.setattr(Lab, "fabric", lambda lab: load_fabric(keyed))
    monkeypatch.setattr(Lab, "keep", lambda lab, fabric: save_fabric(fabric, keyed))
    monkeypatch.setattr(Site, "order", order)
    is_good = "ok" in answer
    assert distrust("h2", "--links", "--lab", "lab") == (0 if is_good else 4)
    out, err = capsys.readouterr()
    assert ("the key of h2 is revoked at 1 nodes" in out) == is_good
    assert ("leaf1: did not answer" in err) != is_good
    assert asked == {"leaf1": {"do": "rekey", "reads": True}}
    assert load_fabric(keyed).by_name["h2"].link_key == REVOKED


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("keys", "rekey", "--operator", "x"), "--operator: got 'x', allowed: none without"),
        (("top", "--operator", "x"), "not up"),
        (
            ("top", "--once", "--config", "{file}", "--operator", "x"),
            "--operator: got 'x/key: No such file",
        ),
        (("keys", "rekey", "--config", "{file}"), "--operator: got '"),
        (("fabric", "reroute", "{file}", "--out", "x.toml"), "--operator: got '"),
    ],
)
def test_orders_need_the_operators_keys_and_a_fabric(
    keyed: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert run([word.replace("{file}", str(keyed)) for word in words]) in (2, 3)
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def loop_of(fabric: Fabric, name: str) -> EventLoop:
    sock = open_socket("127.0.0.1", 0, "test")
    io = build_sock(sock, len(fabric.port_nodes(name)), n_links=room_for_links(fabric, name))
    return EventLoop(sock, io, build_node_state(fabric, name, Limits()), None)
