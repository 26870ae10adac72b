"""A tracker of BitTorrent for one torrent: tells each who asks of all others, prints events.

    python tracker_end.py address port

A line ``started 10.81.0.1`` or ``completed 10.81.0.1`` for each event that is announced. It has
no more than the standard library.
"""

import socket
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

AGAIN_S = 5
"""How often peers are to ask."""
COMPACT = 6
"""Bytes of a peer: address and port."""


class Tracker(BaseHTTPRequestHandler):
    """Answers announcements of BitTorrent, with peers in the compact form."""

    peers: ClassVar[dict[str, bytes]] = {}

    def do_GET(self) -> None:
        """One announcement."""
        asked = parse_qs(urlsplit(self.path).query)
        address = self.client_address[0]
        port = int(asked.get("port", ["0"])[0])
        others = b"".join(row for who, row in self.peers.items() if who != address)
        self.peers[address] = socket.inet_aton(address) + port.to_bytes(2)
        body = b"d8:intervali%de5:peers%d:" % (AGAIN_S, len(others)) + others + b"e"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        for event in asked.get("event", ()):
            print(event, address, flush=True)  # noqa: T201 - a program of its own

    def log_message(self, *words: object) -> None:
        """Nothing but events."""


if __name__ == "__main__":
    HTTPServer((sys.argv[1], int(sys.argv[2])), Tracker).serve_forever()
