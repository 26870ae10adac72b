"""BFRs started by hand, a group that changes for every packet, and no state of any group."""

import select
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest
from live_site import UP_S, Site, finish, wait_for

from fanfold.errors import EnvironmentLack
from fanfold.kernels.layout import BIER_PORT
from fanfold.live import pump as p
from fanfold.live.event_loop import EventLoop
from fanfold.live.ports import Limits, build_node_state, build_sock, open_socket
from fanfold.live.warm import warm
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import save_fabric
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.wire import bitstring
from fanfold.wire.bier import BierHeader
from fanfold.wire.fan import Data
from fanfold.wire.inner import GROUP_ADDRESS, address_of
from fanfold.wire.link import is_link
from fanfold.wire.packet import build, parse

pytestmark = pytest.mark.live

N_PACKETS = 10_000
TRAIN = 25
"""Packets in one send: each to a set and a path of its own."""
N_HOSTS = 8
FLOW = 0x5EED
WAIT_S = 5.0


@pytest.fixture
def fabric(site: Site, tmp_path: Path) -> Iterator[Fabric]:
    """A leaf-spine whose BFRs run; its hosts' addresses are free for the test."""
    made = free_fabric()
    config = tmp_path / "groups.toml"
    save_fabric(made, config)
    names = [n.name for n in made.nodes if n.role == "bfr"]
    runs = [site.start("bfr", "--config", config, "--node", name) for name in names]
    try:
        for name, run in zip(names, runs, strict=True):
            assert first_line(run).startswith(f"{name}: forwarding on ")
        yield made
    finally:
        for run in runs:
            run.terminate()
        ended = [finish(run, 20) for run in runs]
    logs = [line for _, _, err in ended for line in err.splitlines()]
    assert [code for code, _, _ in ended] == [0] * len(runs)
    assert [line for line in logs if "push from h0 passes" not in line] == []


def free_fabric() -> Fabric:
    """Addresses from the end that labs reach last."""
    for prefix in range(249, 200, -1):
        made = leaf_spine(2, 2, N_HOSTS, name="groups", prefix=prefix)
        try:
            for node in made.nodes:
                open_socket(node.address, made.port, node.name).close()
        except EnvironmentLack:
            continue
        return made
    raise AssertionError("no loopback range is free")


def first_line(run: subprocess.Popen[str]) -> str:
    assert run.stdout is not None
    ready, _, _ = select.select([run.stdout], [], [], UP_S)
    return run.stdout.readline() if ready else ""


class Sink:
    """What arrives at a host that is nothing but a socket."""

    def __init__(self, address: str) -> None:
        self.sock = open_socket(address, BIER_PORT, "sink")
        self.sock.setblocking(False)
        self.packets: list[bytes] = []

    def drain(self) -> int:
        while True:
            try:
                octets = self.sock.recv(65536)
            except BlockingIOError:
                return len(self.packets)
            if not is_link(octets):  # HELLOs of its BFR
                self.packets.append(octets)


def packet(number: int, bits: int, entropy: int, addr: int, bfir_id: int) -> bytes:
    header = BierHeader(
        bift_id=bitstring.bift_id(bitstring.DEFAULT_BSL, 0, 0),
        ttl=64,
        bfir_id=bfir_id,
        bitstring=bits,
        entropy=entropy,
    )
    data = Data(
        flow=FLOW, block=number // 64, n_psn=64, psn=number % 64, stride=64, first_ttl=64
    )
    return build(header, addr, GROUP_ADDRESS, 40_000, data, number.to_bytes(8, "big") * 8)


def test_ten_thousand_packets_each_to_another_group(fabric: Fabric) -> None:
    me = fabric.by_name["h0"]
    random = Random(38)
    groups = [random.randrange(1, 1 << N_HOSTS) for _ in range(N_PACKETS)]
    sinks = [Sink(fabric.by_bfr_id[i + 1].address) for i in range(N_HOSTS)]
    warm()
    sock = open_socket(me.address, 0, "h0")
    state = build_node_state(fabric, "h0", Limits())
    event_loop = EventLoop(sock, build_sock(sock, len(state.ports.addr)), state, None)
    addr = address_of(me.address)
    try:
        for start in range(0, N_PACKETS, TRAIN):
            numbers = range(start, start + TRAIN)
            train = [
                packet(n, groups[n], random.randrange(1 << 20), addr, me.bfr_id)
                for n in numbers
            ]
            buf = np.frombuffer(b"".join(train), np.uint8).copy()
            assert (
                p.transmit(event_loop.io, event_loop.node, buf, len(buf), len(train[0]))
                == TRAIN
            )
            due = [sum(g >> i & 1 for g in groups[: numbers.stop]) for i in range(N_HOSTS)]
            until = time.monotonic() + WAIT_S
            while [sink.drain() for sink in sinks] != due and time.monotonic() < until:
                time.sleep(0)
        for i, sink in enumerate(sinks):
            check_arrivals(i, sink, groups)
    finally:
        event_loop.close()
        for sink in sinks:
            sink.sock.close()


def check_arrivals(i: int, sink: Sink, groups: list[int]) -> None:
    """Host i has every packet of its groups once, each with its own bit and no other."""
    arrived = []
    for raw in sink.packets:
        got = parse(raw)
        assert isinstance(got.message, Data)
        assert got.header.bitstring == 1 << i
        number = got.message.block * 64 + got.message.psn
        assert got.payload == number.to_bytes(8, "big") * 8
        arrived.append(number)
    assert sorted(arrived) == [n for n, g in enumerate(groups) if g >> i & 1]


def test_a_bfr_by_hand_ends_on_a_signal_and_frees_its_address(
    site: Site, tmp_path: Path
) -> None:
    fabric = free_fabric()
    config = tmp_path / "one.toml"
    save_fabric(fabric, config)
    for _ in range(2):
        run = site.start("bfr", "--config", config, "--node", "leaf1")
        assert first_line(run).startswith("leaf1: forwarding")
        leaf = fabric.by_name["leaf1"]
        with socket.create_connection((leaf.address, fabric.port), 5) as control_socket:
            control_socket.sendall(b'{"do": "status"}\n')
            assert b'"name": "leaf1"' in control_socket.makefile("rb").readline()
        run.terminate()
        assert finish(run, 20)[0] == 0
    wait_for(lambda: run.pid not in site.pids(), "the process gone")
