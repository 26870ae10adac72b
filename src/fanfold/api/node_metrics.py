"""`/metrics` of a node as commands ask for it, and the gray links that it knows of.

A node alone cannot tell a link that loses from a neighbour that sends less. At each scrape its
neighbours are asked what they count, beside the answer; the next scrape has the verdict.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from fanfold.errors import ConfigError
from fanfold.live.control_sockets import Answer, Call, begin_asking
from fanfold.live.host import Host
from fanfold.live.metrics import families
from fanfold.live.status import read_all
from fanfold.push.gray import GrayLink
from fanfold.push.gray_counts import Rounds

if TYPE_CHECKING:
    from prometheus_client.core import Metric

MAX_PORT = 65535
ASK_S = 1.0
ALLOWED = f"ADDRESS:PORT, or a port 1 to {MAX_PORT} at the node's own address"


class Place(NamedTuple):
    """Where metrics are served; no address: the node's own."""

    address: str
    port: int


def parse_place(text: str, field: str = "--metrics") -> Place:
    """``127.0.0.1:9464``, or ``9464``.

    Raises:
        ConfigError: neither.
    """
    address, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) <= MAX_PORT:
        raise ConfigError(field, text, ALLOWED)
    return Place(address, int(port))


def serve_node(host: Host, place: Place, sockets: Path | None = None) -> None:
    """Serve a node's metrics until it ends.

    Args:
        sockets: folder of control sockets of a lab's nodes; None: nodes are asked over TCP.

    Raises:
        EnvironmentLack: the port is in use, or the address is not of this machine.
    """
    from fanfold.live.metrics_port import serve_metrics  # noqa: PLC0415 - 60 ms, for who asks

    own = host.fabric.by_name[host.name].address
    calls = {to: _call(host, to, own, sockets) for to in host.fabric.neighbours[host.name]}
    near = _Near(host, lambda: begin_asking(calls, ASK_S))
    host.on_end.append(serve_metrics(place.address or own, place.port, near.collect))


def _call(host: Host, to: str, own: str, sockets: Path | None) -> Call:
    if sockets is not None:
        return Call(sockets / f"{to}.sock", {"do": "status"})
    there = host.fabric.by_name[to].address, host.fabric.port
    return Call(there, {"do": "status"}, own)


class _Near:
    """A node and what its neighbours said at the last two scrapes."""

    def __init__(self, host: Host, ask: Callable[[], Callable[[], Mapping[str, Answer]]]):
        self.host, self.ask = host, ask
        self._asked: Callable[[], Mapping[str, Answer]] | None = None
        self._own: Answer = {}
        self._rounds = Rounds(host.fabric)
        self._gray: list[GrayLink] = []

    def collect(self) -> "Iterator[Metric]":
        status = self.host.status()
        asked, self._asked = self._asked, None
        if asked is not None:
            self._judge({**asked(), self.host.name: self._own})
        self._own, self._asked = status, self.ask()
        rows: list[dict[str, Any]] = msgspec.to_builtins(self._gray)
        return families(status, rows)

    def _judge(self, answers: Mapping[str, Answer]) -> None:
        name = self.host.name
        found = self._rounds.take(read_all(self.host.fabric, answers))
        self._gray = [link for link in found if name in (link.src, link.dst)]
