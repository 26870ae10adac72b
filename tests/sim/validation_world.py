"""Programs, nets and numbers that the validation tests share.

Times of 100 Gb/s and 1 us, packets of 4096 + 64 bytes: in ps a byte takes 80, a packet 332,800,
an acknowledgement 5,120, a flight 1,000,000.
"""

from functools import cache
from pathlib import Path

import numpy as np

from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Fan, build_program
from fanfold.sim.bench_cases import copies, ring
from fanfold.sim.simulate import Simulation, simulate
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes
from fanfold.topo.sketch import Line, Sketch

ANCHORS = Path(__file__).parent / "anchors"
MIB, PKT = 2**20, 4096
BYTE_PS = 80
FULL, ACK, US = 4160 * BYTE_PS, 64 * BYTE_PS, 10**6
ROCE = Settings(transport="roce", routing="ecmp")
PFC = Settings(transport="roce", routing="ecmp", pfc_pkts=(15, 12))
NDP = Settings(transport="ndp", window_pkts=64, queue_bytes=100 * 4096)
NO_EDGES = np.zeros((0, 2), np.int64)


@cache
def fabric(name):
    net = build_named_net(name)
    return net, build_routes(net)


def messages(*rows):
    """Source, destination, bytes of each."""
    table = np.array([(*row, 0)[:4] for row in rows], np.int64).reshape(-1, 4)
    return build_program(table, NO_EDGES)


def fan(n_receivers, n_bytes, *, folds=True):
    """Host 0 to the hosts after it."""
    one = Fan(0, tuple(range(1, n_receivers + 1)), n_bytes)
    return build_program(np.zeros((0, 4), np.int64), NO_EDGES, fans=(one,), folds=folds)


def cycle(n):
    """2 MiB from each host to the next one of a random cycle."""
    hosts = [int(word) for word in (ANCHORS / f"cycle_{n}.txt").read_text().split()]
    return messages(
        *((a, b, 2 * MIB) for a, b in zip(hosts, [*hosts[1:], hosts[0]], strict=True))
    )


def incast(n):
    """1 MiB each to host 0 of 1024, from hosts spread evenly."""
    return messages(*((max(1, i * 1024 // n), 0, MIB) for i in range(n)))


KNOWN = {
    "one far": ("fat-tree:k=8", lambda: messages((0, 127, MIB)), ROCE),
    "one near": ("fat-tree:k=8", lambda: messages((0, 1, MIB)), ROCE),
    "copies": ("fat-tree:k=8", lambda: copies(128, MIB), ROCE),
    "incast 32": ("fat-tree:k=16", lambda: incast(32), ROCE),
    "incast 128": ("fat-tree:k=16", lambda: incast(128), ROCE),
    "incast 32 paused": ("fat-tree:k=16", lambda: incast(32), PFC),
    "incast 128 paused": ("fat-tree:k=16", lambda: incast(128), PFC),
    "incast 32 cut": ("fat-tree:k=16", lambda: incast(32), NDP),
    "incast 128 cut": ("fat-tree:k=16", lambda: incast(128), NDP),
    "cycle 128": ("fat-tree:k=8", lambda: cycle(128), ROCE),
    "cycle 1024": ("fat-tree:k=16", lambda: cycle(1024), ROCE),
    "cycle 128 sprayed": ("fat-tree:k=8", lambda: cycle(128), NDP),
    "cycle 1024 sprayed": ("fat-tree:k=16", lambda: cycle(1024), NDP),
    "ring": ("fat-tree:k=8", lambda: ring(128, 64 * MIB), ROCE),
}


@cache
def known(name, seed=1):
    """Outcome of a program that other simulators were run with."""
    topology, build, settings = KNOWN[name]
    out = simulate(*fabric(topology), build(), settings, seed=seed)
    assert out.stuck == ()
    assert out.got_bytes.tolist() == out.due_bytes.tolist()
    return out


def alone(net, program, settings, **options):
    """Outcome on a net that nothing else uses."""
    return simulate(net, build_routes(net), program, settings, seed=1, **options)


def simulation(net, program, settings, **options):
    return Simulation(net, build_routes(net), program, settings, seed=1, **options)


def down_link(net, host=0):
    """The link to a host that has one."""
    return int(net.reverse[net.first_out[host]])


def chain(*lines):
    """Two hosts and routers between them in a row; a cable's bit/s and ps for each link."""
    sketch = Sketch(2)
    routers = [sketch.add("r", 1, 1)[0] for _ in lines[1:]]
    nodes = [0, *routers, 1]
    for a, b, (bps, prop_ps) in zip(nodes, nodes[1:], lines, strict=False):
        sketch.cable(a, b, Line(bps, prop_ps))
    return sketch.build("chain")


def link_of(net, a, b):
    """Index of the first link between two nodes by name."""
    names = [net.node_name(n) for n in range(net.n_nodes)]
    both = (net.src == names.index(a)) & (net.dst == names.index(b))
    return int(np.nonzero(both)[0][0])
