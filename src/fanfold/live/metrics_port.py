"""`/metrics` of a node: a port of its own, answered by threads beside the node's loop.

The loop works outside the GIL, and no answer waits for its turn: a scrape reads the node's
arrays as they stand. ADR 0050.
"""

import threading
from collections.abc import Callable, Iterator
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.registry import Collector

from fanfold.errors import EnvironmentLack
from fanfold.live.control import Bounded

if TYPE_CHECKING:
    from prometheus_client.core import Metric

TIMEOUT_S = 5.0
PATH = "/metrics"


class _Handler(WSGIRequestHandler):
    timeout = TIMEOUT_S

    def log_message(self, *args: Any) -> None:
        """A node's log is of pushes."""


class _Port(Bounded, WSGIServer):
    request_queue_size = 64
    allow_reuse_address = True

    def server_bind(self) -> None:
        """Take the port; nobody's name is looked up for it."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()


class _Source(Collector):
    def __init__(self, collect: "Callable[[], Iterator[Metric]]") -> None:
        self._collect = collect

    def collect(self) -> "Iterator[Metric]":
        return self._collect()

    def describe(self) -> "list[Metric]":
        """Nothing is asked of a node before it is scraped."""
        return []


def serve_metrics(
    address: str, port: int, collect: "Callable[[], Iterator[Metric]]"
) -> Callable[[], None]:
    """Serve what ``collect`` gives at each scrape; returns what closes the port.

    Raises:
        EnvironmentLack: the port is in use, or the address is not of this machine.
    """
    registry = CollectorRegistry()
    registry.register(_Source(collect))
    try:
        server = _Port((address, port), _Handler)
    except (OSError, OverflowError) as error:
        said = getattr(error, "strerror", "") or str(error)
        raise EnvironmentLack(f"metrics at {address}:{port}: {said}") from error
    app = make_wsgi_app(registry)

    def only_metrics(environ: dict[str, Any], start: Any) -> Any:
        if environ.get("PATH_INFO") == PATH:
            return app(environ, start)
        start("404 Not Found", [("Content-Type", "text/plain")])
        return [f"there is {PATH}\n".encode()]

    server.set_app(only_metrics)
    thread = threading.Thread(target=server.serve_forever, args=(0.5,), daemon=True)
    thread.start()

    def close() -> None:
        server.shutdown()
        server.server_close()

    return close
