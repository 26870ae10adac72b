"""Links with keys between network namespaces, and between machines that share a fabric file."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from live_site import LiveLab, Site, random_bytes, states, wait_for

from fanfold.kernels.jit import JIT
from fanfold.kernels.layout import TRAILER_BYTES
from fanfold.live.space_build import build_spaces, off_loopback
from fanfold.live.spaces import remove_spaces
from fanfold.topo.fabric_file import load_fabric, save_fabric
from fanfold.topo.lab_fabric import leaf_spine

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,
    pytest.mark.skipif(not JIT, reason="a live push is for compiled code"),
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and ip"),
]
NAME = "key-spaces"
SIZE = 2_000_003
PATH_MTU = 9000
"""Of the links between machines."""


def mtu_of(space: str, device: str) -> int:
    words = ["ip", "-n", space, "-j", "link", "show", device]
    told = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    return int(told[0]["mtu"])


def test_a_lab_of_namespaces_has_links_a_trailer_larger_and_ranks_with_keys(
    site: Site, tmp_path: Path
) -> None:
    flags = ("--leaves", 1, "--spines", 0, "--hosts", 2, "--namespaces", "--link-keys")
    lab = LiveLab(site, NAME, *flags)
    try:
        assert (
            mtu_of(f"ff.{NAME}.h1", "p1")
            == load_fabric(lab.folder / "fabric.toml").mtu + TRAILER_BYTES
        )
        path = tmp_path / "model.bin"
        path.write_bytes(random_bytes(SIZE, 1))
        assert states(lab.push(path)) == {"h1": "verified", "h2": "verified"}
        before = lab.status("leaf1")["drops"].get("link_no_key", 0)
        words = ("reduce-bench", "--lab", NAME, "--ranks", "h1,h2", "--sizes", "256KiB")
        lines = site.read(*words, "--rounds", 1)
        assert lines
        # a handshake that was sent twice may leave one packet under the first answer
        assert lab.status("leaf1")["drops"].get("link_no_key", 0) <= before + 2
        assert lab.status("leaf1")["link_keys"]["made"] >= 3 + 2, "ranks have their own"
    finally:
        lab.down()


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Path]:
    """A namespace for each machine, links of PATH_MTU, and a keyed fabric file for all."""
    made = off_loopback(leaf_spine(1, 0, 1, name="rack", prefix=77))
    made = msgspec.structs.replace(made, mtu=PATH_MTU - TRAILER_BYTES, open="ends")
    save_fabric(made, tmp_path / "rack.toml")
    remove_spaces(NAME)
    build_spaces(NAME, msgspec.structs.replace(made, mtu=PATH_MTU))
    try:
        passes_on = "echo 1 > /proc/sys/net/ipv4/ip_forward"  # what is asked over TCP
        space = f"ff.{NAME}.leaf1"
        subprocess.run(["ip", "netns", "exec", space, "sh", "-c", passes_on], check=True)
        yield tmp_path
    finally:
        remove_spaces(NAME)


def test_several_machines_have_keys_by_a_fabric_file(site: Site, machines: Path) -> None:
    secret, file = machines / "secret", machines / "keyed.toml"
    done = site.run("keys", "links", machines / "rack.toml", "--into", secret, "--out", file)
    assert f"links have to carry {PATH_MTU} bytes" in done.stdout
    path = machines / "model.bin"
    path.write_bytes(random_bytes(SIZE, 2))

    def start(node: str, *words: object) -> "subprocess.Popen[str]":
        space = ["ip", "netns", "exec", f"ff.{NAME}.{node}", sys.executable, "-m", "fanfold"]
        process = subprocess.Popen(
            [*space, *map(str, words)],
            env=site.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        stack.enter_context(process)
        stack.callback(process.kill)
        return process

    def named(node: str, at: Path = file) -> tuple[object, ...]:
        return ("--config", at, "--node", node, "--keys", secret / node)

    with ExitStack() as stack:
        large = msgspec.structs.replace(load_fabric(file), mtu=PATH_MTU)
        save_fabric(large, machines / "large.toml")
        refused = start("leaf1", "bfr", *named("leaf1", machines / "large.toml"))
        _, said = refused.communicate(timeout=60)
        assert refused.returncode == 2
        assert f"at most {PATH_MTU - TRAILER_BYTES}" in said
        leaf = start("leaf1", "bfr", *named("leaf1"))
        host = start("h1", "receive", *named("h1"), "--into", machines / "into")
        source = start("h0", "receive", *named("h0"), "--into", machines / "h0")
        for process in (leaf, host, source):
            assert process.stdout is not None
            if not process.stdout.readline():
                raise AssertionError(process.communicate(timeout=10)[1])
        own = ("--config", file, "--from", "h0", "--keys", secret / "h0")
        push = start("h0", "push", path, *own, "--json")
        out, said = push.communicate(timeout=60)
        assert push.returncode == 0, said
        assert states(json.loads(out)) == {"h1": "verified"}
        there = machines / "into" / path.name
        wait_for(lambda: there.is_file() and there.read_bytes() == path.read_bytes(), "placed")
