"""A live group's collective and the simulated one: the same packets and bytes on each link.

All of it counts: ARM, the block in which ranks agree, the arrays and results, and CLOSE. A live
group waits for all its ranks before it closes, by another block in which they agree; a
simulated one is closed by the last result. That block is added to what was simulated.

On a busy machine a rank or a slot is late, and says so in words that are not simulated. Then
each host sent what is simulated and just the words that its rank counted, and no link carries
more than answers to them; and the group is run again, for one that was in time.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest
from fabric_run import fabric_ids, free_prefix, start_lab
from tries import Tries

from fanfold.group.ask import N_FIELDS
from fanfold.group.fabric import FabricCommunicator
from fanfold.kernels.jit import JIT
from fanfold.live.rank_build import NEAR_WINDOW, block_bytes_of
from fanfold.results.outcome import DATA
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Sum, build_program
from fanfold.sim.simulate import Simulation
from fanfold.topo.fabric_file import load_fabric
from fanfold.topo.fabric_net import fabric_net
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.topo.routes import build_routes
from fanfold.units import PS_PER_SECOND

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,
    pytest.mark.skipif(not JIT, reason="live ranks are for compiled code"),
]
TRIES = 3
GROUPS = Tries("groups beside their simulation, a rank was late")
ANSWERS = 3
"""Packets over one link for one word: it goes on, or two BFRs answer it and a result comes."""
LATE = ("partial", "resent", "request")
"""What BFRs count where somebody was late."""
CASES = {
    "one value": ("all_reduce", 1, np.float32),
    "a whole block": ("all_reduce", 1632, np.float32),
    "many blocks and a part": ("all_reduce", 300 * 1632 + 5, np.float32),
    "to rank 0": ("reduce", 40 * 1632 + 1, np.float32),
    "many blocks of integers": ("all_reduce", 300 * 2048 + 5, np.int32),
    "integers to rank 0": ("reduce", 40 * 2048 + 1, np.int32),
}
HEAD = 28 + 12 + 28 + 24
"""FabricRoutes, BIER without its BitString, inner IPv4 and UDP, FOLD."""
WAIT_PS = 20 * PS_PER_SECOND
_groups = iter(range(1 << 20, 1 << 31, 1 << 20))
"""Groups of one entropy, the simulated one's: they take the same paths."""


@pytest.fixture(scope="module")
def lab(site):
    made = start_lab(site, "parity-sums", leaf_spine(2, 2, 8, prefix=free_prefix()))
    yield made
    made.down()


class Run(NamedTuple):
    """What each link carried of a group's life, and what was said since somebody was late.

    grown: (from, to) -> packets, bytes. words: host -> packets that its rank counted beside
    what is simulated, least and most: a probe is one or two. n_late: those, and what BFRs did
    because of them or of a deadline.
    """

    grown: dict[tuple[str, str], tuple[int, int]]
    words: dict[str, tuple[int, int]]
    n_late: int


def counts(lab):
    """(from, to) -> packets, bytes of FOLD as BFRs sent it, and as leaves got it from hosts.

    And how often a BFR counted that somebody was late.
    """
    found, n_late = {}, 0
    for name in lab.nodes():
        status = lab.status(name)
        n_late += sum(status["arrays"].get(event, 0) for event in LATE)
        for to, ways in status["links"].items():
            if "tx" in ways and (name[0] != "h"):
                found[name, to] = tuple(ways["tx"].get("fold", (0, 0)))
            if to[0] == "h":
                found[to, name] = tuple(ways["rx"].get("fold", (0, 0)))
    return found, n_late


def live(lab, fabric, kind, n, dtype):
    """A group's life from its first packet to its last."""
    members = [node.name for node in fabric.nodes if node.bfr_id]
    before, n_before = counts(lab)
    group = next(_groups)
    ranks = [
        FabricCommunicator(fabric, members, k, group=group, timeout_ps=WAIT_PS)
        for k in range(len(members))
    ]
    mine = [np.full(n, k + 1, dtype) for k in range(len(members))]
    works = [
        rank.all_reduce(array) if kind == "all_reduce" else rank.reduce(array, 0)
        for rank, array in zip(ranks, mine, strict=True)
    ]
    for work in works:
        work.wait()
    with ThreadPoolExecutor(len(ranks)) as pool:
        list(pool.map(lambda rank: rank.close(), ranks))
    told = [rank.counters() for rank in ranks]
    time.sleep(0.2)  # CLOSE is answered by nobody
    after, n_after = counts(lab)
    assert (mine[0] == len(members) * (len(members) + 1) / 2).all()
    words = {name: words_of(c) for name, c in zip(members, told, strict=True)}
    n_late = n_after - n_before + sum(most for _, most in words.values())
    grown = {key: tuple(np.subtract(after[key], before[key]).tolist()) for key in after}
    carried = {key: pair for key, pair in grown.items() if pair != (0, 0)}
    return Run(carried, words, n_late)


def words_of(counted):
    """Packets of a rank that are not simulated, at least and at most."""
    least = counted["requests"] + counted["sent_again"] + max(counted["arms"] - 1, 0)
    return least + counted["probes"], least + 2 * counted["probes"]


def simulated(fabric, kind, n, dtype):
    """The same of the simulator."""
    net = fabric_net(fabric)
    ids = fabric_ids(fabric, net)
    hosts = tuple(np.nonzero(ids > 0)[0].tolist())
    one = Sum(hosts, 4 * n, to_all=kind == "all_reduce", window=NEAR_WINDOW, root_level=0)
    none = np.zeros((0, 4), np.int64), np.zeros((0, 2), np.int64)
    program = build_program(*none, sums=(one,), folds=True)
    settings = Settings(
        payload_bytes=block_bytes_of(fabric),
        sum_numbers="value" if dtype == np.float32 else "integer",
        bitstring_bits=fabric.bitstring_bits,
        n_ecmp=fabric.n_ecmp,
    )
    sim = Simulation(net, build_routes(net), program, settings, seed=1, bfr_ids=ids)
    while sim.step():
        pass
    outcome = sim.outcome()
    assert outcome.stuck == ()
    found = {}
    barrier = HEAD + fabric.bitstring_bits // 8 + 4 * (2 * N_FIELDS + NEAR_WINDOW)
    for at in range(net.n_links):
        pair = int(outcome.link_pkts[at].sum()), int(outcome.link_bytes[at].sum())
        if outcome.link_pkts[at, DATA]:
            pair = pair[0] + 1, pair[1] + barrier
        if pair != (0, 0):
            found[net.node_name(int(net.src[at])), net.node_name(int(net.dst[at]))] = pair
    return found


@pytest.mark.parametrize("case", CASES)
def test_each_link_carries_what_is_simulated(lab, case):
    fabric = load_fabric(lab.folder / "fabric.toml")
    due = simulated(fabric, *CASES[case])
    for _ in range(TRIES):
        run = live(lab, fabric, *CASES[case])
        if GROUPS.count(not run.n_late):
            assert run.grown == due
            return
        more = {way: pair[0] - due[way][0] for way, pair in run.grown.items()}
        assert run.grown.keys() == due.keys()
        for name, (least, most) in run.words.items():
            (n,) = (n for (a, _), n in more.items() if a == name)
            assert least <= n <= most, (name, more)
        assert max(more.values()) <= ANSWERS * run.n_late, more
        assert min(more.values()) >= 0, more


def test_a_group_was_in_time():
    assert GROUPS.n_kept
