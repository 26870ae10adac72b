"""A live group's collective and the simulated one: the same packets and bytes on each link.

Without loss, and without a rank that was late: then it is done again. All of it counts: ARM,
the block in which ranks agree, the arrays and results, and CLOSE. A live group waits for all
its ranks before it closes, by another block in which they agree; a simulated one is closed by
the last result. That block is added to what was simulated.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fabric_run import fabric_ids, free_prefix, start_lab
from tries import Tries

from fanfold.group.fabric import FabricCommunicator
from fanfold.group.session import N_FIELDS
from fanfold.kernels.jit import JIT
from fanfold.live.rank import WINDOW
from fanfold.live.rank_build import block_bytes_of
from fanfold.results.outcome import DATA
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Sum, build_program
from fanfold.sim.simulate import Simulation
from fanfold.topo.clos import leaf_spine
from fanfold.topo.fabric import load_fabric
from fanfold.topo.fabric_net import fabric_net
from fanfold.topo.routes import build_routes
from fanfold.units import PS_PER_SECOND

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,
    pytest.mark.skipif(not JIT, reason="live ranks are for compiled code"),
]
TRIES = 8
GROUPS = Tries("groups beside their simulation, a rank was late")
CASES = {
    "one value": ("all_reduce", 1, np.float32),
    "a whole block": ("all_reduce", 1632, np.float32),
    "many blocks and a part": ("all_reduce", 300 * 1632 + 5, np.float32),
    "to rank 0": ("reduce", 40 * 1632 + 1, np.float32),
    "many blocks of integers": ("all_reduce", 300 * 2048 + 5, np.int32),
    "integers to rank 0": ("reduce", 40 * 2048 + 1, np.int32),
}
HEAD = 28 + 12 + 28 + 24
"""Underlay, BIER without its BitString, inner IPv4 and UDP, FOLD."""
WAIT_PS = 20 * PS_PER_SECOND
_groups = iter(range(1 << 20, 1 << 31, 1 << 20))
"""Groups of one entropy, the simulated one's: they take the same paths."""


@pytest.fixture(scope="module")
def lab(site):
    made = start_lab(site, "parity-sums", leaf_spine(2, 2, 8, prefix=free_prefix()))
    yield made
    made.down()


def counts(lab):
    """(from, to) -> packets, bytes of FOLD as BFRs sent it, and as leaves got it from hosts."""
    found = {}
    for name in lab.nodes():
        for to, ways in lab.status(name)["links"].items():
            if "tx" in ways and (name[0] != "h"):
                found[name, to] = tuple(ways["tx"].get("fold", (0, 0)))
            if to[0] == "h":
                found[to, name] = tuple(ways["rx"].get("fold", (0, 0)))
    return found


def live(lab, fabric, kind, n, dtype):
    """What each link carried of a group's whole life."""
    members = [node.name for node in fabric.nodes if node.bfr_id]
    for _ in range(TRIES):
        before = counts(lab)
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
        after = counts(lab)
        due = len(members) * (len(members) + 1) / 2
        assert (mine[0] == due).all()
        calm = all(not c["requests"] and not c["sent_again"] for c in told)
        if GROUPS.count(calm and sum(c["arms"] for c in told) == 1):
            grown = {key: tuple(np.subtract(after[key], before[key]).tolist()) for key in after}
            return {key: pair for key, pair in grown.items() if pair != (0, 0)}
    raise AssertionError(f"{TRIES} groups in a row in which a rank was late")


def simulated(fabric, kind, n, dtype):
    """The same of the simulator."""
    net = fabric_net(fabric)
    ids = fabric_ids(fabric, net)
    hosts = tuple(np.nonzero(ids > 0)[0].tolist())
    one = Sum(hosts, 4 * n, to_all=kind == "all_reduce", window=WINDOW, climb=0)
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
    barrier = HEAD + fabric.bitstring_bits // 8 + 4 * (2 * N_FIELDS + WINDOW)
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
    assert live(lab, fabric, *CASES[case]) == simulated(fabric, *CASES[case])


def test_few_groups_were_set_aside():
    GROUPS.check()
