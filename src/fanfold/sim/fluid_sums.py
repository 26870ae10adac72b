"""Sums as fluid: one flow over all links of a tree, up with arrays and down with results.

A rank sends a block when its window lets it, BFRs add up what has come, and the root's results
go down meanwhile, so every link of the tree carries the same at the same time, each way. The
slowest link sets the pace, or the window does: a block leaves when the result of the one a
window before it has come.

Letters: S = sums, R = ranks, L = links, M = links of the longest path.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.kernels.rank_timers import FIRST_CWND
from fanfold.results.outcome import ACK, DATA
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import MIDDLE, NO_TREE, Program, Sum
from fanfold.sim.fluid_flows import Taken, refuse_pair
from fanfold.sim.loop.ways import NONE, Ways, fan_down
from fanfold.sim.sum_links import sum_links
from fanfold.sim.sum_sizes import SumSizes, sum_sizes, sum_window
from fanfold.topo.byte_time import byte_times
from fanfold.topo.net import Net
from fanfold.topo.routes import Routes

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


NOBODY = np.zeros(0, np.int64)


class SumTree(NamedTuple):
    """Links of one sum.

    hosts: (R,) ranks. path: (R, M) links from the root to each, -1 beyond the last. arm: links
    from rank 0 to the root, by which ARM goes; none in an installed tree. sizes: of it.
    window: blocks under way. is_installed: hops are connections with acknowledgements. to_all:
    results are for all. passing: BFRs that have no slots for it. n_arms: times that rank 0 asks
    for slots.
    """

    hosts: I64
    path: I32
    arm: I64
    sizes: SumSizes
    window: int
    is_installed: bool
    to_all: bool
    passing: I64 = NOBODY
    n_arms: int = 1

    def root(self, net: Net) -> int:
        """Node that all arrays come together at."""
        return int(net.src[self.path[0, 0]])

    @property
    def down(self) -> I64:
        """Links from the root on, each once."""
        return np.unique(self.path[self.path >= 0]).astype(np.int64)

    def up_copies(self, net: Net) -> I64:
        """(L,) arrays of a block on each link toward the root: one, or all passed on."""
        copies = np.zeros(net.n_links, np.int64)
        copies[net.reverse[self.down]] = 1
        column = net.reverse[self.path]
        for m in range(self.path.shape[1] - 1, 0, -1) if self.passing.size else ():
            is_on = self.path[:, m] >= 0
            from_below = np.unique(column[is_on, m])
            node = net.dst[from_below]
            passes = np.isin(node, self.passing) & (node != self.root(net))
            above = np.full(net.n_nodes, 0, np.int64)
            above[net.src[column[is_on, m - 1]]] = column[is_on, m - 1]
            copies[np.unique(above[node[passes]])] = 0
            np.add.at(copies, above[node[passes]], copies[from_below[passes]])
        return copies

    @property
    def results(self) -> I64:
        """Those that whole results go over."""
        own = self.path[0]
        return self.down if self.to_all else own[own >= 0].astype(np.int64)

    @property
    def empties(self) -> I64:
        """Those that results without an array go over, for those who are to get none."""
        if self.to_all or self.is_installed:
            return np.zeros(0, np.int64)
        others = self.path[1:]
        return np.unique(others[others >= 0]).astype(np.int64)


class SumTimes(NamedTuple):
    """How long a sum's parts take where it is alone.

    ready_ps: until all ranks may send. rest_ps: (R,) from a block out of all ranks to its
    result at each. limit: bytes a picosecond that the window allows, infinite where it never
    holds a block back.
    """

    ready_ps: int
    rest_ps: I64
    limit: float


def build_sum_tree(
    net: Net,
    routes: Routes,
    ways: Ways,
    program: Program,
    settings: Settings,
    at: int,
    root_level: int = MIDDLE,
) -> SumTree:
    """Links of a sum of a program.

    Args:
        root_level: instead of the sum's own.

    Raises:
        ConfigError: no path between members.
    """
    one = program.sums[at]
    hosts = np.array(one.hosts, np.int64)
    sizes, window = sum_sizes(one, settings), sum_window(one, settings)
    if one.tree != NO_TREE:
        links = np.array(program.trees[one.tree].phases[-1].links, np.int64)
        path = _trace(net, links, hosts, routes.longest)
        return SumTree(hosts, path, np.zeros(0, np.int64), sizes, window, True, one.to_all)
    table = at % settings.n_ecmp
    if root_level != MIDDLE:
        one = one._replace(root_level=root_level)
    arm = _root_level(net, routes, ways, one, hosts, table)
    path = _down(net, routes, ways, int(net.dst[arm[-1]]), hosts, table)
    return SumTree(hosts, path, arm, sizes, window, False, one.to_all)


def _root_level(net: Net, routes: Routes, ways: Ways, one: Sum, hosts: I64, table: int) -> I64:
    """ARM's links to the root: toward the last member behind another BFR (fold.md, rule 1)."""
    way = [int(sum_links(net, routes, one)[0])]
    members = np.sort(hosts)
    n_left = one.root_level
    while n_left:
        path = _down(net, routes, ways, int(net.dst[way[-1]]), members, table)
        is_on = net.dst[path[:, 0]] >= net.n_hosts
        is_on &= path[:, 0] != net.reverse[way[-1]]
        if not is_on.any():
            break
        last = path[is_on][-1]
        if n_left == MIDDLE:
            n_left = (int((last >= 0).sum()) - 1) // 2
            if n_left == 0:
                break
        way.append(int(last[0]))
        n_left -= 1
    return np.array(way, np.int64)


