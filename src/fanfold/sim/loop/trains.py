"""Which way a train of a sprayed message takes (docs/simulator.md section 7).

Its packets would go over all equal paths in turn. A train goes over one, and where each took
the next one, whole trains would meet. So every link keeps account of what it got beyond its
even share, and a train takes the path whose links are least ahead.
"""

from fanfold.kernels.jit import i64, kernel
from fanfold.sim.loop.rows import FLOWLET_PS, I64, N_HOSTS, N_SETS, PK_DATA, Rows, World

PATHS = 32
"""That are looked at: the next ones, or where there are more, some all over."""
MOST_PATHS = 1 << 20
MASK = 0x7FFFFFFF


@kernel
def place_train(q: I64, world: World, streams: Rows, p: int, node: int) -> None:
    """At its first router, give a train of a sprayed message the number of its path."""
    pkt = world.pkts[p]
    st = streams[pkt["stream"]]
    came = world.links[world.links[pkt["link"]]["reverse"]]["dst"]
    if st["path_step"] == 0 or q[FLOWLET_PS] > 0 or came >= q[N_HOSTS]:
        return
    router = i64(node - q[N_HOSTS])
    group = i64(st["dst_group"] if pkt["kind"] == PK_DATA else st["src_group"])
    first = i64(pkt["path"])
    n_paths = count_paths(q, world, router, group, first)
    if n_paths == 1:
        return
    step = max(n_paths // PATHS, 1) | 1
    n = min(n_paths, PATHS)
    best, best_most, best_sum = first, i64(0), i64(0)
    for turn in range(n):
        path = (first + turn * step) & MASK
        most, total = look_along(q, world, router, group, path)
        if turn == 0 or most < best_most or (most == best_most and total < best_sum):
            best, best_most, best_sum = path, most, total
    share = i64(pkt["bytes"]) // n
    for turn in range(n):
        add_along(q, world, router, group, (first + turn * step) & MASK, -share)
    add_along(q, world, router, group, best, n * share)
    pkt["path"] = best


@kernel
def next_of(q: I64, world: World, router: int, group: int, path: int) -> tuple[int, int]:
    """The link from a router along a path, and of how many; -1 at the last router."""
    k = world.way[router, group]
    if k < 0:
        return -1, 1
    n = i64(world.sets[k + 1] - world.sets[k])
    return i64(world.sets[q[N_SETS] + 1 + world.sets[k] + path % n]), n


@kernel
def count_paths(q: I64, world: World, router: int, group: int, path: int) -> int:
    """Equal paths, as many as one of them has choices."""
    n_paths = i64(1)
    at, n = next_of(q, world, router, group, path)
    while at >= 0 and n_paths < MOST_PATHS:
        n_paths, path = n_paths * n, path // n
        router = i64(world.links[at]["dst"]) - q[N_HOSTS]
        at, n = next_of(q, world, router, group, path)
    return n_paths


@kernel
def look_along(q: I64, world: World, router: int, group: int, path: int) -> tuple[int, int]:
    """How far ahead the links of a path are: the most, and all together."""
    most, total = i64(world.links[0]["ahead"]), i64(0)
    is_first = True
    at, n = next_of(q, world, router, group, path)
    while at >= 0:
        ahead = i64(world.links[at]["ahead"])
        most = ahead if is_first else max(most, ahead)
        is_first, total = False, total + ahead
        path //= n
        router = i64(world.links[at]["dst"]) - q[N_HOSTS]
        at, n = next_of(q, world, router, group, path)
    return most, total


@kernel
def add_along(q: I64, world: World, router: int, group: int, path: int, n_bytes: int) -> None:
    """Put bytes on the account of each link of a path."""
    at, n = next_of(q, world, router, group, path)
    while at >= 0:
        world.links[at]["ahead"] += n_bytes
        path //= n
        router = i64(world.links[at]["dst"]) - q[N_HOSTS]
        at, n = next_of(q, world, router, group, path)
