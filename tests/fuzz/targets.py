"""What the fuzzer feeds: a function for each target, any bytes in; assertions are the laws.

Laws: nothing but a WireError leaves a codec; what decodes encodes to something that decodes to
the same; no bytes upset a node, and every packet is planned, folded or counted; a ring brings
what was put into it, and nothing from outside it; of what a speaker says weights are sound.
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import seals_world
from bgp_captures import EXABGP, FRR_BMP, FRR_ROUTE
from blake3 import blake3
from hostile_packets import HostilePackets
from kernel_nodes import BFIR, data, feedback, plain_node
from naive import Word
from ring_ends import Pair
from vec_file import VECTORS, load

from fanfold.core.neighbours import Ground, LinkEffect, Neighbours
from fanfold.core.session import Pace
from fanfold.errors import ConfigError, WireError
from fanfold.kernels import collect as c
from fanfold.kernels import due
from fanfold.kernels.frame import seal_inner
from fanfold.kernels.impairment import build_impairments, impair, release
from fanfold.live import rings as r
from fanfold.live import sock as s
from fanfold.push import envelope, manifest
from fanfold.push.gate import RefusedError, open_manifest
from fanfold.seals import keys
from fanfold.topo.path_weights import MAX_WEIGHT
from fanfold.topo.plane_rib import PlaneRib, RibLink
from fanfold.wire import bgp_update, bmp
from fanfold.wire import bitstring as bs
from fanfold.wire.catalog import CATALOG
from fanfold.wire.checksum import internet_checksum
from fanfold.wire.hello import Hello
from fanfold.wire.link import WORD as LINK_WORD
from fanfold.wire.link import parse_link
from fanfold.wire.packet import parse

MAX_PACKETS = 6
MAX_STEPS = 256
MAX_BLOCK = 65_000
BIFT_ID = 0x10000
FABRIC = 7
LINKS = {(0, 1), (0, 2), (1, 2)}
PEERS = ("172.16.0.1", "172.16.0.3", "172.17.0.1", "172.17.0.3")
NEAR = [[1, 2], [0, 2], [0, 1]]
OPEN = Word(BIFT_ID, 4, heard=0b110, done=0b10, rows={1: 0b100})


def codecs(octets: bytes) -> None:
    """First byte: which codec; the rest: what it gets."""
    if not octets:
        return
    codec, buf = CATALOG[octets[0] % len(CATALOG)], octets[1:]
    try:
        value = codec.decode(buf)
    except WireError:
        return
    again = codec.encode(value)
    assert codec.decode(again) == value, (codec.name, buf.hex())


def packets(octets: bytes) -> None:
    """A whole packet, as a role gets it."""
    try:
        parse(octets)
    except WireError:
        return


def manifests(octets: bytes) -> None:
    """A manifest has one encoding."""
    try:
        found = manifest.decode(octets)
    except WireError:
        return
    assert manifest.encode(found) == octets


def envelopes(octets: bytes) -> None:
    """An envelope is refused by its form, or by a gate; what gets by has a right signature.

    Byte 0: whether the digest in front is made right; the rest: an envelope.
    """
    whole = octets[1:]
    if octets[:1] > b"\x7f":
        whole = blake3(whole[32:]).digest() + whole[32:]
    gate = seals_world.gate_of()
    try:
        found = envelope.unwrap(whole)
        grant = gate.admit(found, 6, BFIR)
        manifest.decode(open_manifest(grant, found, 6))
    except (WireError, RefusedError):
        return
    assert grant.signer == seals_world.SENDER.public


def key_texts(octets: bytes) -> None:
    """Texts of keys and trust files: taken, or refused by name."""
    text = octets.decode("utf-8", "replace")
    with suppress(ConfigError):
        assert keys.read_public(text, "key").text == text.strip()
    with suppress(ConfigError):
        assert keys.read_secret(text, "key").secret_text == text.strip()


def nodes(octets: bytes) -> None:
    """A block through a node: planned, patched, folded, placed, expired, sent up.

    Byte 0: port, folds, seals, impairments; byte 1: packet size / 2; the rest: packets.
    """
    if len(octets) < 4:
        return
    how, seg, body = octets[0], 2 * octets[1] + 1, bytearray(octets[2:])
    body = body[: MAX_PACKETS * seg]
    node = plain_node(folds=bool(how & 1), n_slots=4)
    state = _collect()
    block = np.array(body, np.uint8)
    if how & 2:
        _seal(block, seg)
    if how & 4:
        block = _impaired(block, seg)
    found = [block[at : at + seg].tobytes() for at in range(0, len(block), seg)]
    node.forward([data(0b111, flow=7, n_psn=4)], 1)
    before = _counts(node)
    if not found:
        return
    node.forward(found, how >> 3 & 3, 5)
    assert node.plan.n.any() or _counts(node) != before
    n = len(node.block)
    where = 0, node.seg, n, how >> 3 & 3
    c.collect_pass(node.block, *where, 5, node.plan, state, node.counters.drops)
    due.due_reports(state, 10**15, 10**9, np.zeros(8, np.int64))
    node.expire(10**15)
    for _, words in node.send_ready():
        for word in words:
            parse(word)  # what a node says, its neighbour understands


def neighbours(octets: bytes) -> None:
    """Words of a neighbour, each with its length before it and its checksum made right."""
    node = Neighbours(0, Ground(FABRIC, 0, NEAR, [True, True]), 1, Pace())
    for port in (1, 2):
        node.on_hello(0, port, Hello(2, 3, FABRIC, 9, port, 10, 10), [])
    at, now = 0, 1
    while at + 1 < len(octets):
        n = octets[at] & 63
        body = bytearray(octets[at + 1 : at + 1 + n])
        if len(body) > 4:
            body[2:4] = b"\0\0"
            body[2:4] = internet_checksum(bytes(body)).to_bytes(2, "big")
        now += octets[at] << 32
        node.listen(now, now, [0, now, 0])
        out: list[LinkEffect] = []
        try:
            message = parse_link(LINK_WORD + bytes(body))
        except WireError:
            message = None
        if isinstance(message, Hello):
            node.on_hello(now, 1, message, out)
        elif message is not None:
            node.on_notice(now, 1, message, out)
        assert len(list(node.states.kept())) <= len(NEAR)
        assert len(out) <= 4 + len(NEAR)
        assert node.deadline_ps(now) >= 0
        at += 1 + n
    assert node.failed <= LINKS


def rings(octets: bytes) -> None:
    """Two ends of a channel: blocks put and taken, sleep, and what no neighbour writes.

    Four bytes a step: what, and how much. Blocks come in their order and whole; where somebody
    wrote into the ring otherwise, they lie inside it, or the channel is over.
    """
    pair = Pair()
    try:
        _ring_steps(pair, octets)
    finally:
        pair.close()


def speakers(octets: bytes) -> None:
    """What a BGP speaker tells a station; weights follow from whatever was understood.

    Byte 0: 0 a stream of BMP, 1 a stream of BGP, 2 and 3 an UPDATE, AS numbers of 2 and 4.
    """
    rib = PlaneRib({peer: RibLink(at % 2, Fraction(1)) for at, peer in enumerate(PEERS)})
    for peer in PEERS:
        rib.on_peer_up(peer)
    how, rest = octets[:1], octets[1:]
    with suppress(WireError):
        match how:
            case b"\0":
                bodies = [(t.body, t.asn_bytes) for t in bmp.split(rest)[0]]
                found = [(m.body, n) for body, n in bodies for m in bgp_update.split(body)[0]]
            case b"\1":
                found = [(message.body, 4) for message in bgp_update.split(rest)[0]]
            case _:
                found = [(rest, 2 if how == b"\2" else 4)]
        for at, (body, asn_bytes) in enumerate(found):
            with suppress(WireError):
                rib.on_update(PEERS[at % len(PEERS)], bgp_update.decode(body, asn_bytes))
    for prefix in rib.prefixes():
        weights = rib.weights_to(prefix)
        assert weights
        assert all(1 <= weight <= MAX_WEIGHT for weight in weights.values())
        assert sum(rib.planes_to(prefix).values()) == 1


def _ring_steps(pair: Pair, octets: bytes) -> None:
    io, sent, is_honest = pair.b.io, deque[bytes](), True
    row = io.channels[0]
    data, page, out = int(row["in_data"]), int(row["in_at"]), int(row["out_at"])
    words = io.buf.view(np.uint64)
    for k in range(0, min(len(octets), 4 * MAX_STEPS) - 3, 4):
        what, how = octets[k], int.from_bytes(octets[k + 1 : k + 4], "little")
        if what < 64:
            block = bytes([k & 0xFF]) * (how % MAX_BLOCK + 1)
            if pair.a.send(block, (how >> 12) + 1):
                sent.append(block)
        elif what < 192:
            got = pair.b.next()
            base, n = int(io.ints[s.BASE]), len(got or b"")
            assert got is None or (data < base and base + n <= data + r.RING_BYTES)
            if is_honest:
                assert got == (sent.popleft() if sent else None)
        elif what < 208:
            assert r.lie_down(io) in (True, False)
            r.rise(io)
        else:
            is_honest = False
            at = data + (int(row["tail"]) + 64 * (how & 7)) % r.RING_BYTES
            places = (page, page + r.ORIGIN_AT, page + r.ASLEEP_AT, out + r.TAIL_AT, at)
            sign = -1 if how & 8 else 1
            value = sign * (how >> 4) << (16 * (what >> 3 & 3))
            words[places[what % 5] // 8] = value % (1 << 64)
    if is_honest:
        assert row["state"] == r.LIVE
        assert io.ints[s.BROKEN] == 0


def _collect() -> c.Collect:
    state = c.build_collect(2, 64, 2, 16)
    for f, flow in enumerate((6, 7)):
        row = state.follow[f]
        row["used"], row["flow"], row["bfir_id"] = 1, flow, BFIR
        row["map_at"], row["map_len"], row["newest"] = 8 * f, 8, -1
    return state


def _seal(block: np.ndarray, seg: int) -> None:
    for at in range(0, len(block), seg):
        packet = block[at : at + seg]
        if len(packet) >= 48:
            seal_inner(packet, 0, len(packet), 1)


def _impaired(block: np.ndarray, seg: int) -> np.ndarray:
    impairments = build_impairments(4, 3, 600)
    row = impairments.ports[1]
    row["rng"], row["drop"], row["duplicate"] = np.uint64(seg), 2**29, 2**31
    row["reorder"], row["reorder_ps"], row["corrupt"] = 2**31, 5, 2**30
    n = impair(block, len(block), seg, 1, 0, impairments, np.zeros(64, np.int64), 0)
    out = np.zeros(1 << 17, np.uint8)
    m = release(out, 10, impairments, np.zeros(3, np.int64))
    return np.concatenate([block[:n], out[:m]])


def _counts(node: object) -> tuple[int, ...]:
    counters, fold = node.counters, node.fold  # type: ignore[attr-defined]
    return (*counters.drops.tolist(), *fold.events.tolist())


TARGETS: dict[str, Callable[[bytes], None]] = {
    "codecs": codecs,
    "packets": packets,
    "manifests": manifests,
    "envelopes": envelopes,
    "key_texts": key_texts,
    "nodes": nodes,
    "rings": rings,
    "neighbours": neighbours,
    "speakers": speakers,
}


def _keyed(target: str) -> list[bytes]:
    own = seals_world.SENDER
    if target == "key_texts":
        return [own.public.text.encode(), own.secret_text.encode(), b"ff1:", b"ff1-secret:"]
    with TemporaryDirectory() as name:
        made = [
            seals_world.Signed(Path(name), 6, 99, is_sealed=is_sealed).envelope
            for is_sealed in (False, True)
        ]
    return [b"\xff" + one for one in (*made, envelope.wrap(1, b"manifest"))]


def _said_by_neighbours() -> list[bytes]:
    paths = [p for name in ("hello", "notice") for p in sorted(VECTORS.glob(f"{name}/*.vec"))]
    words = [load(path).buf for path in paths]
    said = [buf[:4] + FABRIC.to_bytes(4, "big") + buf[8:] for buf in words]
    return [b"".join(bytes([len(buf)]) + buf for buf in said)]


def _said_by_speakers() -> list[bytes]:
    updates = [m.body for m in bgp_update.split(EXABGP)[0] if m.type == 2]
    streams = [b"\0" + FRR_BMP + FRR_ROUTE, b"\1" + EXABGP]
    return [*streams, *(how + body for how in (b"\2", b"\3") for body in updates)]


MADE: dict[str, Callable[[], list[bytes]]] = {
    "envelopes": partial(_keyed, "envelopes"),
    "key_texts": partial(_keyed, "key_texts"),
    "neighbours": _said_by_neighbours,
    "speakers": _said_by_speakers,
}


def seeds(target: str) -> list[bytes]:
    """Inputs to start from."""
    if target in MADE:
        return MADE[target]()
    sound = [data(0b111, flow=7), data(1, flow=6, flags=3, block=2), feedback(OPEN)]
    vectors = [(p.parent.name, load(p).buf) for p in sorted(VECTORS.glob("*/*.vec"))]
    match target:
        case "codecs":
            names = [codec.name for codec in CATALOG]
            return [bytes([names.index(name)]) + buf for name, buf in vectors if name in names]
        case "packets":
            return [*sound, *(buf for _, buf in vectors)]
        case "manifests":
            one = manifest.Entry("a", 5, 0o640, bytes(32))
            top, empty = manifest.Folder("", 0o755), manifest.Folder("b", 0o700)
            shape, times = (16, 8, 2, 5), manifest.pack_times([-1, 2**62, 0])
            file = (2, "a", "", False, *shape, (one,), (), bytes(32), times[:8])
            tree = (2, "m", "x/m", True, *shape, (one,), (top, empty), bytes(32), times)
            return [manifest.encode(manifest.Manifest(*row)) for row in (file, tree)]
        case "rings":
            random = Random(1)
            calm, rough = (0, 70, 200), (0, 70, 200, 208, 209, 210, 212, 216, 255)
            steps = range(MAX_STEPS)
            return [
                b"".join(bytes([random.choice(kinds), *random.randbytes(3)]) for _ in steps)
                for kinds in (calm, rough)
                for _ in range(8)
            ]
        case _:
            rows = []
            maker = HostilePackets(1, bsl=bs.bsl_of_bits(64), own=BFIR, top=3)
            named = [some for packet in sound for some in maker.every_id(packet)]
            for how in range(32):
                for packet in named:
                    some = bytes([how, len(packet) // 2]) + packet.ljust(len(packet) | 1, b"\0")
                    rows += [some, some + some[2:]]
            return rows
