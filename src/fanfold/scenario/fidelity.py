"""Which rung of the fidelity ladder a program gets, by the work it would be.

Work is counted in records: one packet, or one train of packets, over one link. Letters:
F = messages, P = ports of a host, T = links of a fan's tree.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.ids import MAX_BFR_ID
from fanfold.scenario.failures import has_words
from fanfold.scenario.rung_bounds import UNKNOWN, bound_ppm, bound_text
from fanfold.scenario.scenario import Fidelity
from fanfold.scenario.settings import Settings
from fanfold.scenario.sum_words import n_blocks
from fanfold.schemes.program import NO_TREE, Fan, Program, Sum
from fanfold.topo.net import Net
from fanfold.topo.routes import FAR, Routes

I64 = NDArray[np.int64]
Rung = Literal["packet", "train", "flow"]
MAX_RECORDS = 8_000_000
"""Of one scheme: 2 to 7 s on one core, so that a comparison of eight schemes ends within a
minute. The same for each scheme, whatever it is compared with: what a scheme gives must not
depend on its company."""
LARGE_HOSTS = (4096, 32_768)
"""From each of these on half as many are within the limit: a record takes 0.2 to 0.5 us at
1,024 hosts, 1 to 2 at 8,192 and 2.5 at 65,536, as rows leave the caches."""
MAX_LOSSY_RECORDS = 200_000_000
"""Where packets cannot move as trains: 40 s of one scheme, rather than nothing about loss."""
MAX_WORDS = 200_000
"""Feedback packets that reach a source: each is heard by a sender's machine, 20 to 60 us."""
MAX_TREE_HOSTS = 4096
"""Bits of the longest BitString: a tree knows no sets of receivers."""
MAX_TREE_ENTRIES = 50_000_000
"""Routers times hosts times trees: some four to forty bytes each."""
MAX_SEGMENT_PKTS = 64
"""The longest train: a block of a fan, so that its feedback comes as often as with packets."""
_CONTROL = {"plain": 1, "roce": 1, "ndp": 2}
"""Control packets for each packet of data: an acknowledgement; with ndp a pull as well."""


class Choice(NamedTuple):
    """A rung, the packets of a train (1 at packet, 0 at flow), why, and what it would be.

    n_hops: packets times links, without loss. error_ppm: how far the rung is off packets at
    most, as measured where both were run; UNKNOWN where nothing alike was, or where it leaves
    out what packets have.
    """

    rung: Rung
    segment_pkts: int
    why: str
    n_hops: int
    error_ppm: int = UNKNOWN


def choose(
    asked: Fidelity, net: Net, routes: Routes, program: Program, settings: Settings
) -> Choice:
    """Packets, or of what is within ``limit_of`` the rung with the least error; or as asked.

    Raises:
        ConfigError: packets asked for of sums in installed trees.
    """
    if has_installed(program) and asked not in ("auto", "flow"):
        got = f"sums in installed trees at fidelity {asked}"
        raise ConfigError("workload.kind", got, "flow, or auto, for these")
    work = Work(net, routes, program, settings)
    n_hops = work.records(1)
    if asked == "auto":
        rung, why = _by_work(work, n_hops, are_trains_exact(settings))
    else:
        rung, why = asked, "asked for"
    if rung == "flow" and settings.by_weight:
        allowed = "packet or train where planes are asked for: flow knows no weights of theirs"
        raise ConfigError("fidelity", f"flow, {why}", allowed)
    limit = limit_of(net.n_hosts)
    segments: dict[Rung, int] = {"packet": 1, "train": work.segment(limit), "flow": 0}
    error = UNKNOWN
    if left_out(rung, settings) == "" and not has_installed(program):
        error = bound_ppm(net, program, settings, segments[rung])
    return Choice(rung, segments[rung], why, n_hops, error)


def limit_of(n_hosts: int) -> int:
    """Records of a scheme on a net of so many hosts, where packets may move as trains."""
    return MAX_RECORDS >> sum(n_hosts >= size for size in LARGE_HOSTS)


