"""Makes kernel routes of what a lab's BGP speakers tell; `python -m` this, with the lab's name.

One process for all hosts of a lab: in each namespace it is the BMP station of that host's bgpd,
and gives its kernel weighted routes. It ends by a signal, or when the namespaces are gone. What
cannot be read is counted by its reason, and changes nothing.
"""

import json
import os
import selectors
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import msgspec

from fanfold.errors import EnvironmentLack, FanfoldError, WireError
from fanfold.live.control import Commands, open_local
from fanfold.live.frr import BMP_PORT
from fanfold.live.lab import PLANE_AGENT, PLANES, Lab, start_time
from fanfold.live.plane_build import in_space
from fanfold.live.plane_numbers import CONTROL
from fanfold.live.plane_routes import PlaneRoutes
from fanfold.live.spaces import RUN, space_of
from fanfold.topo.plane_plan import PlanePlan, Speaker
from fanfold.topo.plane_rib import PlaneRib, RibLink, has_grown
from fanfold.wire import bgp_update, bmp

SETTLE_S = 0.02
"""From a first word to new routes: what one event changes is told in several messages."""
LOOK_S, RETRY_S = 1.0, 0.2
LOOKUP_S = 0.3
"""In which a flow that is under way sends something."""
EVEN_S, MOST_EVEN_S = 1.2, 60.0
"""Between tries to give a plane that got more the buckets that were in use."""
READ_BYTES = 1 << 16
BYTES_PER_MBIT = 125_000
NEARLY = Fraction(999_999, 1_000_000)
"""Of a bandwidth: binary32 has 24 bits of it."""


