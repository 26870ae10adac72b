"""Keys of links from the command line to nodes that refuse to start without theirs."""

from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fanfold.api.keys import link_key_of, make_lab_links, make_link_keys
from fanfold.cli.main import run
from fanfold.errors import ConfigError, EnvironmentLack
from fanfold.kernels.codes import DROP_BAD_HANDSHAKE, N_DROPS
from fanfold.kernels.impairment import build_impairments
from fanfold.kernels.layout import TRAILER_BYTES
from fanfold.live import link_driver
from fanfold.live.channels import Channels
from fanfold.live.event_loop import EventLoop
from fanfold.live.key_watch import OwnKey
from fanfold.live.lab import Lab
from fanfold.live.link_driver import (
    LinkDriver,
    drive_links,
    room_for_links,
)
from fanfold.live.ports import Limits, build_node_state, build_sock, check_mtu, open_socket
from fanfold.live.rank_build import build_rank
from fanfold.live.rank_links import RankLinks, find_link_key
from fanfold.seals.keys import keys_folder
from fanfold.seals.link_keys import LinkKey, load_link_key
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric, save_fabric
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.units import PS_PER_MS
from fanfold.wire.link import WORD


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FANFOLD_STATE_DIR", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def keyed(home: Path) -> Fabric:
    save_fabric(leaf_spine(1, 0, 2, name="rack"), home / "rack.toml")
    words = ("keys", "links", str(home / "rack.toml"), "--into", str(home / "secret"))
    assert run([*words, "--out", str(home / "keyed.toml")]) == 0
    return load_fabric(home / "keyed.toml")


def test_a_fabric_gets_keys_and_each_node_a_folder(keyed: Fabric, home: Path) -> None:
    assert keyed.link_keys == "required"
    assert all(keyed.has_keys(node.name) for node in keyed.nodes)
    for node in keyed.nodes:
        key = load_link_key(home / "secret" / node.name)
        assert key.text == node.link_key
        assert link_key_of(keyed, node.name, home / "secret" / node.name).key.text == key.text
    again = make_link_keys(keyed, home / "secret", "on")
    assert [n.link_key for n in again.nodes] == [n.link_key for n in keyed.nodes]
    with pytest.raises(ConfigError, match="fanfold keys links"):
        link_key_of(keyed, "h1")
    assert link_key_of(leaf_spine(1, 0, 2), "h1") is None


@pytest.mark.parametrize("words", [("--mode", "off"), ("--mode", "x")])
def test_modes_are_two(home: Path, capsys, words: tuple[str, ...]) -> None:
    save_fabric(leaf_spine(1, 0, 2, name="rack"), home / "rack.toml")
    given = ("keys", "links", str(home / "rack.toml"), "--into", str(home), "--out", "x.toml")
    assert run([*given, *words]) == 2
    assert "allowed: required, on" in capsys.readouterr().err


def test_a_link_may_differ_from_its_fabric(keyed: Fabric, home: Path) -> None:
    links = tuple(
        msgspec.structs.replace(link, keys="off" if "h1" in (link.a, link.b) else "")
        for link in keyed.links
    )
    fabric = msgspec.structs.replace(keyed, links=links)
    save_fabric(fabric, home / "mixed.toml")
    assert load_fabric(home / "mixed.toml") == fabric
    assert fabric.key_modes[frozenset(("h1", "leaf1"))] == "off"
    assert fabric.key_modes[frozenset(("h2", "leaf1"))] == "required"
    assert (fabric.has_keys("h1"), fabric.has_keys("leaf1")) == (False, True)
    assert (room_for_links(fabric, "h1"), room_for_links(fabric, "leaf1") > 0) == (0, True)


