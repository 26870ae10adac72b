"""Keys of links on a live lab: each actor sends what it has; docs/threats.md names these tests.

The actor is a local user: it binds the address of any node, at a port of its own, and hears all
that passes on loopback. What it sends is refused under a counted reason; pushes go on.
"""

import functools
import json
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from live_site import LiveLab, Site, all_verified, finish, links, states, wait_for, write

from fanfold.core.link_keys import proven
from fanfold.kernels.layout import TRAILER_BYTES
from fanfold.live.chance import draw_octets
from fanfold.seals.link_keys import LinkKey, load_link_key, read_link_public
from fanfold.seals.noise import Initiator
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric
from fanfold.wire.bier import BierHeader
from fanfold.wire.fan import Data
from fanfold.wire.handshake import BODY_BYTES, FIRST, Handshake
from fanfold.wire.inner import GROUP_ADDRESS, address_of
from fanfold.wire.link import build_link, is_handshake, is_link
from fanfold.wire.packet import build

pytestmark = pytest.mark.live

MB = 1_000_000
PORT = 8138
BIFT_ID = 0x30000
ALL_FRAMES = 0x0003
UDP_AT = 14 + 20 + 8
HELLO_BYTES = 4 + 36
HEADERS = 88
"""Of content with BitStrings of 256 bits: what its tag covers."""
hears_all = pytest.mark.skipif(os.geteuid() != 0, reason="hears all of loopback; needs root")
OF_LINKS = ("link_no_key", "bad_link_mac", "link_replayed", "link_flood", "bad_handshake")


class Place(LiveLab):
    """A lab of one BFR, and sockets of a local user."""

    def __init__(self, site: Site, name: str, *flags: object) -> None:
        super().__init__(site, name, "--leaves", 1, "--spines", 0, "--hosts", 3, *flags)
        self.fabric: Fabric = load_fabric(self.folder / "fabric.toml")

    def address(self, node: str) -> str:
        return self.fabric.by_name[node].address

    def posing_as(self, node: str, stack: ExitStack) -> socket.socket:
        sock = stack.enter_context(closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)))
        sock.bind((self.address(node), 0))
        return sock

    def drops(self, node: str, reason: str) -> int:
        return int(self.status(node)["drops"].get(reason, 0))

    def of_links(self, node: str) -> dict[str, int]:
        drops = self.status(node)["drops"]
        return {reason: drops[reason] for reason in OF_LINKS if reason in drops}

    def ages(self, node: str) -> dict[str, float]:
        rows = self.status(node)["link_keys"]["links"]
        return {to: row["age_s"] for to, row in rows.items() if "age_s" in row}

    def has_keys(self, node: str) -> bool:
        return self.ages(node).keys() == set(self.fabric.neighbours[node])


@pytest.fixture(scope="module")
def keyed(site: Site) -> Iterator[Place]:
    made = Place(site, "live-link-keys", "--link-keys")
    wait_for(lambda: all(made.has_keys(node) for node in made.nodes()), "keys of all links")
    yield made
    made.down()


@pytest.fixture(scope="module")
def opened(site: Site) -> Iterator[Place]:
    made = Place(site, "live-link-open")
    yield made
    made.down()


def heard(lab: Place, path: Path, src: str, dst: str, *flags: object) -> list[bytes]:
    """Packets of a push from one node to another, as somebody on loopback hears them."""
    ends = socket.inet_aton(lab.address(src)) + socket.inet_aton(lab.address(dst))
    found = []
    with closing(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))) as sock:
        sock.bind(("lo", ALL_FRAMES))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * MB)
        sock.settimeout(0.2)
        push = lab.start_push(path, "--rate", "200Mbps", *flags)
        while push.poll() is None:  # others are heard too: it never falls silent
            try:
                frame = sock.recv(1 << 17)
            except TimeoutError:
                continue
            if frame[26:34] == ends and struct.unpack_from("!H", frame, 36)[0] == PORT:
                found.append(frame[UDP_AT:])
    assert finish(push)[0] == 0
    return found