class HostAgent:
    """Station and routes of one host."""

    def __init__(self, lab: str, plan: PlanePlan, host: Speaker) -> None:
        legs = plan.at_host(host.name)
        self.own = f"{host.address}/32"
        others = {f"{each.address}/32": each.name for each in plan.hosts}
        self.names = {prefix: name for prefix, name in others.items() if prefix != self.own}
        self.rib = PlaneRib(
            {x.leaf_address: RibLink(x.plane, Fraction(x.mbps * BYTES_PER_MBIT)) for x in legs}
        )
        self.routes = PlaneRoutes(lab, host.name, host.address, legs)
        own = plan.carried(host.name)
        self._full: dict[str, dict[int, int]] = {}
        for each in plan.hosts:
            far = plan.carried(each.name)
            common = {plane: min(own[plane], far[plane]) for plane in own if plane in far}
            self._full[f"{each.address}/32"] = common
        del self._full[self.own]
        self.refused: Counter[str] = Counter()
        self.changed_at = 0.0
        self._paths: dict[str, dict[int, Fraction | None]] = {}
        self._rest = b""
        self._uneven: set[str] = set()
        self._touched_s: float | None = None
        self._even_s, self._even_at_s = EVEN_S, 0.0

    def hear(self, octets: bytes) -> None:
        """Take what the speaker says; a stream that cannot be read is dropped as a whole."""
        try:
            told, self._rest = bmp.split(self._rest + octets)
        except WireError as error:
            self.refused[str(error.reason)] += 1
            self._rest = b""
            raise ConnectionError(str(error)) from error
        for each in told:
            self._take(each)

    def fall_silent(self) -> None:
        """The speaker is gone; its routes stay in the kernel until it is back."""
        self._rest = b""
        self.rib.on_silence()

    def install(self, now_s: float) -> float | None:
        """Bring the kernel's routes up to date; when to come again, None: when there is news.

        What is lost is left at once. Where a plane carries more, flows that are under way are
        to be seen first.
        """
        known = [p for p in sorted(self.rib.prefixes()) if p in self.names]
        paths = {prefix: self.rib.paths_to(prefix) for prefix in known}
        wanted = {prefix: self.rib.weights_to(prefix) for prefix in known}
        held = [p for p in known if p in self.routes.weights]
        news = {p for p in held if has_grown(self._paths.get(p, {}), paths[p])}
        grown = news | self._still_uneven(now_s).intersection(held)
        later = grown if grown and not self._has_looked(now_s) else set()
        for prefix in later:
            old, new = self.routes.weights[prefix], wanted[prefix]
            wanted[prefix] = {peer: n for peer, n in old.items() if peer in new} or new
        if self.routes.put(wanted, grown - later):
            self.changed_at = time.time()
        self._paths = paths | {p: self._paths.get(p, {}) for p in later}
        if later:
            return LOOKUP_S
        if grown:
            self._uneven |= grown
            self._even_s = min(2 * self._even_s, MOST_EVEN_S) if not news else EVEN_S
            self._even_at_s = now_s + self._even_s
        return max(self._even_at_s - now_s, 0.0) if self._uneven else None

    def _still_uneven(self, now_s: float) -> set[str]:
        """Destinations whose buckets that were in use are to be tried once more."""
        if now_s < self._even_at_s:
            return set()
        if self._touched_s is None:
            self._uneven = self.routes.uneven(self._uneven)
        return self._uneven

    def _has_looked(self, now_s: float) -> bool:
        """Whether flows under way had the time to look up their routes; else it begins."""
        if self._touched_s is None:
            self.routes.touch()
            self._touched_s = now_s
        if now_s - self._touched_s < LOOKUP_S:
            return False
        self._touched_s = None
        return True

    def is_whole(self) -> bool:
        """Whether all legs are up and the kernel has what they carry to every other host."""
        return len(self.rib.peers) == len(self.rib.links) and all(
            is_full(self.rib.paths_to(prefix), full)
            and self.routes.weights.get(prefix) == self.rib.weights_to(prefix)
            for prefix, full in self._full.items()
        )

    def status(self) -> dict[str, Any]:
        """What is known and installed, for people."""
        return {
            "sessions": len(self.rib.peers),
            "sessions_of": len(self.rib.links),
            "to": {
                self.names[p]: {str(n): str(s) for n, s in self.rib.planes_to(p).items()}
                for p in self.routes.weights
            },
            "is_whole": self.is_whole(),
            "is_resilient": self.routes.is_resilient,
            "changed_at": self.changed_at,
            "refused": dict(self.refused),
        }

    def paths(self) -> dict[str, dict[int, str | None]]:
        """Bandwidth of the path to each destination over each plane; None: nobody said."""
        known = {
            self.names[p]: self.rib.paths_to(p) for p in self.rib.prefixes() & set(self.names)
        }
        return {
            name: {n: None if bps is None else str(bps) for n, bps in paths.items()}
            for name, paths in known.items()
        }

    def _take(self, told: bmp.Told) -> None:
        match told.type:
            case bmp.BmpType.PEER_UP:
                self.rib.on_peer_up(told.peer)
            case bmp.BmpType.PEER_DOWN:
                self.rib.on_peer_down(told.peer)
            case bmp.BmpType.ROUTE_MONITORING:
                self._take_updates(told)
            case _:
                pass  # its name, statistics, its end

    def _take_updates(self, told: bmp.Told) -> None:
        try:
            messages, _ = bgp_update.split(told.body)
            for message in messages:
                if message.type == bgp_update.MessageType.UPDATE:
                    update = bgp_update.decode(message.body, told.asn_bytes)
                    self.rib.on_update(told.peer, update)
        except WireError as error:
            self.refused[str(error.reason)] += 1


