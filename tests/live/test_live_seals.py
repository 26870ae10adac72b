"""Keys of ends on a live lab: each actor sends what it has, with keys and in the open mode.

docs/threats.md names these tests: what an actor cannot do is refused under a counted reason;
in the open mode it can do exactly what is said there.
"""

import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from blake3 import blake3
from forgeries import Forger, first_of_manifest, frames_to
from live_site import LiveLab, Site, finish, random_bytes, states, wait_for

from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric

pytestmark = pytest.mark.live

MB = 1_000_000
PORT = 8138
UNDERLAY = 28
SHAPE = ("--leaves", 1, "--spines", 0, "--hosts", 3)
BIFT_ID = 0x30000
FLOW, NONCE = 0x2A00, 0xDEADBEEF


class Place(LiveLab):
    """A lab, its fabric, and a socket that a local user binds to the address of its BFR."""

    def __init__(self, site: Site, name: str, *flags: object) -> None:
        super().__init__(site, name, *SHAPE, *flags)
        self.fabric: Fabric = load_fabric(self.folder / "fabric.toml")

    def address(self, node: str) -> str:
        return self.fabric.by_name[node].address

    def bfr_id(self, node: str) -> int:
        return self.fabric.by_name[node].bfr_id

    def as_bfr(self, stack: ExitStack) -> socket.socket:
        sock = stack.enter_context(closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)))
        sock.bind((self.address("leaf1"), 0))
        return sock

    def drops(self, node: str, reason: str) -> int:
        return int(self.status(node)["drops"].get(reason, 0))


@pytest.fixture(scope="module")
def closed(site: Site) -> Iterator[Place]:
    made = Place(site, "live-seals", "--keys")
    yield made
    made.down()


@pytest.fixture(scope="module")
def opened(site: Site) -> Iterator[Place]:
    made = Place(site, "live-open")
    yield made
    made.down()


def write(folder: Path, name: str, n_bytes: int, seed: int) -> Path:
    path = folder / name
    path.write_bytes(random_bytes(n_bytes, seed))
    return path


# Pushes with keys.


def test_signed_and_sealed_pushes_arrive_and_plain_ones_are_refused_by_name(
    closed: Place, tmp_path: Path
) -> None:
    path = write(tmp_path, "a.bin", 2 * MB, 1)
    result = closed.push(path, "--patience", "2s", code=4)
    assert {r["error"] for r in result["receivers"]} == {
        "refused: the manifest is not signed (push --sign)"
    }
    assert closed.drops("h1", "not_trusted") == 1
    assert closed.who_has("a.bin", path.read_bytes()) == []
    for flag in ("--sign", "--seal"):
        result = closed.push(path, flag, "--as", f"{flag[2:]}.bin")
        assert states(result) == dict.fromkeys(closed.receivers, "verified")
        assert {r["blake3"] for r in result["receivers"]} == {
            blake3(path.read_bytes()).hexdigest()
        }
        assert closed.who_has(f"{flag[2:]}.bin", path.read_bytes()) == closed.receivers
        assert result["drops"].get("h0", {}) == {}


def test_a_sealed_push_survives_loss_and_a_receiver_that_starts_again(
    closed: Place, tmp_path: Path
) -> None:
    path = write(tmp_path, "lossy.bin", 4 * MB, 2)
    push = closed.start_push(path, "--seal", "--loss", "2%", "--rate", "24Mbps")
    wait_for(lambda: closed.sent("leaf1", "h2") > 50, "data under way")
    closed.restart("h2")
    code, out, err = finish(push, 60)
    assert code == 0, err
    assert closed.who_has("lossy.bin", path.read_bytes()) == closed.receivers
    assert json.loads(out)["repairs"]["packets"] > 0


def test_a_capture_of_a_sealed_push_holds_no_word_of_it(closed: Place, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "secret-name.txt").write_bytes(b"the words of a secret model. " * 5000)
    pcap = tmp_path / "sealed.pcapng"
    closed.push(folder, "--seal", "--pcap", pcap, "--snaplen", 0)
    clear = tmp_path / "signed.pcapng"
    closed.push(folder, "--sign", "--as", "clear", "--pcap", clear, "--snaplen", 0)
    for word in (b"secret-name", b"secret model", b"model"):
        assert word not in pcap.read_bytes()
        assert word in clear.read_bytes()
    keys = [path.read_bytes() for path in (closed.folder / "keys").glob("h*/key")]
    assert len(keys) == 4
    log = (closed.folder / "lab.log").read_bytes()
    assert not [k for k in keys if k.strip() in log + pcap.read_bytes() + clear.read_bytes()]


# A local user on loopback: any address is a neighbour's.


