"""A node's socket and the arrays around it, made from a fabric description."""

import errno
import os
import socket
import struct

import numpy as np

from fanfold.errors import ConfigError, EnvironmentLack
from fanfold.kernels.collect import build_collect
from fanfold.kernels.impairment import build_impairments
from fanfold.kernels.layout import (
    BITS_AT,
    FEEDBACK_BYTES,
    INNER_BYTES,
    ROW_BYTES,
    TRAILER_BYTES,
    UNDERLAY_BYTES,
)
from fanfold.kernels.slots import NEVER_PS
from fanfold.kernels.state import (
    MAX_PKTS,
    U8,
    Ports,
    Rows,
    build_counters,
    build_fold,
    build_node,
    build_plan,
)
from fanfold.kernels.vouch import FIRST_PORT
from fanfold.live import pump as p
from fanfold.live import sock as s
from fanfold.live.channels import build_room, build_rows
from fanfold.live.clock import start_ps
from fanfold.live.exits import QUEUE_BYTES
from fanfold.live.link_table import build_links
from fanfold.live.shares import build_arrays, build_bfr_arrays, build_bfr_fold
from fanfold.live.syscalls import SO_TIMESTAMPNS, SOL_UDP, UDP_GRO, UDP_SEGMENT
from fanfold.topo.bift import build_bifts
from fanfold.topo.fabric import ArrayLimits, Fabric
from fanfold.topo.fabric_routes import FabricRoutes
from fanfold.wire.inner import address_of

SOCKET_BYTES = 8 << 20
"""Receive buffer asked for; without root the kernel grants net.core.rmem_max at most."""
SO_RCVBUFFORCE = 33
FOLD_PS = 60_000_000_000
"""Shortest deadline of a slot just above the leaves; the lag a node sees comes on top."""
TAP_BYTES = 64 << 20
TRIES = 256
SO_ATTACH_FILTER = 26
_HEARS = np.array([6], np.uint64)
"""A packet filter of one instruction: keep no byte of any packet."""
IP_MTU_DISCOVER = 10
IP_MTU = 14
IP_PMTUDISC_PROBE = 3
"""DF set, path MTU ignored: a packet too large is an error, never fragments."""


class Limits:
    """Bounds of a node's memory; a receiver collects blocks, a BFR keeps slots."""

    def __init__(
        self, *, blocks: int = 1, block_bytes: int = 64, follows: int = 1, chunks: int = 1
    ) -> None:
        self.blocks, self.block_bytes = blocks, block_bytes
        self.follows, self.chunks = follows, chunks