class PlaneAgent:
    """The process: stations of all hosts, one loop."""

    def __init__(self, lab: Lab, plan: PlanePlan) -> None:
        self.lab, self.plan = lab, plan
        self.hosts = {host.name: HostAgent(lab.name, plan, host) for host in plan.hosts}
        self._due: dict[str, float] = {}
        self._selector = selectors.DefaultSelector()
        self._is_stopped = False
        self._wake, self._woken = socket.socketpair()
        self._commands = Commands({"status": self._status, "paths": self._paths}, self._poke)

    def run(self) -> None:
        """Work until a signal, or until the namespaces are gone."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        for name, host in self.hosts.items():
            host.routes.begin()
            station = in_space(self.lab.name, name, _listen)
            self._selector.register(station, selectors.EVENT_READ, ("accept", name))
        self._selector.register(self._woken, selectors.EVENT_READ, ("wake", ""))
        close = open_local(self.lab.control_socket(CONTROL), self._commands)
        state = {"pid": os.getpid(), "started": start_time(os.getpid())}
        (self.lab.folder / PLANE_AGENT).write_text(json.dumps(state), encoding="utf-8")
        first = RUN / space_of(self.lab.name, self.plan.hosts[0].name)
        while not self._is_stopped and first.exists():
            self._step()
        close()

    def _step(self) -> None:
        until = min(self._due.values(), default=time.monotonic() + LOOK_S)
        for key, _ in self._selector.select(max(until - time.monotonic(), 0)):
            what, name = key.data
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            match what:
                case "accept":
                    self._accept(sock, name)
                case "wake":
                    sock.recv(64)
                    self._commands.run_waiting()
                case _:
                    self._read(sock, name)
        now = time.monotonic()
        for name in [name for name, due in self._due.items() if due <= now]:
            del self._due[name]
            self._install(name)

    def _accept(self, station: socket.socket, name: str) -> None:
        sock, _ = station.accept()
        sock.setblocking(False)
        self._selector.register(sock, selectors.EVENT_READ, ("read", name))

    def _read(self, sock: socket.socket, name: str) -> None:
        host = self.hosts[name]
        try:
            octets = sock.recv(READ_BYTES)
            if not octets:
                raise ConnectionError("closed")
            host.hear(octets)
        except OSError:
            self._selector.unregister(sock)
            sock.close()
            host.fall_silent()
            return
        soon = time.monotonic() + SETTLE_S
        self._due[name] = min(self._due.get(name, soon), soon)

    def _install(self, name: str) -> None:
        host = self.hosts[name]
        try:
            again_s = host.install(time.monotonic())
            if again_s is not None:
                self._due[name] = time.monotonic() + again_s
        except EnvironmentLack as error:
            sys.stderr.write(f"{name}: {error}\n")
            sys.stderr.flush()
            self._due[name] = time.monotonic() + RETRY_S

    def _status(self, request: dict[str, Any]) -> dict[str, Any]:
        del request
        return {"hosts": {name: host.status() for name, host in self.hosts.items()}}

    def _paths(self, request: dict[str, Any]) -> dict[str, Any]:
        """What one host knows of its paths; an unknown host is told as an error."""
        return {"paths": self.hosts[request["host"]].paths()}

    def _poke(self) -> None:
        self._wake.send(b"x")

    def _stop(self, number: int, frame: object) -> None:
        del number, frame
        self._is_stopped = True
        self._poke()


def is_full(paths: Mapping[int, Fraction | None], full: Mapping[int, int]) -> bool:
    """Whether paths carry what they carry when nothing is down.

    Args:
        paths: bytes per second by plane, rounded as communities are. full: Mbit/s by plane.
    """
    return paths.keys() == full.keys() and all(
        (paths[plane] or 0) >= mbps * BYTES_PER_MBIT * NEARLY for plane, mbps in full.items()
    )


def _listen() -> socket.socket:
    station = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    station.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    station.bind(("127.0.0.1", BMP_PORT))
    station.listen(4)
    return station


def main(name: str) -> int:
    """Be the agent of a lab; the exit code."""
    lab = Lab(name)
    try:
        plan = msgspec.json.decode((lab.folder / PLANES).read_bytes(), type=PlanePlan)
        PlaneAgent(lab, plan).run()
    except FanfoldError as error:
        sys.stderr.write(f"planes: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