def test_a_stranger_puts_nothing_in_place(closed: Place, opened: Place, tmp_path: Path) -> None:
    path = write(tmp_path, "strange.bin", 300_000, 3)
    before = closed.drops("h1", "not_trusted")
    Forger(closed, closed.fabric, "h1").push("h0", path)
    wait_for(lambda: closed.drops("h1", "not_trusted") > before, "counted")
    assert not closed.received("h1", "strange.bin").exists()
    Forger(opened, opened.fabric, "h1").push("h0", path)
    wait_for(lambda: opened.received("h1", "strange.bin").exists(), "taken in the open mode", 5)
    good = write(tmp_path, "good.bin", MB, 4)
    closed.push(good, "--sign")
    assert closed.who_has("good.bin", good.read_bytes()) == closed.receivers


# An insider: it has the manifest, so flow, nonce and digest.


def forge_ends(lab: Place, path: Path, folder: Path, *flags: str) -> tuple[int, dict[str, str]]:
    """Push while h3 is dead and an insider speaks for h3 (done) and for h2 (failed)."""
    lab.revive()
    lab.kill("h3")
    lab.restart("leaf1")
    lab.ask("h1", do="capture", path=str(folder / "h1.raw"), snaplen=65_535)
    push = lab.start_push(path, "--rate", "16Mbps", "--patience", "2s", *flags)
    try:
        wait_for(lambda: lab.sent("leaf1", "h1") > 0, "a manifest under way")
        time.sleep(0.1)
        lab.ask("h1", do="capture")
        seen = first_of_manifest(lab, folder / "h1.raw", lab.address("h1"))
        digest = blake3(path.read_bytes()).digest()
        Forger(lab, lab.fabric, "h0").end(seen, digest, "h3", "h2")
    finally:
        code, out, err = finish(push, 60)
    assert out, err
    result = json.loads(out)
    drops = result["drops"].get("h0", {})
    return int(drops.get("bad_mac", 0)), {
        r["id"]: r["error"] or r["state"] for r in result["receivers"]
    } | {"code": str(code)}


def test_an_end_that_was_forged_verifies_nobody(
    closed: Place, opened: Place, tmp_path: Path
) -> None:
    path = write(tmp_path, "forged.bin", 4 * MB, 5)
    n_bad, told = forge_ends(closed, path, tmp_path, "--sign")
    assert n_bad == 6
    assert (told["h1"], told["h2"], told["code"]) == ("verified", "verified", "4")
    assert "words without the MAC of its key" in told["h3"]
    assert closed.who_has("forged.bin", path.read_bytes()) == ["h1", "h2"]
    n_bad, told = forge_ends(opened, path, tmp_path)
    assert n_bad == 0
    assert (told["h1"], told["h3"], told["code"]) == ("verified", "verified", "4")
    assert told["h2"] == "io: forged"
    assert opened.who_has("forged.bin", path.read_bytes()) == ["h1"]  # "verified" at h3 lied


# Who recorded a push.


@pytest.mark.parametrize("flag", ["--sign", "--seal"])
def test_a_recorded_push_is_refused_when_it_is_played_again(
    closed: Place, tmp_path: Path, flag: str
) -> None:
    closed.revive()
    path, pcap = write(tmp_path, f"again{flag}.bin", 300_000, 6), tmp_path / "record.pcapng"
    closed.push(path, flag, "--pcap", pcap, "--snaplen", 0)
    record = frames_to(pcap, closed.address("h1"))
    place = closed.received("h1", path.name)
    place.write_bytes(b"what came since")
    before = closed.drops("h1", "replayed")
    Forger(closed, closed.fabric, "h1").replay(record)
    wait_for(lambda: closed.drops("h1", "replayed") == before + 1, "counted")
    closed.restart("h1")  # what stands where is remembered
    Forger(closed, closed.fabric, "h1").replay(record)
    wait_for(lambda: closed.drops("h1", "replayed") == 1, "counted after a restart")
    assert place.read_bytes() == b"what came since"
    assert closed.push(path, flag)["receivers"][0]["state"] == "verified"


def test_the_open_mode_plays_a_recorded_push_again(opened: Place, tmp_path: Path) -> None:
    opened.revive()
    path, pcap = write(tmp_path, "again.bin", 300_000, 7), tmp_path / "record.pcapng"
    opened.push(path, "--pcap", pcap, "--snaplen", 0)
    record = frames_to(pcap, opened.address("h1"))
    place = opened.received("h1", path.name)
    place.write_bytes(b"what came since")
    opened.restart("h1")
    Forger(opened, opened.fabric, "h1").replay(record)
    wait_for(lambda: place.read_bytes() == path.read_bytes(), "the old bytes back", 5)


# Keys that change while all runs.


