"""Files with keys of links: what changed is read, what is faulty is told of."""

from pathlib import Path

import msgspec
import pytest

from fanfold.errors import ConfigError
from fanfold.live.key_log import KeyLog, open_key_log
from fanfold.live.key_watch import LOOK_PS, KeyPlace, KeyWatch, OwnKey
from fanfold.seals.link_keys import (
    NEXT_LINK_KEY_FILE,
    LinkKey,
    load_link_key,
    make_link_key,
    use_next_link_key,
)
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import save_fabric
from fanfold.topo.lab_fabric import leaf_spine


class World:
    """The folder of h1's key and a fabric file; what was told."""

    def __init__(self, home: Path) -> None:
        self.folder, self.file = home / "h1", home / "fabric.toml"
        self.told: list[str] = []
        nodes = leaf_spine(1, 0, 2).nodes
        texts = {n.name: make_link_key(home / n.name).text for n in nodes}
        self.fabric = msgspec.structs.replace(
            leaf_spine(1, 0, 2),
            link_keys="required",
            nodes=tuple(msgspec.structs.replace(n, link_key=texts[n.name]) for n in nodes),
        )
        save_fabric(self.fabric, self.file)
        place = KeyPlace(self.folder, self.file)
        self.watch = KeyWatch(
            OwnKey(load_link_key(self.folder), place), self.fabric, "h1", self.told.append
        )
        self.now = 0

    def name(self, node: str, key: str, also: str) -> None:
        words = {"link_key": key, "link_key_also": also}
        rows = tuple(
            msgspec.structs.replace(n, **words) if n.name == node else n
            for n in self.fabric.nodes
        )
        self.fabric: Fabric = msgspec.structs.replace(self.fabric, nodes=rows)
        save_fabric(self.fabric, self.file)

    def looks(self) -> bool:
        self.now += LOOK_PS
        return self.watch.look(self.now)


def test_a_change_between_reading_and_the_first_look_is_seen(tmp_path: Path) -> None:
    """A push reads the fabric, a key is rotated, the push begins to watch."""
    world = World(tmp_path)
    old = world.fabric.by_name["h0"].link_key
    new = make_link_key(tmp_path / "another").text
    world.name("h0", old, new)
    place = KeyPlace(world.folder, world.file)
    before = msgspec.structs.replace(
        world.fabric,
        nodes=tuple(msgspec.structs.replace(n, link_key_also="") for n in world.fabric.nodes),
    )
    own = OwnKey(load_link_key(world.folder), place)
    watch = KeyWatch(own, before, "h1", world.told.append)
    assert watch.look(LOOK_PS)
    assert watch.nodes["h0"].link_key_also == new
    assert not watch.look(2 * LOOK_PS)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_files_are_read_when_they_changed_and_once_a_second(world: World) -> None:
    assert not world.looks()
    new = LinkKey(bytes([7]) * 32).text
    old = world.fabric.by_name["leaf1"].link_key
    world.name("leaf1", old, new)
    assert not world.watch.look(world.now + 1), "it looked just now"
    assert world.looks()
    assert world.watch.nodes["leaf1"].link_key_also == new
    assert not world.looks()
    world.name("leaf1", new, "")
    assert world.watch.look(world.now + 1, at_once=True)
    assert world.watch.nodes["leaf1"].link_key == new


def test_its_own_key_is_used_when_the_fabric_names_it_and_the_old_one_while_it_does(
    world: World,
) -> None:
    old = world.watch.own.text
    new = make_link_key(world.folder, NEXT_LINK_KEY_FILE).text
    use_next_link_key(world.folder)
    assert not world.looks(), "nobody names it yet"
    assert (world.watch.own.text, world.watch.older) == (old, None)
    world.name("h1", old, new)
    assert world.looks()
    assert world.watch.older is not None
    assert (world.watch.own.text, world.watch.older.text) == (new, old)
    world.name("h1", new, "")
    assert world.looks()
    assert (world.watch.own.text, world.watch.older) == (new, None)


def test_what_is_faulty_is_told_once_and_changes_nothing(world: World) -> None:
    before = dict(world.watch.nodes)
    world.file.write_text("[fabric")
    assert not world.looks()
    assert not world.looks()
    (told,) = world.told
    assert "keys stay as they are" in told
    assert world.watch.nodes == before
    (world.folder / "link.key").chmod(0o644)
    save_fabric(world.fabric, world.file)
    assert not world.looks()
    assert "644" in world.told[1]


def test_a_key_log_is_its_owner_s_alone(tmp_path: Path) -> None:
    path = tmp_path / "keys.log"
    assert open_key_log({}) is None
    log = open_key_log({"FANFOLD_KEYLOG": str(path)})
    assert log is not None
    log.note_push(0x2A01, bytes(32))
    log.close()
    assert path.read_text() == f"FANFOLD_PUSH_1 00002a00 {'00' * 32}\n"
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="640"):
        KeyLog(path)
    with pytest.raises(ConfigError, match="--keylog"):
        KeyLog(tmp_path / "no" / "folder")
