"""N copies of a file over N TCP connections: what `scp` in a loop would do at its best.

One sending process with a thread and a `sendfile` for each receiver; each receiver is a process
that writes a file. It uses the standard library only.

    python tcp_copies.py receive FILE            prints its port, takes one copy, ends
    python tcp_copies.py send FILE PORT...       prints the seconds until all have it
"""

import os
import socket
import struct
import sys
import threading
import time
from pathlib import Path

ADDRESS = "127.0.0.1"
PIECE = 1 << 20
TIMEOUT_S = 600.0


def receive(path: Path) -> None:
    with socket.create_server((ADDRESS, 0)) as server:
        server.settimeout(TIMEOUT_S)
        print(server.getsockname()[1], flush=True)
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


def send(path: Path, ports: list[int]) -> None:
    size = path.stat().st_size
    said: list[bytes] = []
    began = time.monotonic()

    def one(port: int) -> None:
        with socket.create_connection((ADDRESS, port)) as sock, path.open("rb") as file:
            sock.settimeout(TIMEOUT_S)
            sock.sendall(struct.pack("!Q", size))
            sock.setblocking(True)
            at = 0
            while at < size:
                at += os.sendfile(sock.fileno(), file.fileno(), at, size - at)
            said.append(sock.recv(1))

    threads = [threading.Thread(target=one, args=(port,)) for port in ports]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if said != [b"+"] * len(ports):
        raise SystemExit(f"{len(said)} of {len(ports)} receivers have it")
    print(time.monotonic() - began)


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(Path(sys.argv[2]))
    else:
        send(Path(sys.argv[2]), [int(port) for port in sys.argv[3:]])
