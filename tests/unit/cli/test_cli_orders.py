"""Orders to the nodes of several machines: by command, over TCP, by the operator's key."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fanfold.api.keys import Place, operators_at
from fanfold.cli.main import run
from fanfold.live.control import Commands, open_tcp
from fanfold.live.operators import Operators
from fanfold.topo.fabric_file import load_fabric, save_fabric
from fanfold.topo.lab_fabric import leaf_spine


class Rack:
    """Control sockets of all nodes of a fabric, and what each was told to do."""

    def __init__(self, folder: Path) -> None:
        plain = leaf_spine(2, 2, 1, name="rack", prefix=231)
        with closing(socket.create_server((plain.nodes[0].address, 0))) as probe:
            port = probe.getsockname()[1]
        save_fabric(msgspec.structs.replace(plain, port=port), folder / "plain.toml")
        assert (
            run(
                ["fabric", "init", str(folder / "made"), "--config", str(folder / "plain.toml")]
            )
            == 0
        )
        self.file, self.operator = folder / "made" / "rack.toml", folder / "made" / "operator"
        self.fabric = load_fabric(self.file)
        self.told: dict[str, list[dict[str, Any]]] = {n.name: [] for n in self.fabric.nodes}
        self.faults: dict[str, str] = {}
        self.closes = [self._open(node.name, folder) for node in self.fabric.nodes]

    def _open(self, name: str, folder: Path) -> Any:
        def do(request: dict[str, Any]) -> dict[str, Any]:
            self.told[name].append(request)
            return {"error": self.faults[name]} if name in self.faults else {"ok": True}

        commands = Commands({"rekey": do, "table": do, "status": do}, lambda: None)
        commands._wake = commands.run_waiting
        who = operators_at(name, Place(folder / "made" / name))
        operators = Operators(self.fabric.name, name, who, lambda line: None)
        address = self.fabric.by_name[name].address
        return open_tcp(address, self.fabric.port, commands, frozenset(), operators=operators)

    def order(self, *words: object) -> int:
        return run([*map(str, words), "--operator", str(self.operator)])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rack]:
    rack = Rack(tmp_path_factory.mktemp("rack"))
    yield rack
    with ThreadPoolExecutor(len(rack.closes)) as pool:
        list(pool.map(lambda close: close(), rack.closes))


@pytest.fixture
def rack(made: Rack) -> Rack:
    made.faults.clear()
    for told in made.told.values():
        told.clear()
    return made


def test_new_session_keys_go_to_all_and_a_revocation_to_neighbours(
    rack: Rack, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rack.order("keys", "rekey", "--config", rack.file) == 0
    assert "new keys for the links of 6 nodes" in capsys.readouterr().out
    everyone = {"do": "rekey", "revoked": []}
    assert rack.told == {name: [everyone] for name in rack.told}
    assert rack.order("keys", "rekey", "--config", rack.file, "--revoke", "h1") == 0
    (beside,) = rack.fabric.neighbours["h1"]
    assert rack.told[beside][1:] == [{"do": "rekey", "revoked": ["h1"]}]
    assert {name: len(told) for name, told in rack.told.items() if name != beside} == (
        dict.fromkeys(rack.told.keys() - {beside}, 1)
    )
    rack.faults["spine1"] = "busy"
    assert rack.order("keys", "rekey", "--config", rack.file) == 4
    assert "spine1: busy" in capsys.readouterr().err


def test_new_tables_go_to_all_and_into_a_file(
    rack: Rack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "next.toml"
    words = ("fabric", "reroute", rack.file, "--cut", "leaf1-spine1", "--out", out)
    assert rack.order(*words) == 0
    assert "tables of version 2 at 6 nodes; copy it" in capsys.readouterr().out
    after = load_fabric(out)
    cut = [(link.a, link.b) for link in after.links if not link.up]
    assert [set(ends) for ends in cut] == [{"leaf1", "spine1"}]
    for told in rack.told.values():
        (request,) = told
        assert (request["do"], request["version"]) == ("table", 2)
        assert request["links"] == [int(link.up) for link in after.links]
    assert load_fabric(rack.file).version == 1, "the old file is as it was"
    rack.faults["leaf2"] = "no"
    assert rack.order(*words) == 4
    assert "version 2 is not at leaf2: no" in capsys.readouterr().err
