"""When the loop of a receiver calls its role: for several blocks at once where many wait."""

import socket
from collections.abc import Iterator

import pytest

from fanfold.kernels.collect import EVENT_UNKNOWN, EVENT_WHOLE, MOST_EVENTS
from fanfold.live import pump as p
from fanfold.live.ports import Limits, build_node_state, build_sock, open_socket
from fanfold.topo.fabric import Fabric
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.wire.bier import BierHeader
from fanfold.wire.bitstring import bift_id
from fanfold.wire.fan import Data, DataFlag
from fanfold.wire.inner import GROUP_ADDRESS, address_of
from fanfold.wire.packet import build

FLOW, STRIDE, N_BLOCKS, BSL = 0x10, 100, 40, 3


class Receiver:
    """h1, which follows a flow of h0, and its leaf as a plain socket."""

    def __init__(self, fabric: Fabric) -> None:
        leaf, me, source = (fabric.by_name[name] for name in ("leaf1", "h1", "h0"))
        self.sock = open_socket(me.address, 0, "h1")
        self.leaf = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.leaf.bind((leaf.address, 0))
        limits = Limits(blocks=32, block_bytes=STRIDE, follows=1, chunks=N_BLOCKS)
        self.node = build_node_state(fabric, "h1", limits)
        self.io = build_sock(self.sock, len(self.node.ports.addr))
        row = self.node.collect.follow[0]
        row["used"], row["bfir_id"], row["flow"] = 1, source.bfr_id, FLOW
        row["map_len"], row["newest"], row["front"] = N_BLOCKS, -1, -1
        self._ids = source.bfr_id, me.bfr_id, address_of(source.address)

    def send(self, block: int, flow: int = FLOW) -> None:
        bfir_id, bfer_id, src = self._ids
        data = Data(flow, block, 1, 0, STRIDE, 64, DataFlag.POLL)
        bits = 1 << (bfer_id - 1)
        header = BierHeader(bift_id(BSL, 0, 0), 64, bfir_id, bits)
        packet = build(header, src, GROUP_ADDRESS, 9000, data, bytes(STRIDE))
        self.leaf.sendto(packet, self.sock.getsockname())

    def events(self) -> list[list[int]]:
        """Kind and block of what a role is to look at; it has looked."""
        collect = self.node.collect
        n, collect.n_events[0] = int(collect.n_events[0]), 0
        return [[kind, block] for kind, _, block in collect.events[:n].tolist()]

    def close(self) -> None:
        self.sock.close()
        self.leaf.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver(leaf_spine(1, 0, 2, name="x", prefix=77))
    yield made
    made.close()


def test_blocks_that_wait_are_looked_at_together_up_to_a_bound(receiver: Receiver) -> None:
    n = MOST_EVENTS + 2
    for block in range(n):
        receiver.send(block)
    assert p.pump(receiver.io, receiver.node, 64) == p.EVENTS
    assert receiver.events() == [[EVENT_WHOLE, block] for block in range(MOST_EVENTS)]
    assert p.pump(receiver.io, receiver.node, 64) == p.EVENTS
    assert receiver.events() == [[EVENT_WHOLE, block] for block in range(MOST_EVENTS, n)]
    assert p.pump(receiver.io, receiver.node, 64) == p.IDLE


def test_a_flow_that_nobody_follows_is_told_while_its_packets_stand(receiver: Receiver) -> None:
    receiver.send(0)
    receiver.send(0, FLOW + 2)
    receiver.send(1)
    assert p.pump(receiver.io, receiver.node, 64) == p.EVENTS
    assert receiver.events() == [[EVENT_WHOLE, 0], [EVENT_UNKNOWN, 0]]
    assert p.pump(receiver.io, receiver.node, 64) == p.EVENTS
    assert receiver.events() == [[EVENT_WHOLE, 1]]