def open_socket(address: str, port: int, what: str) -> socket.socket:
    """UDP socket bound to one address, with the largest buffers the kernel grants."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.bind((address, port))
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise EnvironmentLack(
                f"{what}: UDP port {port} of {address} is in use; "
                f"see `ss -ulpn 'src {address}'`, stop it or choose another lab or config"
            ) from error
        if error.errno == errno.EADDRNOTAVAIL:
            raise ConfigError(
                f"{what}.address", address, "an address of this machine"
            ) from error
        raise EnvironmentLack(
            f"{what}: cannot bind {address}:{port}: {error.strerror}"
        ) from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, SOCKET_BYTES)
    except OSError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
    sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
    sock.setblocking(True)
    return sock


def open_flow_socket(address: str, what: str) -> socket.socket:
    """UDP socket on a port that the machine picks and a last hop sends to.

    Raises:
        EnvironmentLack: the machine hands out lower ports only.
    """
    low = []
    try:
        for _ in range(TRIES):
            sock = open_socket(address, 0, what)
            if sock.getsockname()[1] >= FIRST_PORT:
                return sock
            low.append(sock)
    finally:
        for sock in low:
            sock.close()
    raise EnvironmentLack(
        f"{what}: no free UDP port from {FIRST_PORT} on; "
        "see `sysctl net.ipv4.ip_local_port_range`, raise it"
    )


def enable_offload(sock: socket.socket) -> bool:
    """Turn UDP_GRO on and try UDP_SEGMENT; False where the kernel lacks either."""
    try:
        sock.setsockopt(SOL_UDP, UDP_GRO, 1)
        sock.setsockopt(SOL_UDP, UDP_SEGMENT, 1000)
        sock.setsockopt(SOL_UDP, UDP_SEGMENT, 0)
    except OSError:
        return False
    return True


def open_exits(sock: socket.socket, n_ports: int) -> Rows:
    """What packets leave by, for each port: a socket of its own where there are several.

    They are bound to the address of ``sock``, at any port, and hear nothing. ``close_exits``
    gives them back.
    """
    rows = np.zeros(n_ports, s.EXIT_ROW)
    rows["fd"] = sock.fileno()
    for port in range(1, n_ports if n_ports > 2 else 1):
        own = open_socket(sock.getsockname()[0], 0, f"port {port}")
        own.setsockopt(
            socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", 1, _HEARS.ctypes.data)
        )
        rows[port]["fd"] = own.detach()
    return rows


def close_exits(io: s.Sock) -> None:
    """Give back the sockets of ports."""
    for row in io.exits[1:]:
        if row["fd"] != io.ints[s.FD]:
            os.close(int(row["fd"]))
            row["fd"] = io.ints[s.FD]


def time_arrivals(sock: socket.socket) -> None:
    """Let the kernel note when packets come: a process that is busy or paused delays none."""
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)


def build_sock(
    sock: socket.socket,
    n_ports: int = 2,
    *,
    offload: bool = True,
    tap_bytes: int = 64,
    n_channels: int = 0,
    n_links: int = 0,
) -> s.Sock:
    """Arrays for one socket's calls; addresses of arrays are written into the headers once.

    n_ports: of the node, its own port 0 included. n_channels: of shared memory, at most.
    n_links: sessions with keys, at most.
    """
    name_in, name_out = np.zeros(16, np.uint8), np.zeros(16, np.uint8)
    name_out[:2] = np.frombuffer(struct.pack("=H", socket.AF_INET), np.uint8)
    ctl_in, ctl_out = np.zeros(64, np.uint8), np.zeros(24, np.uint8)
    ctl_out[:16] = np.frombuffer(struct.pack("=QII", 18, SOL_UDP, UDP_SEGMENT), np.uint8)
    buf = build_room(n_channels)
    iov_in, iov_out = np.zeros(2, np.uint64), np.zeros(2 * (MAX_PKTS + 2), np.uint64)
    iov_in[0] = buf.ctypes.data
    msg_in, msg_out = np.zeros(7, np.uint64), np.zeros(7, np.uint64)
    msg_in[:6] = name_in.ctypes.data, 16, iov_in.ctypes.data, 1, ctl_in.ctypes.data, 64
    msg_out[:4] = name_out.ctypes.data, 16, iov_out.ctypes.data, 1
    ints = np.zeros(s.N_INTS, np.int64)
    ints[s.FD] = sock.fileno()
    ints[s.GSO] = int(offload and enable_offload(sock))
    ints[s.START_PS] = start_ps()
    ints[s.HELD_DUE], ints[s.BELL_FD], ints[s.CAME_AT] = NEVER_PS, -1, -1
    return s.Sock(
        ints=ints,
        buf=buf,
        out=np.zeros(1 << 16, np.uint8),
        msg_in=msg_in,
        msg_out=msg_out,
        iov_in=iov_in,
        iov_out=iov_out,
        name_in=name_in,
        name_out=name_out,
        ctl_in=ctl_in,
        ctl_out=ctl_out,
        spec=np.zeros(2, np.int64),
        mem=np.zeros(10, np.int64),
        found=np.zeros(3, np.int64),
        tap=np.zeros(tap_bytes, np.uint8),
        exits=open_exits(sock, n_ports),
        rings=np.zeros((n_ports, QUEUE_BYTES), np.uint8),
        polls=np.zeros(n_ports + n_channels + 3, np.int64),
        error=np.zeros(1, np.int64),
        channels=build_rows(n_channels),
        bell=np.zeros(1, np.int64),
        heard=np.zeros(n_ports, np.int64),
        hellos=np.zeros((n_ports, s.HELLO_ROOM), np.uint8),
        links=build_links(n_links),
    )


def build_tap() -> U8:
    """Room for captured packets between two drains."""
    return np.zeros(TAP_BYTES, np.uint8)


def least_mtu(bitstring_bits: int) -> int:
    """Smallest MTU that carries a FEEDBACK with one row: four BitStrings of this length."""
    heads = BITS_AT + INNER_BYTES + FEEDBACK_BYTES + ROW_BYTES
    return UNDERLAY_BYTES + heads + 4 * bitstring_bits // 8


def require_mtu(fabric: Fabric) -> None:
    """Refuse an MTU too small for this fabric's FEEDBACK."""
    least = least_mtu(fabric.bitstring_bits)
    if fabric.mtu < least:
        allowed = f"at least {least} with BitStrings of {fabric.bitstring_bits}"
        raise ConfigError("fabric.mtu", fabric.mtu, allowed)


