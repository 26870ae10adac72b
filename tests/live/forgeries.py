"""What an actor without a key makes by hand: a push, the end of another's, a recording played.

docs/threats.md says where it is taken. Packets go out from the address of the BFR beside a
host, which a local user may bind.
"""

import socket
import time
from contextlib import ExitStack, closing
from pathlib import Path

from live_site import LiveLab

from fanfold.live.capture import merge_captures
from fanfold.push.envelope import wrap
from fanfold.push.geometry import geometry_of
from fanfold.push.manifest import encode
from fanfold.push.source import build_manifest
from fanfold.topo.fabric import Fabric
from fanfold.wire import bitstring as bs
from fanfold.wire.bier import BierHeader
from fanfold.wire.captures import read_frames
from fanfold.wire.fan import Data, DataFlag
from fanfold.wire.inner import GROUP_ADDRESS, address_of
from fanfold.wire.link import is_link
from fanfold.wire.packet import Packet, build, parse
from fanfold.wire.report import Report, ReportError, ReportState

PORT = 8138
UNDERLAY = 28
FLOW, NONCE = 0x2A00, 0xDEADBEEF
BURST = 20
LOOK_S = 0.5
"""A receiver has looked at its disk by then."""
NONCE_AT = slice(32, 36)
"""Of an envelope that is not signed."""
TIMES = 3


class Forger:
    """Speaks from the address of the BFR beside a host."""

    def __init__(self, lab: LiveLab, fabric: Fabric, beside: str) -> None:
        self.lab, self.fabric, self.host = lab, fabric, beside
        self.bfr = fabric.neighbours[beside][0]

    def address(self, node: str) -> str:
        return self.fabric.by_name[node].address

    def header(self, source: str, to: str) -> BierHeader:
        """In the name of one host, to another one."""
        ids = self.fabric.by_name
        bsl = self.fabric.bitstring_bits.bit_length() - 6
        number = ids[to].bfr_id - 1
        si, bit = divmod(number, self.fabric.bitstring_bits)
        return BierHeader(bs.bift_id(bsl, 0, si), 64, ids[source].bfr_id, 1 << bit)

    def play(self, packets: list[bytes], port: int = PORT, source: str = "") -> None:
        """Send packets to the host, from its BFR's address or another node's."""
        with ExitStack() as stack:
            sock = stack.enter_context(
                closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            )
            sock.bind((self.address(source or self.bfr), 0))
            for i, packet in enumerate(packets):
                sock.sendto(packet, (self.address(self.host), port))
                if i % BURST == BURST - 1:
                    time.sleep(0.002)

    def push(self, source: str, path: Path, flow: int = FLOW) -> None:
        """A push of a file in the name of a host: manifest, then data."""
        geometry = geometry_of(self.fabric.mtu, self.fabric.bitstring_bits)
        manifest, reader = build_manifest(path, *geometry)
        reader.close()
        block = geometry.stride * geometry.n_psn
        header, addr = self.header(source, self.host), address_of(self.address(source))
        for each, whole in (
            (flow, wrap(NONCE, encode(manifest))),
            (flow | 1, path.read_bytes()),
        ):
            packets = []
            for at in range(0, len(whole), geometry.stride):
                n = at // block
                part = whole[n * block : (n + 1) * block]
                is_last = (n + 1) * block >= len(whole)
                data = Data(
                    each,
                    n,
                    -(-len(part) // geometry.stride),
                    at % block // geometry.stride,
                    geometry.stride,
                    64,
                    DataFlag.POLL | (DataFlag.LAST if is_last else 0),
                )
                payload = whole[at : at + geometry.stride]
                packets.append(build(header, addr, GROUP_ADDRESS, 40_000, data, payload))
            self.play(packets)
            time.sleep(LOOK_S)

    def replay(self, record: list[bytes]) -> None:
        """Play a manifest, wait until it was looked at, play the data; no farewell."""
        flows: dict[int, list[bytes]] = {}
        for one in record:
            message = parse(one).message
            if isinstance(message, Data):
                flows.setdefault(message.flow & 1, []).append(one)
        for part in (flows[0], flows[1]):
            self.play(part)
            time.sleep(LOOK_S)

    def end(
        self, seen: Packet, digest: bytes, done: str, failed: str, source: str = ""
    ) -> None:
        """Say to a sender that one receiver has all, and that another one failed.

        seen: the first packet of the manifest. source: from whose address, else the BFR's.
        """
        message = seen.message
        assert isinstance(message, Data)
        nonce = int.from_bytes(seen.payload[NONCE_AT])
        ids = self.fabric.by_name
        words = {
            done: Report(
                ReportState.DONE, ids[done].bfr_id, message.flow, nonce=nonce, digest=digest
            ),
            failed: Report(
                ReportState.FAILED,
                ids[failed].bfr_id,
                message.flow,
                nonce=nonce,
                error=ReportError.IO,
                body=b"forged",
            ),
        }
        to = seen.inner.sport
        for name, word in words.items():
            header = self.header(name, self.host)
            packet = build(header, seen.inner.src, seen.inner.src, to, word)
            self.play([packet] * TIMES, to, source)


def frames_to(pcap: Path, address: str) -> list[bytes]:
    """Packets of a capture that a BFR sent to an address."""
    found = [frame.bytes for frame in read_frames(pcap.read_bytes())]
    mine = socket.inet_aton(address)
    sent = [one[one.index(b"\x45") + UNDERLAY :] for one in found if mine in one[12:40]]
    return [one for one in sent if not is_link(one)]


def first_of_manifest(lab: LiveLab, raw: Path, address: str) -> Packet:
    """First packet of a push's manifest, as a receiver captured it."""
    merged = raw.with_suffix(".pcapng")
    merge_captures([raw], merged)
    for packet in map(parse, frames_to(merged, address)):
        match packet.message:
            case Data(psn=0, block=0) if not packet.message.flow & 1:
                return packet
    raise AssertionError("no manifest in the capture")