@pytest.mark.parametrize("change", ["none", "twice", "text", "mode"])
def test_files_whose_keys_are_wrong_are_refused_by_field(
    keyed: Fabric, home: Path, change: str
) -> None:
    text = (home / "keyed.toml").read_text()
    old = [node.link_key for node in keyed.nodes]
    new = {
        "none": text.replace(f'link_key = "{old[1]}"\n', ""),
        "twice": text.replace(old[1], old[0]),
        "text": text.replace(old[1], "fl1:short"),
        "mode": text.replace('link_keys = "required"', 'link_keys = "always"'),
    }[change]
    (home / "bad.toml").write_text(new)
    field = "fabric.link_keys" if change == "mode" else r"node\[1\].link_key"
    with pytest.raises(ConfigError, match=field):
        load_fabric(home / "bad.toml")


def test_labs_get_keys_where_flag_or_file_ask_for_them(keyed: Fabric) -> None:
    lab = Lab("keyed")
    plain = leaf_spine(1, 0, 2)
    assert make_lab_links(lab, plain, is_required=False) is plain
    made = make_lab_links(lab, plain, is_required=True)
    assert made.link_keys == "required"
    assert load_link_key(lab.folder / "keys" / "h1").text == made.by_name["h1"].link_key
    of_file = make_lab_links(lab, keyed, is_required=False)
    assert of_file.by_name["h1"].link_key != keyed.by_name["h1"].link_key


def test_a_lab_that_is_not_there_or_open_has_no_sessions_to_change(capsys) -> None:
    assert run(["keys", "rekey", "--lab", "nowhere"]) == 3
    assert "nowhere" in capsys.readouterr().err