def check_mtu(fabric: Fabric, name: str) -> None:
    """Refuse an MTU too small for FEEDBACK, or that the path to a neighbour does not carry."""
    require_mtu(fabric)
    for node in fabric.port_nodes(name)[1:]:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((fabric.by_name[name].address, 0))
                probe.connect((node.address, fabric.port))
                path = probe.getsockopt(socket.IPPROTO_IP, IP_MTU)
            except PermissionError as error:  # without SO_BROADCAST
                allowed = "an address of one machine; this is a broadcast address here"
                raise ConfigError(f"{node.name}.address", node.address, allowed) from error
            except OSError:
                return  # binding or routing fails by its own name later
        more = TRAILER_BYTES if fabric.has_keys(name) else 0
        if fabric.mtu + more > path:
            of = f", less {more} of trailers" if more else ""
            allowed = f"at most {path - more}, path MTU to {node.name}{of}"
            raise ConfigError("fabric.mtu", fabric.mtu, allowed)


def build_node_state(fabric: Fabric, name: str, limits: Limits) -> p.Node:
    """Tables, slots and counters of one node; only BFRs keep slots."""
    routes = FabricRoutes(fabric)
    me = fabric.by_name[name]
    ports = fabric.port_nodes(name)
    n_words = fabric.bitstring_bits // 64
    is_bfr = me.role == "bfr"
    depth = max(routes.hops(a.name, me.name) or 0 for a in fabric.nodes) + 1
    row = build_node(
        me.bfr_id,
        address_of(me.address),
        folds=is_bfr,
        fold_ps=FOLD_PS,
        depth=max(depth, 2),
        mtu=fabric.mtu,
    )
    row[0]["is_end"] = int(not is_bfr)
    bifts = build_bifts(routes, name)
    return p.Node(
        row=row,
        bifts=bifts,
        ports=Ports(
            addr=np.array([address_of(n.address) for n in ports], np.int64),
            bfr_id=np.array([n.bfr_id for n in ports], np.int64),
        ),
        fold=build_bfr_fold(fabric, len(bifts.ids)) if is_bfr else build_fold(1, n_words),
        counters=build_counters(len(ports), 1 + len(fabric.tenants) if is_bfr else 1),
        plan=build_plan(len(ports), n_words),
        collect=build_collect(limits.blocks, limits.block_bytes, limits.follows, limits.chunks),
        impairments=build_impairments(len(ports), 2048, fabric.mtu + TRAILER_BYTES),
        vats=build_bfr_arrays(fabric) if is_bfr else build_arrays(fabric, ArrayLimits()),
    )