def one_of(trains: list[bytes], n_payload: int) -> list[bytes]:
    """Whole sealed packets of the first train of content: loopback carries 64 KB at once."""
    train = next(t for t in trains if not is_link(t) and len(t) > 4 * n_payload)
    length = struct.unpack_from("!H", train, 12 + 32 + 2)[0]
    size = 12 + 32 + length + TRAILER_BYTES
    return [train[at : at + size] for at in range(0, len(train) - size + 1, size)]


def flipped(packet: bytes, at: int) -> bytes:
    return packet[:at] + bytes((packet[at] ^ 1,)) + packet[at + 1 :]


def test_a_push_comes_through_and_every_node_has_keys(keyed: Place, tmp_path: Path) -> None:
    path = write(tmp_path, "plain.bin", 4 * MB, 1)
    before = {node: keyed.of_links(node) for node in keyed.nodes()}
    result = keyed.push(path)
    assert all_verified(keyed, result)
    assert {node: keyed.of_links(node) for node in keyed.nodes()} == before
    for node in keyed.nodes():
        rows = keyed.status(node)["link_keys"]["links"]
        assert {row["mode"] for row in rows.values()} == {"required"}


def test_loss_reordering_and_damage_cost_repairs_only(keyed: Place, tmp_path: Path) -> None:
    path = write(tmp_path, "rough.bin", 8 * MB, 2)
    rough = "drop=1%,reorder=2%,duplicate=1%,corrupt=1%"
    result = keyed.push(path, "--impair", rough)
    assert all_verified(keyed, result)
    told = keyed.of_links("leaf1")
    assert told["link_replayed"] > 0  # the duplicates
    assert told["bad_link_mac"] + told.get("link_no_key", 0) > 0  # headers that were damaged
    assert keyed.who_has("rough.bin", path.read_bytes()) == keyed.receivers


def forged(lab: Place) -> list[bytes]:
    """Packets in the name of h0 that an open leaf1 passes on to h1."""
    h0 = lab.fabric.by_name["h0"]
    header = BierHeader(BIFT_ID, 64, h0.bfr_id, 1 << (lab.fabric.by_name["h1"].bfr_id - 1))
    data = Data(0x2A01, 0, 1, 0, 1000, 64, 0)
    addr = address_of(h0.address)
    return [build(header, addr, GROUP_ADDRESS, 40_000, data, bytes(1000)) for _ in range(20)]


def pose(lab: Place, to: str = "leaf1") -> None:
    """Send them, with trailers that were made up and without, from an address of h0's."""
    with ExitStack() as stack:
        sock = lab.posing_as("h0", stack)
        for packet in forged(lab):
            sock.sendto(packet, (lab.address(to), PORT))
            guess = bytes(4) + (1 << 30).to_bytes(8, "big") + draw_octets(12)
            sock.sendto(packet + guess, (lab.address(to), PORT))


def test_a_local_user_says_nothing_in_a_neighbours_name(keyed: Place, opened: Place) -> None:
    before, sent = keyed.drops("leaf1", "link_no_key"), keyed.sent("leaf1", "h1")
    pose(keyed)
    wait_for(lambda: keyed.drops("leaf1", "link_no_key") == before + 40, "counted")
    assert keyed.sent("leaf1", "h1") == sent
    pose(opened)
    wait_for(lambda: opened.sent("leaf1", "h1") >= 20, "passed on where links are open")


def test_nobody_has_a_host_send_in_its_own_name(keyed: Place, opened: Place) -> None:
    """What comes from a node's own address is its ranks', so it would seal and send it."""
    before, sent = keyed.drops("h0", "link_no_key"), keyed.sent("leaf1", "h1")
    pose(keyed, "h0")
    wait_for(lambda: keyed.drops("h0", "link_no_key") == before + 40, "counted")
    assert keyed.sent("leaf1", "h1") == sent
    sent = opened.sent("leaf1", "h1")
    pose(opened, "h0")
    wait_for(lambda: opened.sent("leaf1", "h1") >= sent + 20, "sent on where links are open")