def test_the_next_key_of_links_is_drawn_and_then_used(
    keyed: Fabric, home: Path, capsys
) -> None:
    folder = str(home / "secret" / "h1")
    old = load_link_key(home / "secret" / "h1").text
    assert run(["keys", "rotate", "--links", "--keys", folder, "--finish"]) == 2, (
        "none is staged"
    )
    capsys.readouterr()
    assert run(["keys", "rotate", "--links", "--node", "h1", "--keys", folder]) == 0
    new = capsys.readouterr().out.splitlines()[0]
    assert load_link_key(home / "secret" / "h1").text == old
    assert run(["keys", "rotate", "--links", "--keys", folder, "--finish"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == new != old
    assert load_link_key(home / "secret" / "h1").text == new


def test_a_second_key_of_a_node_is_read_checked_and_nobody_else_s(
    keyed: Fabric, home: Path
) -> None:
    def with_also(text: str) -> Fabric:
        nodes = tuple(
            msgspec.structs.replace(n, link_key_also=text) if n.name == "h1" else n
            for n in keyed.nodes
        )
        return msgspec.structs.replace(keyed, nodes=nodes)

    made = with_also(LinkKey(bytes([7]) * 32).text)
    save_fabric(made, home / "both.toml")
    assert load_fabric(home / "both.toml") == made
    for wrong, field in (
        ("fl1:x", "link_key_also"),
        (keyed.by_name["h2"].link_key, "link_key"),
    ):
        with pytest.raises(ConfigError, match=field):
            save_fabric(with_also(wrong), home / "wrong.toml")


def test_a_lab_whose_key_is_to_be_replaced_is_up_and_has_time(home: Path, capsys) -> None:
    assert run(["keys", "rotate", "--lab", "nowhere", "--node", "h1"]) == 3
    assert "nowhere" in capsys.readouterr().err


@pytest.fixture
def loop(keyed: Fabric):
    sock = open_socket("127.0.0.1", 0, "test")
    state = build_node_state(keyed, "h1", Limits())
    made = EventLoop(
        sock, build_sock(sock, 2, n_links=room_for_links(keyed, "h1")), state, None
    )
    yield made
    made.close()


def test_a_node_without_its_key_or_with_another_does_not_start(
    keyed: Fabric, loop: EventLoop
) -> None:
    with pytest.raises(ConfigError, match="h1: link key"):
        drive_links(loop, keyed, "h1", None)
    with pytest.raises(ConfigError, match="h1: link_key"):
        drive_links(loop, keyed, "h1", OwnKey(LinkKey(bytes(range(32)))))
    assert loop.links is None
    assert drive_links(loop, leaf_spine(1, 0, 2), "h1", None) is None


def test_a_push_whose_neighbour_does_not_answer_ends_with_a_line(
    keyed: Fabric, home: Path, loop: EventLoop, monkeypatch
) -> None:
    monkeypatch.setattr(link_driver, "FIRST_KEYS_PS", 200 * PS_PER_MS)
    loop.node.ports.addr[1] = 0x7F000001
    key = OwnKey(load_link_key(home / "secret" / "h1"))
    driver = drive_links(loop, keyed, "h1", key)
    assert isinstance(driver, LinkDriver)
    assert list(loop.io.exits["keys"]) == [2, 2], "its own address is no way in either"
    with pytest.raises(EnvironmentLack, match="h1: no key with leaf1"):
        driver.wait_for_keys(loop.step)
    told = driver.status()["link_keys"]
    assert told["links"] == {"leaf1": {"mode": "required"}}
    driver.on_link(0, WORD + b"\x1a\x01", 1)
    driver.on_link(0, WORD + b"\x18", 1)
    assert loop.node.counters.drops[DROP_BAD_HANDSHAKE] == 2
    with pytest.raises(ConfigError, match="revoked"):
        driver.rekey(("h2",))
    assert driver.rekey(("leaf1",)) == {"ok": True, "revoked": ["leaf1"]}
    assert driver.status()["link_keys"]["links"]["leaf1"]["revoked"]
    driver.wait_for_keys(loop.step)


def rank_links(fabric: Fabric, sock) -> RankLinks:
    io = build_sock(sock, 3, n_links=room_for_links(fabric, "h1"))
    near = np.array([0x7F000001, 0x7F000002], np.int64)
    return RankLinks(fabric, "h1", sock, io, near, np.zeros(N_DROPS, np.int64), Channels(io))


def test_a_rank_that_shares_no_memory_and_has_no_key_does_not_start(
    keyed: Fabric, home: Path
) -> None:
    with closing(open_socket("127.0.0.1", 0, "test")) as sock:
        state, none = build_rank(keyed, ["h1"], 0, 1, 20_001, 8, 0), np.zeros(0, np.int64)
        impairments = build_impairments(3, 2048, 9000)
        with pytest.raises(EnvironmentLack, match="rank on h1: no memory shared with leaf1"):
            rank_links(keyed, sock).begin(state, impairments, none)
        rank_links(leaf_spine(1, 0, 2), sock).begin(state, impairments, none)
        assert rank_links(keyed, sock).driver is None
        folder = keys_folder("h1")
        folder.parent.mkdir(parents=True, exist_ok=True)
        (home / "secret" / "h2").rename(folder)
        assert rank_links(keyed, sock).driver is None, "the key of another node"


def test_a_rank_finds_the_key_of_its_host(keyed: Fabric, home: Path) -> None:
    labs = Lab("other").folder
    (labs / "keys").mkdir(parents=True)
    (labs / "lab.json").write_text("{}")
    (home / "secret" / "h1").rename(labs / "keys" / "h1")
    assert find_link_key(keyed, "h1").key.text == keyed.by_name["h1"].link_key
    assert find_link_key(leaf_spine(1, 0, 2), "h1") is None


def test_the_trailer_has_to_fit_the_path(keyed: Fabric) -> None:
    path = 65535  # of loopback, as IPv4 can say it
    check_mtu(msgspec.structs.replace(keyed, mtu=path - TRAILER_BYTES), "h1")
    open_fabric = msgspec.structs.replace(leaf_spine(1, 0, 2), mtu=65535)
    check_mtu(open_fabric, "h1")
    with pytest.raises(ConfigError, match=f"less {TRAILER_BYTES} of trailers"):
        check_mtu(msgspec.structs.replace(keyed, mtu=65535), "h1")


def test_keys_are_looked_for_where_a_node_has_its_others(keyed: Fabric, home: Path) -> None:
    folder = keys_folder("h1")
    folder.parent.mkdir(parents=True, exist_ok=True)
    (home / "secret" / "h1").rename(folder)
    assert link_key_of(keyed, "h1").key.text == keyed.by_name["h1"].link_key
