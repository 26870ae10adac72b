"""N copies of a file over N TCP connections: what `scp` in a loop would do at its best.

One sending process with a thread and a ``sendfile`` for each receiver; each receiver is a
process that writes a file. It uses the standard library only.

    python tcp_end.py receive FILE address port      prints its port, takes one copy, ends
    python tcp_end.py send FILE address:port...      prints the seconds until all have it
"""

import os
import socket
import struct
import sys
import threading
import time
from pathlib import Path

PIECE = 1 << 20
TIMEOUT_S = 600.0


def receive(path: Path, address: str, port: int) -> None:
    """Take one copy."""
    with socket.create_server((address, port)) as server:
        server.settimeout(TIMEOUT_S)
        print(server.getsockname()[1], flush=True)  # noqa: T201 - a program of its own
        sock, _ = server.accept()
    with sock, path.open("wb", buffering=0) as file:
        sock.settimeout(TIMEOUT_S)
        (size,) = struct.unpack("!Q", sock.recv(8, socket.MSG_WAITALL))
        room = memoryview(bytearray(PIECE))
        while size:
            n = sock.recv_into(room)
            if n == 0:
                raise SystemExit("the sender left")
            file.write(room[:n])
            size -= n
        sock.sendall(b"+")


def send(path: Path, ends: list[str]) -> None:
    """Send a copy to each end, all at once; what fails is said by address, and ends with 1."""
    size = path.stat().st_size
    failed: dict[str, str] = {}
    began = time.monotonic()

    def one(end: str) -> None:
        address, port = end.rsplit(":", 1)
        try:
            with (
                socket.create_connection((address, int(port))) as sock,
                path.open("rb") as file,
            ):
                sock.settimeout(TIMEOUT_S)
                sock.sendall(struct.pack("!Q", size))
                sock.setblocking(True)
                at = 0
                while at < size:
                    at += os.sendfile(sock.fileno(), file.fileno(), at, size - at)
                if sock.recv(1) != b"+":
                    failed[address] = "ended before it had all"
        except OSError as error:
            failed[address] = error.strerror or str(error)

    threads = [threading.Thread(target=one, args=(end,)) for end in ends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise SystemExit(
            "\n".join(f"{address} failed: {why}" for address, why in failed.items())
        )
    print(time.monotonic() - began)  # noqa: T201 - as above


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    else:
        send(Path(sys.argv[2]), sys.argv[3:])
