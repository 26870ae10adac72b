"""A fabric that `fanfold fabric init` wrote: its nodes by hand, from the folders alone."""

import json
import os
import shlex
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from forgeries import Forger
from live_site import Site, finish, random_bytes, states, wait_for

from fanfold.live.control_sockets import call
from fanfold.topo.fabric_file import load_fabric

pytestmark = pytest.mark.live

MB = 1_000_000
BASE = f"127.95.{1 + os.getpid() % 250}"
HOSTS = ",".join(f"h{i}={BASE}.{10 + i}@leaf{1 + i // 2}" for i in range(3))
BFRS = f"leaf1={BASE}.1,leaf2={BASE}.2"
NODES = ("leaf1", "leaf2", "h0", "h1", "h2")


class Rack:
    """The machines of a fabric, each with its own folder alone in a home of its own."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site, self.folder = site, folder
        words = ("--hosts", HOSTS, "--bfrs", BFRS, "--senders", "h0")
        self.told = site.read("fabric", "init", folder / "rack", *words)
        self.fabric = load_fabric(folder / "rack" / "rack.toml")
        self.rows = {row["node"]: row for row in self.told["nodes"]}
        for name, row in self.rows.items():
            (folder / f"at-{name}").mkdir()
            shutil.copytree(row["copy"], folder / f"at-{name}" / name)
        shutil.rmtree(folder / "rack" / "h1")  # what was carried away is here no more

    def words(self, name: str, what: str, **given: str) -> list[str]:
        """A command that it printed, as typed at that machine."""
        home = self.folder / f"at-{name}"
        words = shlex.split(self.rows[name][what])[1:]
        there = {"--config", "--keys", "--into"}
        return [
            given.get(word, f"{home}/{word}" if before in there else word)
            for before, word in zip(["", *words], words, strict=False)
        ]

    def push(self, name: str, path: Path, *flags: str, code: int = 0) -> Any:
        words = [*self.words(name, "push", FILE=str(path)), "--patience", "1s", "--json"]
        done = self.site.run(*words, *flags)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    def status(self, name: str) -> Any:
        return call((self.fabric.by_name[name].address, self.fabric.port), {"do": "status"})

    def drops(self, name: str) -> dict[str, int]:
        told: dict[str, int] = self.status(name)["drops"]
        return told

    def came(self, name: str, path: Path) -> bytes:
        there = self.folder / f"at-{name}" / "incoming" / path.name
        return there.read_bytes() if there.exists() else b""


@pytest.fixture(scope="module")
def rack(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rack]:
    made = Rack(site, tmp_path_factory.mktemp("rack"))
    with ExitStack() as stack:
        runs = {name: site.start(*made.words(name, "run")) for name in NODES}
        for run in runs.values():
            stack.callback(finish, run, 20)
        for run in runs.values():  # what is called back last comes first: all end at once
            stack.callback(run.terminate)
        firsts = [run.stdout.readline() for run in runs.values() if run.stdout]
        assert [line.partition(":")[0] for line in firsts] == [*runs], firsts
        assert runs["h1"].stdout is not None
        assert "h1: takes signed pushes of h0; its key is" in runs["h1"].stdout.readline()
        yield made


def test_a_push_that_says_nothing_of_keys_is_signed_and_comes_through(
    rack: Rack, tmp_path: Path
) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(random_bytes(MB, 1))
    result = rack.push("h0", path)
    assert states(result) == {"h1": "verified", "h2": "verified"}
    assert rack.came("h1", path) == rack.came("h2", path) == path.read_bytes()
    links = rack.status("leaf1")["link_keys"]["links"]
    assert {row["mode"] for row in links.values()} == {"required"}


def test_a_stranger_s_push_and_that_of_who_may_not_push_are_refused(
    rack: Rack, tmp_path: Path
) -> None:
    path = tmp_path / "strange.bin"
    path.write_bytes(random_bytes(300_000, 2))
    before = rack.drops("h1").get("link_no_key", 0)
    forger = Forger(None, rack.fabric, "h1")  # type: ignore[arg-type]  # it needs no lab for it
    forger.push("h0", path)
    wait_for(lambda: rack.drops("h1").get("link_no_key", 0) > before, "counted")
    (told,) = rack.push("h2", path, "--to", "h1", code=4)["receivers"]
    assert told["error"] == "refused: h2 may not push here"
    assert rack.came("h1", path) == b""


def test_the_operator_changes_nodes_by_its_key_and_nobody_by_another(
    rack: Rack, tmp_path: Path
) -> None:
    run, file = rack.site.run, rack.folder / "rack" / "rack.toml"
    operator = rack.folder / "rack" / "operator"
    before = rack.status("leaf1")["link_keys"]["made"]
    done = run("keys", "rekey", "--config", file, "--operator", operator)
    assert "new keys for the links of 5 nodes" in done.stdout, done.stderr
    wait_for(lambda: rack.status("leaf1")["link_keys"]["made"] > before, "new sessions")
    words = ("fabric", "reroute", file, "--weight", "leaf1-leaf2=3", "--out")
    done = run(*words, tmp_path / "next.toml", "--operator", operator)
    assert "tables of version 2 at 5 nodes" in done.stdout, done.stderr
    assert {name: rack.status(name)["table"]["version"] for name in NODES} == dict.fromkeys(
        NODES, 2
    )
    told = rack.site.read("top", "--config", file, "--operator", operator, "--once")
    assert [node["state"] for node in told["nodes"]] == ["up"] * 5
    for name in ("h0", "h1"):  # a sender, a receiver: trusted, but no operator
        own = rack.folder / f"at-{name}" / name
        done = run("keys", "rekey", "--config", file, "--operator", own)
        assert done.returncode == 4
        assert done.stderr.count("no order of this fabric's operator for this node") == 5


def test_who_is_revoked_in_the_file_of_a_bfr_gets_no_further_byte(
    rack: Rack, tmp_path: Path
) -> None:
    path = tmp_path / "later.bin"
    path.write_bytes(random_bytes(300_000, 3))
    file = rack.folder / "at-leaf2" / "leaf2" / "rack.toml"
    done = rack.site.run("keys", "distrust", "h2", "--links", "--config", file)
    assert done.returncode == 0, done.stderr
    began = time.monotonic()
    wait_for(
        lambda: rack.status("leaf2")["link_keys"]["links"]["h2"].get("revoked"),
        "revoked",
    )
    assert time.monotonic() - began < 2, "it looks once a second"
    before = rack.status("leaf2")["links"]["h2"]["tx"]
    told = {r["id"]: r["state"] for r in rack.push("h0", path, code=4)["receivers"]}
    assert told["h1"] == "verified"
    assert told["h2"] != "verified"
    assert rack.status("leaf2")["links"]["h2"]["tx"] == before
    assert rack.came("h2", path) == b""


def test_a_machine_without_its_folder_pushes_nothing(rack: Rack, tmp_path: Path) -> None:
    path = tmp_path / "none.bin"
    path.write_bytes(b"x")
    config = rack.folder / "rack" / "rack.toml"
    done = rack.site.run("push", path, "--config", config, "--from", "h0")
    assert done.returncode == 2
    assert "allowed: a folder that `fanfold keys" in done.stderr
    assert len(done.stderr.splitlines()) == 1