def _by_work(work: "Work", n_hops: int, are_trains: bool) -> tuple[Rung, str]:
    hops = f"about {n_hops:,} packet hops"
    limit = limit_of(work.net.n_hosts) if are_trains else MAX_LOSSY_RECORDS
    if (lacks := _lack(work.program, work.net)) != "":
        return "flow", f"{hops}, {lacks}"
    if work.words > MAX_WORDS:
        return "flow", f"{hops}, {work.words:,} words to sources, over {MAX_WORDS:,}"
    if n_hops <= limit:
        return "packet", f"{hops}, at most {limit:,}"
    if not are_trains:
        return "flow", f"{hops}, over {limit:,}; loss and full queues are not in it"
    segment = work.segment(limit)
    n_records = work.records(segment)
    if n_records > limit:
        return "flow", f"{hops}, {n_records:,} even as trains, over {limit:,}"
    held = work.net, work.program, work.settings
    train, flow = (bound_ppm(*held, n) for n in (segment, 0))
    bounds = f"trains of {segment} {bound_text(train)}, flow {bound_text(flow)}"
    is_flow = flow != UNKNOWN and (flow < train or train == UNKNOWN)
    why = f"{hops}, over {limit:,}; {bounds}"
    return ("flow" if is_flow else "train"), why


def _lack(program: Program, net: Net) -> str:
    """What of a program no packet simulates, empty where they do."""
    if program.exchange is not None:
        return f"{program.n_messages:,} messages in rounds"
    if has_installed(program):
        return "connections between switches have no packets here"
    if program_has_no_room(program, net):
        return f"trees over more than {MAX_TREE_HOSTS:,} hosts"
    if program.many and net.n_hosts > MAX_BFR_ID:
        return f"BFR-ids end at {MAX_BFR_ID:,}"
    return ""


def are_trains_exact(settings: Settings) -> bool:
    """Whether packets may move as trains: not where one alone can be lost or held."""
    is_held = settings.transport == "ndp" or settings.pfc_pkts[0] > 0
    is_lossy = settings.loss_ppb or settings.queue_bytes or has_words(settings)
    return not (is_held or is_lossy)


def left_out(rung: str, settings: Settings) -> str:
    """What of the settings a rung without packets has not; empty where it has all.

    A run that leaves something out is not ranked beside runs that have it.
    """
    if rung != "flow":
        return ""
    asked = (
        ("loss", settings.loss_ppb),
        ("full queues", settings.queue_bytes),
        ("pauses", settings.pfc_pkts[0]),
        ("failures", len(settings.failures)),
    )
    names = [name for name, value in asked if value]
    return f"no packets, so no {', no '.join(names)} in it" if names else ""


def program_has_no_room(program: Program, net: Net) -> bool:
    """Trees whose receivers, or whose tables at all routers, are too many for packets."""
    n_entries = (net.n_nodes - net.n_hosts) * net.n_hosts * len(program.trees)
    return bool(program.trees) and (
        net.n_hosts > MAX_TREE_HOSTS or n_entries > MAX_TREE_ENTRIES
    )


def has_installed(program: Program) -> bool:
    """Sums whose trees were installed in switches."""
    return any(one.tree != NO_TREE for one in program.sums)


