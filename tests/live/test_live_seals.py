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
from live_site import LiveLab, Site, finish, random_bytes, states, wait_for

from fanfold.live.capture import merge_captures
from fanfold.push.envelope import wrap
from fanfold.push.geometry import geometry_of
from fanfold.push.manifest import encode
from fanfold.push.source import build_manifest
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric
from fanfold.wire.bier import BierHeader
from fanfold.wire.captures import read_frames
from fanfold.wire.fan import Data, DataFlag
from fanfold.wire.inner import GROUP_ADDRESS, address_of
from fanfold.wire.link import is_link
from fanfold.wire.packet import Packet, build, parse
from fanfold.wire.report import Report, ReportError, ReportState

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


def frames_to(pcap: Path, address: str) -> list[bytes]:
    """Packets of a capture that a BFR sent to an address."""
    found = [frame.bytes for frame in read_frames(pcap.read_bytes())]
    mine = socket.inet_aton(address)
    sent = [one[one.index(b"\x45") + UNDERLAY :] for one in found if mine in one[12:40]]
    return [one for one in sent if not is_link(one)]


def packets_to(pcap: Path, address: str) -> list[Packet]:
    return [parse(one) for one in frames_to(pcap, address)]


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


def play(sock: socket.socket, packets: list[bytes], to: tuple[str, int]) -> None:
    for i, packet in enumerate(packets):
        sock.sendto(packet, to)
        if i % 20 == 19:
            time.sleep(0.002)


def stranger_pushes(lab: Place, path: Path) -> None:
    """A push in the name of h0, made by hand: manifest, then data, to h1."""
    geometry = geometry_of(lab.fabric.mtu, lab.fabric.bitstring_bits)
    manifest, reader = build_manifest(path, *geometry)
    reader.close()
    block = geometry.stride * geometry.n_psn
    header = BierHeader(BIFT_ID, 64, lab.bfr_id("h0"), 1 << (lab.bfr_id("h1") - 1))
    h0 = address_of(lab.address("h0"))
    flows = ((FLOW, wrap(NONCE, encode(manifest))), (FLOW | 1, path.read_bytes()))
    with ExitStack() as stack:
        sock = lab.as_bfr(stack)
        for flow, whole in flows:
            packets = []
            for at in range(0, len(whole), geometry.stride):
                n = at // block
                part = whole[n * block : (n + 1) * block]
                is_last = (n + 1) * block >= len(whole)
                data = Data(
                    flow,
                    n,
                    -(-len(part) // geometry.stride),
                    at % block // geometry.stride,
                    geometry.stride,
                    64,
                    DataFlag.POLL | (DataFlag.LAST if is_last else 0),
                )
                payload = whole[at : at + geometry.stride]
                packets.append(build(header, h0, GROUP_ADDRESS, 40_000, data, payload))
            play(sock, packets, (lab.address("h1"), PORT))
            time.sleep(0.5)


def test_a_stranger_puts_nothing_in_place(closed: Place, opened: Place, tmp_path: Path) -> None:
    path = write(tmp_path, "strange.bin", 300_000, 3)
    before = closed.drops("h1", "not_trusted")
    stranger_pushes(closed, path)
    wait_for(lambda: closed.drops("h1", "not_trusted") > before, "counted")
    assert not closed.received("h1", "strange.bin").exists()
    stranger_pushes(opened, path)
    wait_for(lambda: opened.received("h1", "strange.bin").exists(), "taken in the open mode", 5)
    good = write(tmp_path, "good.bin", MB, 4)
    closed.push(good, "--sign")
    assert closed.who_has("good.bin", good.read_bytes()) == closed.receivers


# An insider: it has the manifest, so flow, nonce and digest.


def first_of_manifest(lab: Place, folder: Path) -> Packet:
    """First packet of a push under way, as its receiver h1 got it."""
    wait_for(lambda: lab.sent("leaf1", "h1") > 0, "a manifest under way")
    time.sleep(0.1)
    lab.ask("h1", do="capture")
    merged = folder / "h1.pcapng"
    merge_captures([folder / "h1.raw"], merged)
    for packet in packets_to(merged, lab.address("h1")):
        match packet.message:
            case Data(psn=0, block=0) if not packet.message.flow & 1:
                return packet
    raise AssertionError("no manifest in the capture")


def forge_ends(lab: Place, path: Path, folder: Path, *flags: str) -> tuple[int, dict[str, str]]:
    """Push while h3 is dead and an insider speaks for h3 (done) and for h2 (failed)."""
    lab.revive()
    lab.kill("h3")
    lab.restart("leaf1")
    lab.ask("h1", do="capture", path=str(folder / "h1.raw"), snaplen=65_535)
    push = lab.start_push(path, "--rate", "16Mbps", "--patience", "2s", *flags)
    try:
        seen = first_of_manifest(lab, folder)
        message = seen.message
        assert isinstance(message, Data)
        nonce = int.from_bytes(seen.payload[32:36])
        digest = blake3(path.read_bytes()).digest()
        known = {"nonce": nonce, "digest": digest}
        words = [
            Report(ReportState.DONE, lab.bfr_id("h3"), message.flow, **known),
            Report(
                ReportState.FAILED,
                lab.bfr_id("h2"),
                message.flow,
                nonce=nonce,
                error=ReportError.IO,
                body=b"forged",
            ),
        ]
        with ExitStack() as stack:
            sock = lab.as_bfr(stack)
            to = (lab.address("h0"), seen.inner.sport)
            for word in words:
                bits = 1 << (lab.bfr_id("h0") - 1)
                header = BierHeader(BIFT_ID, 64, word.bfr_id, bits)
                packet = build(header, seen.inner.src, seen.inner.src, to[1], word)
                play(sock, [packet] * 3, to)
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


def replay(lab: Place, record: list[bytes]) -> None:
    """Play a manifest, wait until it was looked at, play the data; no farewell."""
    flows: dict[int, list[bytes]] = {}
    for one in record:
        message = parse(one).message
        if isinstance(message, Data):
            flows.setdefault(message.flow & 1, []).append(one)
    with ExitStack() as stack:
        sock = lab.as_bfr(stack)
        for part in (flows[0], flows[1]):
            play(sock, part, (lab.address("h1"), PORT))
            time.sleep(0.4)


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
    replay(closed, record)
    wait_for(lambda: closed.drops("h1", "replayed") == before + 1, "counted")
    closed.restart("h1")  # what stands where is remembered
    replay(closed, record)
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
    replay(opened, record)
    wait_for(lambda: place.read_bytes() == path.read_bytes(), "the old bytes back", 5)


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
