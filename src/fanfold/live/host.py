"""One node as a process: event loop, control socket and captures, until a signal ends it."""

import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fanfold.core.session import Pace
from fanfold.errors import ConfigError
from fanfold.impair import Impairment, apply
from fanfold.kernels.jit import on_compile
from fanfold.kernels.vat_rows import close_group, open_vat
from fanfold.live.capture import WHOLE, Capture
from fanfold.live.channels import is_near
from fanfold.live.clock import now_ps
from fanfold.live.control import Commands, Handler, open_local, open_tcp
from fanfold.live.event_loop import EventLoop, Role
from fanfold.live.keeper import Keeper
from fanfold.live.key_watch import OwnKey
from fanfold.live.link_driver import drive_links, room_for_links
from fanfold.live.operators import Operators
from fanfold.live.own_status import status_of
from fanfold.live.ports import (
    Limits,
    build_node_state,
    build_sock,
    build_tap,
    check_mtu,
    open_socket,
    time_arrivals,
)
from fanfold.live.ring_socket import RingSocket
from fanfold.live.shares import seen_by
from fanfold.live.swap import Swap
from fanfold.seals.keys import PublicKey
from fanfold.topo.fabric import Fabric
from fanfold.wire import bitstring

MOST_CHANNELS = 64
"""Of a BFR; whom it has none for sends to its socket."""
LATE = "compiles while it runs, and does nothing else meanwhile"
"""What a node logs of a kernel that warm.py has not loaded."""
USUAL = Pace()
MakeRole = Callable[[Fabric, str, EventLoop], Role]