class Work:
    """Records of a program by the length of its trains; an estimate, without loss.

    words: feedback packets that reach a source of a fan, at least; with more fans at once than
    a BFR has slots, feedback counts as unfolded.
    """

    def __init__(self, net: Net, routes: Routes, program: Program, settings: Settings) -> None:
        self.program, self.settings, self.net = program, settings, net
        self.hops = distances(net, routes, program.src, program.dst)
        folds = program.folds and len(program.fans) <= settings.n_slots
        trees = [_links_of(net, routes, fan, folds) for fan in program.fans]
        self.tree_links = np.array(trees, np.int64).reshape(-1, 2)
        self.sizes = np.array([fan.n_bytes for fan in program.fans], np.int64)
        self.blocks = _trains(self.sizes, program.chunks, settings, settings.block_psns)
        is_each = settings.feedback == "packet" and not program.folds
        self.echo_links = self.tree_links[:, 1] * is_each
        heard = [1 if folds else len(fan.receivers) for fan in program.fans]
        self.words = int((self.blocks * np.array(heard, np.int64)).sum())
        self.pair_hops = _hops_of_pairs(routes, program, settings)
        self.sum_hops = sum(
            2 * n_blocks(one, settings) * _links_of_sum(net, routes, one)
            for one in program.sums
        )

    def records(self, segment_pkts: int) -> int:
        """Records with trains of up to ``segment_pkts``."""
        n_chunks, settings = self.program.chunks, self.settings
        trains = _trains(self.program.n_bytes, n_chunks, settings, segment_pkts)
        total = int((trains * self.hops).sum()) * (1 + _CONTROL[settings.transport])
        data = _trains(self.sizes, n_chunks, settings, segment_pkts)
        total += int((data * self.echo_links).sum())
        total += int((np.column_stack([data, self.blocks]) * self.tree_links).sum())
        return total + self.sum_hops + self.pair_hops

    def segment(self, limit: int) -> int:
        """The shortest train, a power of two from 2 on, whose records are within a limit."""
        segment = 2
        while segment < MAX_SEGMENT_PKTS and self.records(segment) > limit:
            segment *= 2
        return segment


def distances(net: Net, routes: Routes, src: I64, dst: I64) -> I64:
    """Links of a shortest path between hosts, (F,) each.

    Raises:
        ConfigError: two hosts without a path.
    """
    first, n_ports = (
        net.first_out,
        int(np.diff(net.first_out[: net.n_hosts + 1]).max(initial=0)),
    )
    best = np.full(src.size, FAR, np.int64)
    for port in range(n_ports):
        link = np.minimum(first[src] + port, first[src + 1] - 1)
        router = net.dst[link] - net.n_hosts
        np.minimum(best, routes.hops[router, routes.group[dst]], out=best)
    (lost,) = np.nonzero(best >= FAR)
    if lost.size:
        a, b = (net.node_name(int(ends[lost[0]])) for ends in (src, dst))
        raise ConfigError("topology", f"no path from {a} to {b}", "a path between all ranks")
    return best + 1


def _links_of(net: Net, routes: Routes, fan: Fan, folds: bool) -> tuple[int, int]:
    """Links that a packet crosses, at most, and that the feedback on one block does.

    Down: a link to each receiver, and a path to each group of them. Up: the same when folded,
    else the whole way from each receiver.
    """
    receivers = np.array(fan.receivers, np.int64)
    hops = distances(net, routes, np.full(receivers.size, fan.source), receivers)
    _, at = np.unique(routes.group[receivers], return_index=True)
    down = int(receivers.size + (hops[at] - 1).sum())
    return down, down if folds else int(hops.sum())


def _links_of_sum(net: Net, routes: Routes, one: Sum) -> int:
    """Links of a sum's tree, at most: as those of a fan from rank 0."""
    members = Fan(one.hosts[0], one.hosts[1:], one.n_bytes)
    return _links_of(net, routes, members, True)[0]


def _hops_of_pairs(routes: Routes, program: Program, settings: Settings) -> int:
    """Links that packets of an exchange cross, and their acknowledgements, at most."""
    if program.exchange is None:
        return 0
    longest = int(routes.hops[routes.hops < FAR].max()) + 1
    pkts = program.exchange.n_pkts(settings.payload_bytes)
    return pkts * longest * (1 + _CONTROL[settings.transport])


def _trains(n_bytes: I64, n_chunks: int, settings: Settings, segment_pkts: int) -> I64:
    """Trains of each item; every one of its chunks begins a train of its own."""
    pkts = -(-np.maximum(n_bytes // n_chunks, 1) // settings.payload_bytes)
    return -(-pkts // segment_pkts) * n_chunks