def _down(net: Net, routes: Routes, ways: Ways, root: int, hosts: I64, table: int) -> I32:
    """(R, M) links from a router to each of some hosts."""
    path = np.empty((hosts.size, routes.longest), np.int32)
    lost = fan_down(ways, root - net.n_hosts, hosts, table, path)
    if lost != NONE:
        refuse_pair(net, root, int(hosts[lost]))
    return path


def _trace(net: Net, links: I64, hosts: I64, most: int) -> I32:
    """(R, M) links of a tree from its root to each host."""
    above = np.full(net.n_nodes, NONE, np.int64)
    above[net.dst[links]] = links
    back = np.full((hosts.size, most), NONE, np.int64)
    node, column = hosts, 0
    while (above[node] != NONE).any():
        if column == most:
            raise ConfigError("program", "a tree with a circle", "a tree")
        link = above[node]
        back[:, column] = link
        node = np.where(link == NONE, node, net.src[link])
        column += 1
    n_used = (back != NONE).sum(axis=1)
    turned = n_used[:, None] - 1 - np.arange(most)
    path = np.take_along_axis(back, np.maximum(turned, 0), axis=1)
    return np.where(turned >= 0, path, NONE).astype(np.int32)


def sum_times(net: Net, settings: Settings, tree: SumTree) -> SumTimes:
    """Times of a sum over idle links."""
    sizes = tree.sizes
    up, down = (of(net, settings, tree, sizes.full) for of in (_up_ps, _down_ps))
    pace_ps = _pace_ps(net, tree, sizes.full)
    most = tree.window
    window = most if tree.is_installed else _grown(min(FIRST_CWND, most), most, sizes.n_agreed)
    span_ps = _span_ps(sizes.n_blocks, window, most, (pace_ps, int(up.max() + down.max())))
    ready_ps, waits_ps = _ready_ps(net, settings, tree)
    waits_ps += span_ps - sizes.n_blocks * pace_ps
    limit = sizes.flow / (waits_ps + _pace_ps(net, tree, sizes.flow)) if waits_ps else np.inf
    rest_ps = int(up.max()) - pace_ps + down
    return SumTimes(ready_ps, rest_ps, float(limit))


def _pace_ps(net: Net, tree: SumTree, n_bytes: int) -> int:
    """Time of so many bytes at the slowest link."""
    used = tree.path[tree.path >= 0]
    return int(byte_times(net).at(np.concatenate([used, net.reverse[used]]), n_bytes).max())


def _ready_ps(net: Net, settings: Settings, tree: SumTree) -> tuple[int, int]:
    """Until ranks send arrays: ARM up and down, then rounds in which they agree.

    Returns:
        Time without the sending of exponents in blocks of their own; how long ranks wait
        meanwhile for their window.
    """
    if tree.is_installed:
        return 0, 0
    sizes = tree.sizes
    up_ps = _along_ps(net, settings, tree.arm, sizes.head)
    down_ps = _down_ps(net, settings, tree, sizes.head)
    ready_ps = (tree.n_arms - 1) * (up_ps + int(down_ps[0])) + up_ps + int(down_ps.max())
    full = min(sizes.asked, sizes.head + settings.payload_bytes)
    ready_ps += _trip_ps(net, settings, tree, full)
    ready_ps += int(byte_times(net).at(tree.path[:, 0], sizes.asked - full).max())
    if not sizes.n_first:
        return ready_ps, 0
    full = sizes.head + min(sizes.first, settings.payload_bytes)
    trip_ps, pace_ps = _trip_ps(net, settings, tree, full), _pace_ps(net, tree, full)
    window = _grown(min(FIRST_CWND, tree.window), tree.window, sizes.n_agreed - sizes.n_first)
    first_ps = _span_ps(sizes.n_first, window, tree.window, (pace_ps, trip_ps))
    return ready_ps + trip_ps - pace_ps, first_ps - sizes.n_first * pace_ps


