"""Transfers between hosts that start when somebody decides so, as fluid over paths of a net.

Rates are max-min fair over all links of the paths (loop/maxmin.py), by the events of a program
at flow fidelity (loop/drain.py); here items come one by one, so that what is decided later may
hang on when earlier ones ended. A transfer has one path, chosen as that of a message. Bytes are
those of the payload: headers and acknowledgements take nothing.

Letters: L = links, K = transfers at once, P = links of the longest path.
"""

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.slots import NEVER_PS
from fanfold.sim.fluid_flows import first_links, paths_by
from fanfold.sim.loop.drain import ITEM_ROW, begin, heap_drop, on_sent, settle
from fanfold.sim.loop.maxmin import (
    ENTRY_ROW,
    FLOW_ROW,
    H_FIELDS,
    HEAP,
    LINK_ROW,
    N_HEAP,
    N_LISTS,
    NONE,
    leave,
)
from fanfold.topo.birt import build_birt
from fanfold.topo.byte_time import byte_times
from fanfold.topo.net import Net
from fanfold.topo.routes import Routes

I64 = NDArray[np.int64]
N_ECMP = 4
FIRST_ROOM = 64


class Transfers:
    """All transfers of one net that are under way; times are ps and never fall.

    Args:
        seed: of paths, where there are several alike.
    """

    def __init__(self, net: Net, routes: Routes, seed: int) -> None:
        self.net, self._routes, self._seed = net, routes, seed
        self._ways = build_birt(net, routes, N_ECMP)
        self._links = np.zeros(net.n_links, LINK_ROW)
        self._links["cap"] = byte_times(net).bytes_a_ps()
        self._links["reverse"], self._links["head"] = net.reverse, NONE
        self._h = np.zeros(H_FIELDS, np.int64)
        self._flows, self._items = np.zeros(0, FLOW_ROW), np.zeros(0, ITEM_ROW)
        self._entries = np.zeros(0, ENTRY_ROW)
        self._lists = np.zeros((N_LISTS, net.n_links), np.int64)
        self._free: list[int] = []
        self._paths: dict[tuple[int, int], I64] = {}
        self._is_settled = True
        self._now_ps = 0

    def path(self, src: int, dst: int) -> I64:
        """Links from one host to another.

        Raises:
            ConfigError: there is no path.
        """
        if (src, dst) not in self._paths:
            ends = np.array([src]), np.array([dst])
            nic = first_links(self.net, self._ways, *ends, np.zeros(1, np.int64))
            found = paths_by(self._routes, self._ways, self._seed, (*ends, nic))[0]
            self._paths[src, dst] = found[found >= 0].astype(np.int64)
        return self._paths[src, dst]

    def start(self, now_ps: int, src: int, dst: int, n_bytes: int) -> int:
        """Send bytes, at least one, from one host to another one; its number while it lasts."""
        if not self._free:
            self._grow()
        k, path = self._free.pop(), self.path(src, dst)
        first = k * self._routes.longest
        flow, mine = self._flows[k], self._entries[first : first + path.size]
        flow["first"], flow["end"], flow["limit"] = first, first + path.size, np.inf
        flow["rate"] = flow["old"] = flow["met"] = 0
        flow["item"] = flow["last"] = flow["at"] = NONE
        mine["link"], mine["flow"], mine["weight"] = path, k, 1
        mine["after"] = mine["before"] = NONE
        self._items[k]["flow"], self._items[k]["bytes"] = k, n_bytes
        begin(*self._world(), self._items, k, now_ps)
        self._now_ps, self._is_settled = now_ps, False
        return k

    def next_ps(self) -> int:
        """When the next one has sent its last byte; NEVER_PS without one."""
        if not self._is_settled:
            settle(*self._world(), self._now_ps, False)
            self._is_settled = True
        if self._h[N_HEAP] == 0:
            return NEVER_PS
        return int(self._flows[self._lists[HEAP, 0]]["due_ps"])

    def end(self) -> int:
        """The one whose last byte leaves at ``next_ps``; its number is free again."""
        now_ps = self.next_ps()
        k = int(self._lists[HEAP, 0])
        on_sent(*self._world(), self._items, k, now_ps)
        return self._forget(k, now_ps)

    def stop(self, now_ps: int, k: int) -> None:
        """One that is under way ends where it is."""
        self.next_ps()
        heap_drop(self._h, self._lists, self._flows, k)
        leave(*self._world(), k)
        self._forget(k, now_ps)

    def _forget(self, k: int, now_ps: int) -> int:
        self._free.append(k)
        self._now_ps, self._is_settled = now_ps, False
        return k

    def _world(
        self,
    ) -> tuple[I64, I64, "NDArray[np.void]", "NDArray[np.void]", "NDArray[np.void]"]:
        return self._h, self._lists, self._links, self._flows, self._entries

    def _grow(self) -> None:
        """Twice as many may be under way at once."""
        old = self._flows.size
        new = max(2 * old, FIRST_ROOM)
        longest = self._routes.longest
        self._flows = _longer(self._flows, new)
        self._items = _longer(self._items, new)
        self._entries = _longer(self._entries, new * longest)
        lists = np.zeros((N_LISTS, max(self.net.n_links, new)), np.int64)
        lists[:, : self._lists.shape[1]] = self._lists
        self._lists = lists
        self._free = list(range(new - 1, old - 1, -1))


def _longer(rows: "NDArray[np.void]", n: int) -> "NDArray[np.void]":
    more = np.zeros(n, rows.dtype)
    more[: rows.size] = rows
    return more
