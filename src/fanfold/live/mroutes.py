"""Static IP multicast routes in the kernels of namespaces, without a daemon.

A router's socket of multicast routing holds its interfaces and routes, which are gone when it
is closed, with the process at the latest. Routes are (S,G): every host may send to every group.
Linux: include/uapi/linux/mroute.h.
"""

import socket
import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fanfold.errors import EnvironmentLack
from fanfold.live.spaces import inside

MRT_INIT, MRT_ADD_VIF, MRT_ADD_MFC = 200, 202, 204
USE_IFINDEX = 8
MAX_VIFS = 32
VIF_BYTES = "=HBBIi4s"
ENTRY_BYTES = "=4s4sH32s2xIIIi"
ANY = bytes(4)
HOPS_LEFT = 1
"""A packet leaves by an interface when its TTL is above this."""


class Branch(NamedTuple):
    """A device of a router on the tree, and the addresses that send from behind it."""

    device: str
    sources: tuple[str, ...]


def route_multicast(
    space: str, branches: Sequence[Branch], groups: Iterable[str]
) -> socket.socket:
    """Let a namespace pass on what comes in by one branch to all others, until it is closed.

    Raises:
        EnvironmentLack: the kernel has no multicast routing, or the tree is too wide.
    """
    if len(branches) > MAX_VIFS:
        raise EnvironmentLack(
            f"{space}: {len(branches)} links of one router in a multicast tree; Linux routes "
            f"over {MAX_VIFS}"
        )
    with inside(space):
        sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_IGMP)
        try:
            sock.setsockopt(socket.IPPROTO_IP, MRT_INIT, 1)
            for i, branch in enumerate(branches):
                index = socket.if_nametoindex(branch.device)
                row = struct.pack(VIF_BYTES, i, USE_IFINDEX, 1, 0, index, ANY)
                sock.setsockopt(socket.IPPROTO_IP, MRT_ADD_VIF, row)
            for group in groups:
                for row in entries(branches, group):
                    sock.setsockopt(socket.IPPROTO_IP, MRT_ADD_MFC, row)
        except OSError as error:
            sock.close()
            raise EnvironmentLack(f"{space}: multicast routes: {error.strerror}") from error
    return sock


def entries(branches: Sequence[Branch], group: str) -> list[bytes]:
    """A row for each source: in by its branch, out by all others."""
    made = []
    for parent, branch in enumerate(branches):
        limits = bytes(
            HOPS_LEFT if i < len(branches) and i != parent else 0 for i in range(MAX_VIFS)
        )
        for source in branch.sources:
            ends = socket.inet_aton(source), socket.inet_aton(group)
            made.append(struct.pack(ENTRY_BYTES, *ends, parent, limits, 0, 0, 0, 0))
    return made
