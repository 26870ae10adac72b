"""Figure 1 of draft-song-ina-00 in the simulator, beside the golden trace of live nodes.

w1 to w4 under s1 and s2; s5 above both, s7 on top, s6 the root. A-BMs, worker 1 leftmost, are
11000000 at s1, 00110000 at s7 and 11110000 at s6; s2 and s5 only pass arrays on.
"""

import numpy as np
from sum_world import BLOCK, events, integers, sums, vats_at
from vat_nodes import figure_one

from fanfold.kernels.vat import HEARD_BM
from fanfold.kernels.vat_rows import open_vat
from fanfold.sim.simulate import Simulation
from fanfold.topo.fabric_net import fabric_net
from fanfold.topo.routes import build_routes

A_BMS = {
    "s1": ("s5", 0b0011),
    "s2": ("s5", 0),
    "s5": ("s7", 0),
    "s7": ("s6", 0b1100),
    "s6": ("", 0b1111),
}
HOMES = {"w1": "s1", "w2": "s1", "w3": "s2", "w4": "s2"}
UP = {"s1 s5": 1, "s2 s5": 2, "s5 s7": 3, "s7 s6": 2}
DOWN = {"s6 s7": 1, "s7 s5": 1, "s5 s1": 1, "s5 s2": 1}
LINKS = UP | DOWN | {f"{w} {s}": 1 for w, s in HOMES.items()}
LINKS |= {f"{s} {w}": 1 for w, s in HOMES.items()}
"""Packets with an array on each link: s1's partial and s7's meet at s6."""


def configured():
    """A run of one block whose rows were opened by hand instead of by ARM."""
    net = fabric_net(figure_one())
    index = {net.node_name(n): n for n in range(net.n_nodes)}
    program = sums([index[f"w{i}"] for i in range(1, 5)], n_bytes=BLOCK, window=4)
    settings = integers(bitstring_bits=64)
    sim = Simulation(net, build_routes(net), program, settings, seed=1)
    for name, (up, a_bm) in A_BMS.items():
        node = index[name]
        mine = range(int(net.first_out[node]), int(net.first_out[node + 1]))
        port = next((k for k, at in enumerate(mine, 1) if net.dst[at] == index.get(up, -1)), 0)
        bits = np.array([a_bm], np.uint64)
        vats = vats_at(sim, node - net.n_hosts)
        bift_id = int(sim.fans.ranks.sums[0]["bift_id"])
        open_vat(vats, 0, port, int(not up), bits, 1, bift_id, 8, 0, 0)
    ranks = sim.fans.ranks
    ranks.rows["armed"] = 1
    one = ranks.sums[0]
    one["n_asked"], one["n_agreed"], one["n_blocks"] = (
        0,
        0,
        1,
    )  # nothing is agreed on in the figure
    return sim, net, index


def test_figure_one_is_the_golden_trace():
    sim, net, index = configured()
    while sim.step():
        pass
    outcome = sim.outcome()
    assert outcome.stuck == ()
    assert outcome.got_bytes[[index[f"w{i}"] for i in range(1, 5)]].tolist() == [BLOCK] * 4
    names = [
        f"{net.node_name(net.src[k])} {net.node_name(net.dst[k])}" for k in range(net.n_links)
    ]
    carried = {
        name: int(n) for name, n in zip(names, outcome.link_pkts[:, 0], strict=True) if n
    }
    assert carried == LINKS
    did = {name: events(sim, index[name] - net.n_hosts) for name in A_BMS}
    arrays = {
        name: {k: v for k, v in one.items() if k != "unknown"} for name, one in did.items()
    }
    assert arrays["s1"] == {"armed": 1, "absorbed": 2, "complete": 1}
    assert arrays["s7"] == {"armed": 1, "absorbed": 2, "complete": 1, "passed": 1}
    assert arrays["s6"] == {"armed": 1, "absorbed": 2, "complete": 1}
    assert arrays["s5"] == {"armed": 1, "passed": 3}
    heard = {}
    for name in ("s1", "s7", "s6"):
        vats = vats_at(sim, index[name] - net.n_hosts)
        slots = vats.words[:, HEARD_BM, 0]
        heard[name] = int(slots[slots != 0][0])
    assert heard == {name: A_BMS[name][1] for name in heard}  # P-BM = A-BM, and the BitString
