"""A lab of real processes and the simulator send the same packets and bytes over each link.

A push without loss, manifest and data. On a starved machine a live BFIR may ask again, or a
slot may run out of time: such a push is not the one that was simulated, and is made again.
"""

import pytest
from fabric_run import free_prefix, simulate_push, start_lab
from live_site import random_bytes, states
from tries import Tries

from fanfold.kernels.jit import JIT
from fanfold.kernels.layout import TRAILER_BYTES
from fanfold.results.outcome import ACK, DATA, FEEDBACK, REPAIR
from fanfold.topo.fabric_file import load_fabric
from fanfold.topo.lab_fabric import leaf_spine

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,
    pytest.mark.skipif(not JIT, reason="a live push is for compiled code"),
]
TRIES = 8
PUSHES = Tries("pushes beside their simulation, a node was late")
CLASSES = {"data": DATA, "repair": REPAIR, "feedback": FEEDBACK}
CASES = {
    "to all": ("h0", "", 3_000_017),
    "one block": ("h0", "", 1),
    "a whole block, one packet and a byte": ("h0", "", 65 * 8064 + 1),
    "to some": ("h0", "h2,h5-6", 1_000_003),
    "from a receiver": ("h6", "h0-5", 2_000_001),
}


@pytest.fixture(scope="module")
def lab(site):
    made = start_lab(site, "parity-links", leaf_spine(2, 2, 8, prefix=free_prefix()))
    yield made
    made.down()


class Counts:
    """What all nodes have counted: packets and bytes of each link and class."""

    def __init__(self, lab):
        self.statuses = {name: lab.status(name) for name in lab.nodes()}

    def sent(self, before, source):
        """(from, to, class) -> packets, bytes since then; a push counts at its first BFR."""
        found = {}
        for name, status in self.statuses.items():
            old = before.statuses[name]["links"]
            for to, ways in status["links"].items():
                if name != source:
                    found |= grown(name, to, ways["tx"], old[to]["tx"])
                if to == source:
                    found |= grown(to, name, ways["rx"], old[to]["rx"])
        return found

    def received(self, before):
        """The same as the receiving ends counted it, hosts' own receivers left out."""
        found = {}
        for name, status in self.statuses.items():
            old = before.statuses[name]["links"]
            for to, ways in status["links"].items():
                found |= grown(to, name, ways["rx"], old[to]["rx"])
        return found

    def is_calm(self, before):
        """No slot was out of time or early, no word passed unfolded, nothing was dropped."""
        for name, status in self.statuses.items():
            old = before.statuses[name]
            for kind in ("partial", "unfolded", "full", "early"):
                if status["folds"].get(kind, 0) != old["folds"].get(kind, 0):
                    return False
            if lost(status) != lost(old):
                return False
        return True


def lost(status):
    """Drops but for the packet that tells a receiver of a new flow: it is looked at twice."""
    return {reason: n for reason, n in status["drops"].items() if reason != "unknown_flow"}


def grown(a, b, now, old):
    """Counts of one direction of a link that grew."""
    deltas = {
        (a, b, kind): tuple(x - y for x, y in zip(n, old.get(kind, [0, 0]), strict=True))
        for kind, n in now.items()
        if kind in CLASSES
    }
    return {key: n for key, n in deltas.items() if n != (0, 0)}


def push_calmly(lab, path, source, to, n_bytes):
    """A push in which nobody was late: its result, and what each link carried."""
    for seed in range(TRIES):
        path.write_bytes(random_bytes(n_bytes, n_bytes + seed))
        before = Counts(lab)
        result = lab.push(path, "--from", source, *(("--to", to) if to else ()))
        after = Counts(lab)
        sent = after.sent(before, source)
        is_repaired = any(kind == "repair" for _, _, kind in sent)
        if PUSHES.count(after.is_calm(before) and not is_repaired):
            assert set(states(result).values()) == {"verified"}
            return result, sent, after.received(before)
    raise AssertionError(f"{TRIES} pushes in a row in which a node was late")


@pytest.mark.parametrize("case", CASES)
def test_each_link_carries_what_is_simulated(lab, tmp_path, case):
    source, to, n_bytes = CASES[case]
    path = tmp_path / "parity.bin"
    result, sent, received = push_calmly(lab, path, source, to, n_bytes)
    fabric = load_fabric(lab.folder / "fabric.toml")
    net, outcome = simulate_push(fabric, path, source, list(states(result)), result["flow"])
    simulated = {}
    for at in range(net.n_links):
        ends = net.node_name(int(net.src[at])), net.node_name(int(net.dst[at]))
        for kind, column in CLASSES.items():
            n = int(outcome.link_pkts[at, column]), int(outcome.link_bytes[at, column])
            if n != (0, 0):
                simulated[(*ends, kind)] = n
    assert sent == simulated
    assert not outcome.link_pkts[:, ACK].any()
    assert outcome.got_bytes.sum() == len(result["receivers"]) * outcome.due_bytes.max()
    at_source = [sent[way][0] for way in sent if way[1:] == (source, "feedback")]
    assert at_source == [outcome.feedback_at_source.sum()]
    assert {k: n for k, n in received.items() if k[1] != source} == {
        k: n for k, n in sent.items() if k[1] != source
    }


@pytest.fixture
def keyed(site):
    fabric = leaf_spine(1, 0, 3, prefix=free_prefix() + 50)
    made = start_lab(site, "parity-keys", fabric, "--link-keys")
    yield made
    made.down()


def test_trailers_of_links_with_keys_are_the_simulators(keyed, tmp_path):
    """Nodes count packets as they are inside; on the link each has a trailer behind it."""
    path = tmp_path / "keyed.bin"
    result, sent, _ = push_calmly(keyed, path, "h0", "", 1_000_003)
    fabric = load_fabric(keyed.folder / "fabric.toml")
    net, outcome = simulate_push(
        fabric, path, "h0", list(states(result)), result["flow"], link_keys=True
    )
    for at in range(net.n_links):
        ends = net.node_name(int(net.src[at])), net.node_name(int(net.dst[at]))
        for kind, column in CLASSES.items():
            n_pkts, n_bytes = sent.get((*ends, kind), (0, 0))
            n_bytes += n_pkts * TRAILER_BYTES
            assert outcome.link_pkts[at, column] == n_pkts
            assert outcome.link_bytes[at, column] == n_bytes


def test_few_pushes_were_set_aside():
    PUSHES.check()