def test_keys_of_ends_are_changed_and_revoked_while_a_push_runs(
    closed: Place, tmp_path: Path
) -> None:
    closed.revive()
    home, run = closed.folder / "keys", closed.site.run
    trust_file = home / "trusted.toml"
    before, own = trust_file.read_text(), ("--keys", home / "h2")
    new = run("keys", "rotate", *own).stdout.splitlines()[0]
    assert run("keys", "trust", "h2", new, "--trusted", trust_file).returncode == 0
    path = write(tmp_path, "changed.bin", 4 * MB, 10)
    push = closed.start_push(path, "--seal", "--rate", "16Mbps")
    time.sleep(0.8)
    assert run("keys", "rotate", *own, "--finish").stdout.splitlines()[0] == new
    code, _, err = finish(push, 60)
    assert code == 0, err
    assert closed.who_has("changed.bin", path.read_bytes()) == closed.receivers
    path = write(tmp_path, "revoked.bin", 6 * MB, 11)
    push = closed.start_push(path, "--sign", "--rate", "16Mbps")
    time.sleep(0.8)
    told = run("keys", "distrust", "h0", "--trusted", trust_file).stdout
    assert "trusts h0 no more" in told
    assert "3 may push there still" in told
    code, told, _ = finish(push, 60)
    assert code == 4
    errors = {r["error"] for r in json.loads(told)["receivers"]}
    assert len(errors) == 1
    assert errors.pop().startswith("refused: signature of an unknown key ff1:")
    assert closed.who_has("revoked.bin", path.read_bytes()) == []
    trust_file.write_text(before)
    assert run("keys", "trust", "h2", new, "--trusted", trust_file).returncode == 0
    time.sleep(1.2)
    assert states(closed.push(path, "--sign")) == dict.fromkeys(closed.receivers, "verified")


# Keys by hand, on nodes by hand.


@pytest.fixture
def bare(site: Site) -> Iterator[Site]:
    """The site, whose keys are taken away afterwards: other pushes of it have none."""
    yield site
    shutil.rmtree(site.state / "keys")


def test_keys_made_by_hand_let_one_sender_in(bare: Site, tmp_path: Path) -> None:
    base = f"127.94.{1 + os.getpid() % 250}"
    rows = (("leaf1", "bfr", 0), ("h0", "host", 1), ("h1", "host", 2), ("h2", "host", 3))
    config = tmp_path / "few.toml"
    text = '[fabric]\nname = "few"\n'
    for i, (name, role, bfr_id) in enumerate(rows):
        text += f'[[node]]\nname = "{name}"\naddress = "{base}.{i + 1}"\nrole = "{role}"\n'
        text += f"bfr_id = {bfr_id}\n"
    text += "".join(f'[[link]]\nbetween = ["leaf1", "h{i}"]\n' for i in range(3))
    config.write_text(text)
    keys = {f"h{i}": bare.read("keys", "init", "--node", f"h{i}")["key"] for i in range(3)}
    trust = bare.run("keys", "trust", "h0", keys["h0"], "--node", "h1", "--label", "lab")
    assert trust.returncode == 0, trust.stderr
    bare.run("keys", "trust", "h2", keys["h2"], "--node", "h2")  # not h0: it is refused there
    path = write(tmp_path, "hand.bin", MB, 8)
    push = ("push", path, "--config", config, "--patience", "2s")
    done = bare.run(*push, "--sign")
    assert done.returncode == 2
    assert "trusted.toml" in done.stderr
    for name in ("h1", "h2"):
        bare.run("keys", "trust", name, keys[name], "--node", "h0", "--no-sender")
    runs = [bare.start("bfr", "--config", config, "--node", "leaf1")]
    for name in ("h1", "h2"):
        words = ("--config", config, "--node", name, "--into", tmp_path / name)
        runs.append(bare.start("receive", *words))
    try:
        said = [
            [run.stdout.readline() for _ in range(n)]
            for run, n in zip(runs, (1, 2, 2), strict=True)
        ]
        done = bare.run(*push, "--sign", "--json")
    finally:
        for run in runs:
            run.terminate()
        logs = [finish(run, 20)[2] for run in runs]
    assert "h1: takes signed pushes of h0; its key is ff1:" in said[1][1]
    assert done.returncode == 4
    told = {r["id"]: r["error"] or r["state"] for r in json.loads(done.stdout)["receivers"]}
    unknown = f"refused: signature of an unknown key {keys['h0'][:16]}.."
    assert told == {"h1": "verified", "h2": unknown}
    assert f"h2: {unknown}" in done.stderr
    assert "push 'hand.bin' from h0 (lab): verified and in place" in logs[1]
    assert not (tmp_path / "h2" / "hand.bin").exists()