def _trip_ps(net: Net, settings: Settings, tree: SumTree, n_bytes: int) -> int:
    """Time of a packet of all ranks to the root, and back to all."""
    return sum(int(of(net, settings, tree, n_bytes).max()) for of in (_up_ps, _down_ps))


def _grown(window: int, most: int, n_results: int) -> int:
    """Window after so many results, without a loss."""
    while n_results >= window < most:
        n_results -= window
        window = min(window + max(window // 2, 1), most)
    return window


def _span_ps(n_blocks: int, window: int, most: int, times: tuple[int, int]) -> int:
    """How long a rank that is alone sends, by a window that grows.

    Args:
        times: of one block at the slowest link, and of a block and its result.
    """
    pace_ps, round_ps = times
    left, at_ps = n_blocks, 0
    while left > window and window < most and window * pace_ps < round_ps:
        at_ps += round_ps
        left -= window
        window = min(window + max(window // 2, 1), most)
    if window * pace_ps >= round_ps:
        return at_ps + left * pace_ps
    rounds, more = divmod(left - 1, window)
    return at_ps + rounds * round_ps + (more + 1) * pace_ps


def _along_ps(net: Net, settings: Settings, links: I64, n_bytes: int) -> int:
    """Time of a packet along some links."""
    each = byte_times(net).at(links, n_bytes) + net.prop_ps[links]
    return int(each.sum()) + settings.switch_ps * links.size


def _up_ps(net: Net, settings: Settings, tree: SumTree, n_bytes: int) -> I64:
    """(R,) time of a packet from each rank to the root: a switch that adds has all of it."""
    links, used = net.reverse[tree.path], tree.path >= 0
    each = byte_times(net).at(links, n_bytes) + net.prop_ps[links] + settings.switch_ps
    return np.asarray(np.where(used, each, 0).sum(axis=1))


def _down_ps(net: Net, settings: Settings, tree: SumTree, n_bytes: int) -> I64:
    """(R,) time of a packet from the root to each rank, without the delay of its host."""
    used, send_ps = tree.path >= 0, byte_times(net).at(tree.path, n_bytes)
    fly_ps = np.where(used, net.prop_ps[tree.path] + settings.switch_ps, 0).sum(axis=1)
    send_ps = np.where(used, send_ps, 0)
    if settings.cut_through:
        ahead = send_ps * tree.sizes.head // n_bytes
        return np.asarray(fly_ps + ahead.sum(axis=1) + (send_ps - ahead).max(axis=1))
    return np.asarray(fly_ps + send_ps.sum(axis=1)) - settings.switch_ps


def sum_entries(net: Net, tree: SumTree, ack_bytes: int) -> Taken:
    """What a sum takes of links; acknowledgements go the other way."""
    sizes = tree.sizes
    up = tree.up_copies(net)
    weight = up.astype(np.float64)
    weight[tree.results] += 1
    whole = weight.copy()
    weight[np.setdiff1d(tree.down, tree.results)] += (sizes.flow - sizes.wire) / sizes.flow
    weight[tree.empties] += sizes.empty / sizes.flow
    links = np.nonzero(weight)[0]
    ack = sizes.n_blocks * ack_bytes / sizes.flow if tree.is_installed else 0.0
    return Taken(links, weight[links], whole[links], ack)


def count_arrays(net: Net, tree: SumTree) -> tuple[int, int]:
    """Arrays that BFRs join in slots, and that they pass on without."""
    copies = tree.up_copies(net) * (tree.sizes.n_blocks + tree.sizes.n_agreed)
    passed = int(copies[np.isin(net.dst, tree.passing)].sum())
    return int(copies.sum()) - passed, passed


def count_sum(net: Net, settings: Settings, tree: SumTree, out: I64) -> None:
    """Add a sum's packets and bytes to (L, N_LINK_CLASSES, 2)."""
    sizes = tree.sizes
    array = np.array([sizes.n_blocks, sizes.wire])
    copies, down = tree.up_copies(net), tree.results
    out[:, DATA] += copies[:, None] * array
    out[down, DATA] += array
    out[tree.empties, DATA] += np.array([sizes.n_blocks, sizes.empty])
    if tree.is_installed:
        acks = np.array([sizes.n_blocks, sizes.n_blocks * settings.ack_bytes])
        out[tree.down, ACK] += acks
        out[net.reverse[down], ACK] += acks
        return
    agreed, word = np.array([sizes.n_agreed, sizes.agreed]), np.array([1, sizes.head])
    out[:, DATA] += copies[:, None] * agreed
    out[tree.down, DATA] += agreed
    home = net.reverse[tree.path[0][tree.path[0] >= 0]][::-1]
    for links in (tree.arm, tree.down):
        out[links, ACK] += tree.n_arms * word
    for links in (home, tree.down, home):  # CLOSE, and again: the root has forgotten the group
        out[links, ACK] += word