class Host:
    """A running node of a fabric.

    Args:
        fabric, name: which node. limits: its memory. make_role: what it does beyond forwarding,
        None for a BFR. control_socket: of Unix, for every command; None: TCP at its address.
        has_rings: a BFR on a loopback address takes channels of shared memory. pace: how often
        it speaks to neighbours. tell: hears of neighbours that are lost. link_key: its own,
        where links of the fabric have keys. operators: whose orders it takes over TCP.
    """

    def __init__(  # noqa: PLR0913 - each has a default that is right
        self,
        fabric: Fabric,
        name: str,
        limits: Limits,
        make_role: MakeRole | None,
        control_socket: Path | None,
        *,
        has_rings: bool = True,
        pace: Pace = USUAL,
        tell: Callable[[str], None] = lambda line: None,
        link_key: OwnKey | None = None,
        operators: Callable[[], Sequence[PublicKey]] | None = None,
    ) -> None:
        if name not in fabric.by_name:
            raise ConfigError("node", name, ", ".join(fabric.by_name))
        self.fabric, self.name = fabric, name
        node = fabric.by_name[name]
        check_mtu(fabric, name)
        sock = open_socket(node.address, fabric.port, name)
        state = build_node_state(fabric, name, limits)
        has_rings = has_rings and node.role == "bfr" and is_near(node.address)
        io = build_sock(
            sock,
            len(state.ports.addr),
            n_channels=MOST_CHANNELS if has_rings else 0,
            n_links=room_for_links(fabric, name),
        )
        self.event_loop = EventLoop(sock, io, state, None)
        self.tables = Swap(fabric, name, state.bifts)
        self.rings: RingSocket | None = None
        if make_role is not None:
            self.event_loop.role = make_role(fabric, name, self.event_loop)
        self.tell = tell
        self.keeper = Keeper(fabric, name, self.event_loop, self.tables, tell, pace)
        self.event_loop.keeper = self.keeper
        self.links = drive_links(
            self.event_loop, fabric, name, link_key, self.keeper.greet, tell=tell
        )
        self._failed: dict[str, Any] = {}
        self.capture: Capture | None = None
        self.on_end: list[Callable[[], None]] = []
        self.is_stopped = False
        self.ended_by = ""
        self.commands = Commands(self._handlers(), self.event_loop.wake)
        if has_rings:
            self.rings = RingSocket(fabric, name, io, self.event_loop.wake, self._is_sound)
        self.event_loop.on_pump.append(self._after_pump)
        self._close_control = (
            open_local(control_socket, self.commands)
            if control_socket is not None
            else open_tcp(
                node.address,
                fabric.port,
                self.commands,
                frozenset(fabric.by_address),
                partial(seen_by, fabric),
                Operators(fabric.name, name, operators, tell) if operators else None,
            )
        )

    def _handlers(self) -> dict[str, Handler]:
        return {
            "status": lambda request: self.status(),
            "impair": self._impair,
            "fail": self._fail,
            "capture": self._capture,
            "vat": self._vat,
            "table": self.tables.take,
            "rekey": self._rekey,
        }

    def run(self) -> None:
        """Work until SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        forget = on_compile(lambda kernel: self.tell(f"{LATE}: {kernel}"))
        try:
            self.event_loop.run(lambda: self.is_stopped)
        finally:
            forget()
            for last in self.on_end:
                last()
            self.close()

    def close(self) -> None:
        """Give sockets and files back."""
        self._end_capture()
        self._close_control()
        if self.rings is not None:
            self.rings.close()
        if self.links is not None:
            self.links.close()
        self.event_loop.close()

    def _stop(self, number: int, frame: object) -> None:
        del frame
        self.is_stopped, self.ended_by = True, signal.Signals(number).name
        self.event_loop.wake()

    def _after_pump(self) -> None:
        self.commands.run_waiting()
        if self.rings is not None:
            self.rings.take_waiting()
        if self.capture is not None:
            self.capture.drain()

    def _is_sound(self, port: int) -> bool:
        """No impairment befalls what comes in by a port, and it is not shut."""
        is_impaired = self.event_loop.node.impairments.ports[port]["active"]
        return not (is_impaired or self.event_loop.io.exits[port]["shut"])

    def status(self) -> dict[str, Any]:
        """All that this node counts and knows of its neighbours; any thread may ask."""
        told = status_of(self.fabric, self.name, self.event_loop.io, self.event_loop.node)
        told |= {"table": {"version": self.tables.version}, "failed": self._failed}
        told |= self.keeper.status()
        return told | (self.links.status() if self.links is not None else {})

    def _rekey(self, request: dict[str, Any]) -> dict[str, Any]:
        """New sessions with all neighbours; or keys as files have them now, with ``reads``.

        revoked: neighbours whose keys are gone: nothing passes to or from them any more.
        """
        if self.links is None:
            raise ConfigError("rekey", "no keys", "a node whose links have keys")
        if request.get("reads"):
            return self.links.read_files()
        return self.links.rekey(tuple(map(str, request.get("revoked", ()))))

    def _impair(self, request: dict[str, Any]) -> dict[str, Any]:
        """Set impairments by neighbour; neighbours not named become as ``fail`` has them."""
        names = [n.name for n in self.fabric.port_nodes(self.name)]
        links = request["links"]
        for port, neighbour in enumerate(names[1:], start=1):
            gray = self._failed.get(neighbour, {}).get("impair", {})
            impairment = Impairment(**links.get(neighbour, gray))
            stream = f"link/{neighbour}-{self.name}"
            apply(
                self.event_loop.node.impairments, port, impairment, int(request["seed"]), stream
            )
            if self.rings is not None and not self._is_sound(port):
                self.rings.leave(port)
            if impairment.needs_times():
                time_arrivals(self.event_loop.sock)
            if impairment.delay_ps:
                self.keeper.learn_way(port)
        return {"ok": True}

    def _fail(self, request: dict[str, Any]) -> dict[str, Any]:
        """Shut ports, or impair what comes in there, by neighbour; others are good again."""
        links = request["links"]
        for neighbour in links:
            if neighbour not in self.fabric.neighbours[self.name]:
                known = ", ".join(self.fabric.neighbours[self.name])
                raise ConfigError("fail.links", neighbour, known)
        self._failed = links
        for port, neighbour in enumerate(self.fabric.neighbours[self.name], start=1):
            is_shut = bool(links.get(neighbour, {}).get("shut", False))
            self.event_loop.io.exits[port]["shut"] = int(is_shut)
        return self._impair({"links": {}, "seed": int(request.get("seed", 0))})

    def _vat(self, request: dict[str, Any]) -> dict[str, Any]:
        """Make this BFR a node of a virtual aggregation tree by configuration.

        group: its number. a_bm: BFR-ids expected here, none for a BFR that passes on. up: the
        neighbour toward the root, empty at the root. tenant: whose the ranks are. slots:
        arrays joined at once. is_over: forget the group instead. What the group had here before
        goes first: its next ranks count blocks from 0 again.
        """
        node, up = self.event_loop.node, str(request.get("up", ""))
        sub_domain = self._sub_domain(request)
        group = int(request["group"]) | sub_domain << 32
        n_closed = close_group(node.vats, group)
        if request.get("is_over"):
            return {"ok": n_closed > 0}
        if up and up not in self.fabric.neighbours[self.name]:
            raise ConfigError("up", up, ", ".join(self.fabric.neighbours[self.name]))
        bsl = bitstring.bsl_of_bits(self.fabric.bitstring_bits)
        found = bitstring.bitstrings_of([int(i) for i in request["a_bm"]], bsl)
        if len(found) > 1:
            raise ConfigError("a_bm", request["a_bm"], "BFR-ids of one set identifier")
        si, bits = next(iter(found.items()), (0, 0))
        words = np.array(bitstring.to_words(bits, bsl), np.uint64)
        at = open_vat(
            node.vats,
            group,
            self.fabric.port_to(self.name, up) if up else 0,
            int(not up),
            words,
            len(words),
            bitstring.bift_id(bsl, sub_domain, si),
            int(request["slots"]),
            0,
            now_ps(),
        )
        slots = int(node.vats.rows[at]["n_slots"]) if at >= 0 else 0
        if at >= 0:
            node.vats.rows[at]["is_laid"] = 1
        return {"ok": at >= 0, "slots": slots}

    def _sub_domain(self, request: dict[str, Any]) -> int:
        """Of the tenant that a group is of, or of its ranks; a group is of one."""
        named = str(request.get("tenant", ""))
        for one in self.fabric.tenants:
            if one.name == named:
                return one.sub_domain
        ranks = [self.fabric.by_bfr_id.get(int(i)) for i in request.get("a_bm", ())]
        found = {self.fabric.sub_domain_of(node.name) for node in ranks if node is not None}
        if len(found) > 1 or named:
            known = ", ".join(one.name for one in self.fabric.tenants) or "none"
            raise ConfigError("tenant", named or request["a_bm"], f"ranks of one, of {known}")
        return found.pop() if found else self.fabric.sub_domain

    def _capture(self, request: dict[str, Any]) -> dict[str, Any]:
        """Start writing packets to a file, or stop and say how many were lost."""
        lost = self._end_capture()
        if request.get("path"):
            names = [n.name for n in self.fabric.port_nodes(self.name)]
            self.event_loop.io = self.event_loop.io._replace(tap=build_tap())
            snaplen = min(max(int(request.get("snaplen", WHOLE)), 1), WHOLE)
            path, io = Path(request["path"]), self.event_loop.io
            self.capture = Capture(path, self.fabric, names, io, snaplen)
        return {"ok": True, "lost": lost}

    def _end_capture(self) -> int:
        if self.capture is None:
            return 0
        lost = self.capture.close()
        self.capture = None
        return lost
