"""Nodes as commands start them: receivers on hosts, plain BFRs elsewhere."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fanfold.api.keys import Place, WhoMay, gate_of, link_key_of
from fanfold.api.log import log_line
from fanfold.api.node_metrics import Place as MetricsPlace
from fanfold.api.node_metrics import serve_node
from fanfold.core.session import Pace
from fanfold.live.clock import now_ps
from fanfold.live.event_loop import EventLoop, Role
from fanfold.live.host import USUAL, Host
from fanfold.live.key_watch import OwnKey
from fanfold.live.lab import FABRIC_FILE
from fanfold.live.ports import Limits
from fanfold.live.watch import Watch
from fanfold.push.epochs import EPOCHS_FILE, Epochs
from fanfold.push.gate import Gate
from fanfold.push.geometry import geometry_of
from fanfold.push.manifest import STAGING_DIR
from fanfold.push.receiver_role import ReceiverRole
from fanfold.push.store import Store
from fanfold.push.trust_watch import TrustWatch
from fanfold.seals.keys import TRUST_FILE
from fanfold.topo.fabric import Fabric
from fanfold.topo.planes import planes_of
from fanfold.units import NEVER

Tell = Callable[[str], None]

N_BLOCKS = 64
"""Blocks a receiver collects at once."""
N_FOLLOWS = 34
N_CHUNKS = 1 << 20
"""Chunks of all pushes a receiver follows: 270 GB of jumbo packets."""
LAB_BYTES = 1 << 36
"""Bytes that one sender may have under way to a host of a lab: all share one disk."""


def make_host(
    fabric: Fabric,
    name: str,
    control_socket: Path | None,
    folder: Path,
    *,
    recheck: bool = False,
    fsync: bool = False,
    tell: Tell | None = None,
    max_bytes: int | None = None,
    has_rings: bool = True,
    gate: Gate | None = None,
    pace: Pace = USUAL,
    link_key: OwnKey | None = None,
    operators: WhoMay | None = None,
) -> Host:
    """A node with the role its description names; ``tell`` hears of each push and failure.

    operators: whose orders it takes over TCP.
    """
    words: dict[str, Any] = {"pace": pace, "tell": tell or (lambda line: None)}
    words |= {"link_key": link_key, "operators": operators}
    if fabric.by_name[name].role == "bfr":
        host = Host(fabric, name, Limits(), None, control_socket, has_rings=has_rings, **words)
        return _watched(host, fabric, tell)
    stride, n_psn = geometry_of(fabric.mtu, fabric.bitstring_bits)
    limits = Limits(
        blocks=N_BLOCKS * max(len(planes_of(fabric, name)), 1),
        block_bytes=stride * n_psn,
        follows=N_FOLLOWS,
        chunks=N_CHUNKS,
    )
    store = Store(folder, recheck=recheck, fsync=fsync, max_bytes=max_bytes)
    epochs = Epochs(folder / STAGING_DIR / EPOCHS_FILE)

    def make_role(fabric: Fabric, name: str, event_loop: EventLoop) -> Role:
        told = tell or (lambda line: None)
        return ReceiverRole(fabric, name, event_loop, store, told, gate, epochs)

    return _watched(
        Host(fabric, name, limits, make_role, control_socket, **words), fabric, tell
    )


def watch_gate(gate: Gate, place: Place, host: Host, tell: Tell) -> None:
    """Let a receiver that runs have the keys that its files have."""
    role = host.event_loop.role
    assert isinstance(role, ReceiverRole)
    folder, trusted = place.of(host.name)
    watch = TrustWatch(gate, folder, trusted, lambda: role.on_keys(now_ps()), tell)
    host.event_loop.on_pump.append(lambda: watch.look(now_ps()))


def _watched(host: Host, fabric: Fabric, tell: Tell | None) -> Host:
    if tell is not None:
        watch = Watch(fabric, host.name, host.event_loop.node.counters, tell)
        host.event_loop.on_pump.append(lambda: watch.look(now_ps()))
        host.on_end.append(lambda: watch.look(NEVER))  # of what came in the last second
    return host


def make_lab_host(
    fabric: Fabric,
    name: str,
    control_socket: Path,
    folder: Path,
    *,
    has_rings: bool = True,
    fsync: bool = False,
    has_keys: bool = False,
    pace: Pace = USUAL,
    metrics_port: int = 0,
) -> Host:
    """A node of a lab on this machine; in the lab's log, its stderr, it says who it is.

    has_keys: it has keys of its own in the lab's folder, and trusts those of all hosts.
    metrics_port: at the node's own address, 0: none.
    """

    def tell(line: str) -> None:
        log_line(f"{name}: {line}")

    gate, home = None, folder.parent.parent / "keys"
    if has_keys and fabric.by_name[name].role == "host":
        gate = gate_of(fabric, name, Place(home / name, home / TRUST_FILE))
    host = make_host(
        fabric,
        name,
        control_socket,
        folder,
        max_bytes=LAB_BYTES,
        tell=tell,
        fsync=fsync,
        has_rings=has_rings,
        gate=gate,
        pace=pace,
        link_key=link_key_of(fabric, name, home / name, home.parent / FABRIC_FILE),
    )
    if gate is not None:
        watch_gate(gate, Place(home / name, home / TRUST_FILE), host, tell)
    if metrics_port:
        serve_node(host, MetricsPlace("", metrics_port), control_socket.parent)
    return host