@hears_all
def test_what_was_recorded_is_refused_again_changed_and_elsewhere(
    keyed: Place, tmp_path: Path
) -> None:
    path = write(tmp_path, "taped.bin", 2 * MB, 3)
    packets = one_of(heard(keyed, path, "h0", "leaf1"), 1000)
    assert len(packets) > 2
    leaf, sent = (keyed.address("leaf1"), PORT), keyed.sent("leaf1", "h1")
    before = keyed.of_links("leaf1")

    def more(reason: str) -> int:
        return keyed.drops("leaf1", reason) - before.get(reason, 0)

    with ExitStack() as stack:
        sock = keyed.posing_as("h0", stack)
        for packet in packets:
            sock.sendto(packet, leaf)
        wait_for(lambda: more("link_replayed") == len(packets), "replays counted")
        one = packets[0]
        tail = len(one) - TRAILER_BYTES
        number = int.from_bytes(one[tail + 4 : tail + 12], "big")
        ahead = one[: tail + 4] + (number + 5000).to_bytes(8, "big") + one[tail + 12 :]
        sock.sendto(ahead, leaf)  # as if it were a new one
        for at in range(HEADERS):
            sock.sendto(flipped(ahead, at), leaf)
        wait_for(lambda: more("bad_link_mac") == 1 + HEADERS, "changed headers counted")
        other = keyed.posing_as("leaf1", stack)
        before_h1 = keyed.drops("h1", "link_no_key")
        other.sendto(one, (keyed.address("h1"), PORT))  # a packet of another link
        wait_for(lambda: keyed.drops("h1", "link_no_key") == before_h1 + 1, "elsewhere")
    assert keyed.sent("leaf1", "h1") == sent


def test_a_flood_of_handshakes_costs_bounded_work(keyed: Place, tmp_path: Path) -> None:
    """Who knows the public key makes proofs; a node starts again in the middle of it."""
    public = read_link_public(keyed.fabric.by_name["leaf1"].link_key, "leaf1")
    before, made = keyed.of_links("leaf1"), keyed.status("leaf1")["link_keys"]
    cpu = cpu_s(keyed.pid("leaf1"))
    began = time.monotonic()
    n_sent = 0
    with ExitStack() as stack:
        socks = [keyed.posing_as("h2", stack) for _ in range(4)]
        while time.monotonic() - began < 1.5:
            for sock in socks:
                body = draw_octets(BODY_BYTES[FIRST])
                port = sock.getsockname()[1]
                message = proven(public, Handshake(FIRST, port, n_sent, body=body))
                sock.sendto(build_link(message), (keyed.address("leaf1"), PORT))
                n_sent += 1
            if n_sent == 2000:
                keyed.restart("h2")
                wait_for(lambda: "leaf1" in keyed.ages("h2"), "a key in the flood", 1.0)
            time.sleep(0.0005)
    spent = cpu_s(keyed.pid("leaf1")) - cpu
    told = keyed.status("leaf1")
    assert n_sent > 1000
    assert told["drops"]["link_flood"] - before.get("link_flood", 0) > n_sent // 2
    n_tried = told["drops"]["bad_handshake"] - before.get("bad_handshake", 0)
    n_asked = told["link_keys"]["cookies"] - made["cookies"]
    assert 0 < n_tried < 100
    assert n_asked > 0  # above the easy ones nobody is answered without a cookie
    assert spent < 0.8 * 1.5
    assert all_verified(keyed, keyed.push(write(tmp_path, "after.bin", MB, 4)))


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def test_new_keys_in_mid_push_lose_no_packet(keyed: Place, tmp_path: Path) -> None:
    path = write(tmp_path, "rekeyed.bin", 12 * MB, 5)
    before = {node: lost_by_keys(keyed, node) for node in keyed.nodes()}
    made = keyed.status("leaf1")["link_keys"]["made"]
    earlier = keyed.sent("leaf1", "h2")
    push = keyed.start_push(path, "--rate", "48Mbps")
    wait_for(lambda: keyed.sent("leaf1", "h2") > earlier + 50, "data under way")
    done = keyed.site.run("keys", "rekey", "--lab", keyed.name)
    said = f"lab {keyed.name}: new keys for the links of 5 nodes\n"
    assert (done.returncode, done.stdout) == (0, said)
    for _ in range(12):  # anew before its neighbours have looked at the one before
        assert keyed.ask("leaf1", do="rekey")["ok"]
        time.sleep(0.006)
    assert push.poll() is None, "the push was to last longer"
    code, out, err = finish(push, 60)
    assert code == 0, err
    assert {node: lost_by_keys(keyed, node) for node in keyed.nodes()} == before
    for row in links(json.loads(out)).values():
        assert row["packets"] == row["predicted_packets"]
    assert keyed.status("leaf1")["link_keys"]["made"] >= made + 12


def lost_by_keys(lab: Place, node: str) -> dict[str, int]:
    """Packets that no session opened; an answer to who asked anew since is no loss."""
    return {reason: n for reason, n in lab.of_links(node).items() if reason != "bad_handshake"}


def test_a_bfr_that_starts_again_has_keys_within_a_second(keyed: Place, tmp_path: Path) -> None:
    path = write(tmp_path, "again.bin", 12 * MB, 6)
    earlier = keyed.sent("leaf1", "h2")
    push = keyed.start_push(path, "--rate", "48Mbps")
    wait_for(lambda: keyed.sent("leaf1", "h2") > earlier + 50, "data under way")
    keyed.restart("leaf1")
    began = time.monotonic()
    wait_for(lambda: keyed.has_keys("leaf1"), "keys again", 5.0)
    assert time.monotonic() - began < 1.0
    went = [functools.partial(keyed.sent, "leaf1", "h2", kind) for kind in ("data", "repair")]
    wait_for(lambda: any(count() for count in went), "the push has a key again", 1.5)
    code, _, err = finish(push, 60)
    assert code == 0, err
    assert keyed.who_has("again.bin", path.read_bytes()) == keyed.receivers


def frames_to(lab: Place, node: str, seconds: float) -> list[bytes]:
    """What anybody sends to a node in some time, as its own interface hears it."""
    until, found = time.monotonic() + seconds, []
    end = socket.inet_aton(lab.address(node))
    with closing(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))) as sock:
        sock.bind(("lo", ALL_FRAMES))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * MB)
        sock.settimeout(0.05)
        while time.monotonic() < until:
            try:
                frame = sock.recv(1 << 17)
            except TimeoutError:
                continue
            if frame[30:34] == end and struct.unpack_from("!H", frame, 36)[0] == PORT:
                found.append(frame[UDP_AT:])
    return found


@hears_all
def test_a_key_rotated_and_a_receiver_revoked_in_mid_push_cost_nobody_else_a_packet(
    keyed: Place, tmp_path: Path
) -> None:
    path = write(tmp_path, "rotated.bin", 26 * MB, 9)
    old = load_link_key(keyed.folder / "keys" / "leaf1")
    heard_before = {node: heard_at(keyed, node) for node in ("h1", "h2")}
    links_before = keyed.status("leaf1")["links"]
    sent_before = {
        node: {kind: n for kind, (n, _) in links_before[node]["tx"].items()}
        for node in ("h1", "h2")
    }
    before = {node: keyed.of_links(node) for node in ("h0", "h1", "h2")}
    earlier = keyed.sent("leaf1", "h2")
    push = keyed.start_push(path, "--rate", "48Mbps", "--patience", "500ms")
    wait_for(lambda: keyed.sent("leaf1", "h2") > earlier + 50, "data under way")
    words = ("keys", "rotate", "--lab", keyed.name, "--node", "leaf1", "--overlap", "2s")
    rotation = keyed.site.start(*words)
    time.sleep(0.5)
    assert len(frames_to(keyed, "h3", 0.2)) > 10
    done = keyed.site.run("keys", "rekey", "--lab", keyed.name, "--revoke", "h3")
    assert done.returncode == 0, done.stderr
    time.sleep(0.1)
    assert frames_to(keyed, "h3", 0.6) == []
    assert push.poll() is None, "the push was to last longer"
    code, told, err = finish(rotation)
    assert code == 0, err
    assert push.poll() is None, "the push was to last longer than the old key"
    assert frames_to(keyed, "h3", 0.3) == []
    code, out, _ = finish(push, 60)
    result = json.loads(out)
    assert code == 4
    assert states(result) == {"h1": "verified", "h2": "verified"} | {"h3": states(result)["h3"]}
    assert states(result)["h3"] != "verified"
    assert {node: keyed.of_links(node) for node in before} == before
    for node in ("h1", "h2"):
        row, came = links(result)["leaf1", node], heard_at(keyed, node)
        assert row["packets"] == row["predicted_packets"]
        for kind, n in keyed.status("leaf1")["links"][node]["tx"].items():
            lost = n[0] - sent_before[node].get(kind, 0)
            lost -= came.get(kind, 0) - heard_before[node].get(kind, 0)
            assert lost == 0 or kind not in ("data", "repair"), (node, kind, lost)
    new = load_link_key(keyed.folder / "keys" / "leaf1")
    assert new.text != old.text
    assert new.text in told
    assert keyed.site.run("lab", "status", "--name", keyed.name).returncode == 0
    assert who_is_refused(keyed, old) == "h1"
    keyed.restart("leaf1", "h3")


def heard_at(lab: Place, node: str) -> dict[str, int]:
    """Packets by class that a receiver heard so far."""
    return {kind: n for kind, (n, _) in lab.status(node)["links"]["leaf1"]["rx"].items()}


def who_is_refused(lab: Place, old: LinkKey) -> str:
    """Ask h1 for a session by a key of leaf1's that was replaced."""
    public = read_link_public(lab.fabric.by_name["h1"].link_key, "h1")
    before = lab.drops("h1", "bad_handshake")
    with ExitStack() as stack:
        sock = lab.posing_as("leaf1", stack)
        port = sock.getsockname()[1]
        prologue = b"fanfold-link-1" + port.to_bytes(2, "big") + bytes(4)
        body = Initiator(prologue, old.private, draw_octets(32), public).first(
            time.time_ns().to_bytes(8, "big")
        )
        message = proven(public, Handshake(FIRST, port, 0, body=body))
        sock.sendto(build_link(message), (lab.address("h1"), PORT))
        wait_for(lambda: lab.drops("h1", "bad_handshake") == before + 1, "refused")
    return "h1"


@hears_all
def test_handshakes_are_the_only_open_packets(keyed: Place, tmp_path: Path) -> None:
    wait_for(lambda: all(keyed.has_keys(node) for node in keyed.nodes()), "keys of all links")
    path = write(tmp_path, "taped2.bin", 2 * MB, 8)
    trains = heard(keyed, path, "leaf1", "h1")
    packets = one_of(trains, 1000)
    tails = [(one[-24:-20], int.from_bytes(one[-20:-12], "big")) for one in packets]
    first = tails[0]
    assert tails == [(first[0], first[1] + i) for i in range(len(tails))]
    assert len({one[-12:] for one in packets}) == len(packets)
    words = [train for train in trains if is_link(train) and not is_handshake(train)]
    assert {len(word) for word in words} <= {HELLO_BYTES + TRAILER_BYTES}
