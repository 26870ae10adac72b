"""What a live BFR took in, replayed through the simulator's node, gives out the same bytes.

A push without loss, and one whose data is lost on the way to one host. Deadlines of slots are
no part of it: of a push in which one came nothing is compared, and it is made again.
"""

import msgspec
import pytest
from fabric_run import free_prefix, push_program, start_lab
from live_site import random_bytes, states
from node_replay import SimNode, journal_of, queues_of, sent_by
from tries import Tries

from fanfold.kernels.jit import JIT
from fanfold.topo.fabric_file import load_fabric
from fanfold.topo.fabric_net import fabric_net
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.wire.fan import Data, DataFlag
from fanfold.wire.feedback import Feedback, FeedbackFlag
from fanfold.wire.pcapng import read

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,
    pytest.mark.skipif(not JIT, reason="a live push is for compiled code"),
]
TRIES = 10
PUSHES = Tries("pushes replayed, a deadline came in them")
N_BYTES = 2_000_003
LOSS_PPB = 60_000_000


@pytest.fixture(scope="module")
def lab(site):
    fabric = leaf_spine(2, 2, 8, prefix=free_prefix() + 1)
    made = start_lab(site, "parity-journal", msgspec.structs.replace(fabric, cache="0"))
    yield made
    made.down()


class Journals:
    """A captured push: its fabric, what it sent, and what each BFR took in and gave out."""

    def __init__(self, lab, path, capture):
        result = lab.push(path, "--pcap", capture, "--snaplen", 0)
        assert set(states(result).values()) == {"verified"}
        self.fabric = load_fabric(lab.folder / "fabric.toml")
        self.flow = result["flow"]
        receivers = list(states(result))
        net = fabric_net(self.fabric)
        self.program = push_program(self.fabric, net, path, "h0", receivers, self.flow)
        taken = read(capture.read_bytes())
        bfrs = [node.name for node in self.fabric.nodes if node.role == "bfr"]
        self.of = {name: journal_of(taken, self.fabric, name) for name in bfrs}

    def replay(self, name):
        """The simulator's node after it took in all that the live one did."""
        entries = self.of[name]
        sample = next(e.packet for e in entries if isinstance(e.packet.message, Data))
        queues = queues_of(entries)
        node = SimNode(self.fabric, name, self.program, self.flow, sample, queues)
        for entry in entries:
            if not entry.is_out:
                node.take(entry)
        return node

    def is_calm(self):
        """No slot ran out of time."""
        words = [e.packet.message for entries in self.of.values() for e in entries]
        return not any(
            isinstance(w, Feedback) and w.flags & FeedbackFlag.PARTIAL for w in words
        )


def calm_push(lab, tmp_path, is_wanted, first_seed):
    """Journals and replayed nodes of a push in which no deadline came."""
    for seed in range(first_seed, first_seed + TRIES):
        path = tmp_path / f"journal{seed}.bin"
        path.write_bytes(random_bytes(N_BYTES, seed))
        made = Journals(lab, path, tmp_path / f"{seed}.pcapng")
        busy = [name for name, entries in made.of.items() if entries]
        nodes = {name: made.replay(name) for name in busy} if made.is_calm() else {}
        is_calm = bool(nodes) and not any(node.n_expired for node in nodes.values())
        if PUSHES.count(is_calm) and is_wanted(made):
            return made, nodes
    raise AssertionError(f"{TRIES} pushes in a row in which a deadline came")


def check(made, nodes):
    for name, node in nodes.items():
        live = sent_by(made.of[name])
        assert dict(node.found) == live, name


def repairs(made):
    """DATA sent again that leaf1 took in."""
    packets = [e.packet.message for e in made.of["leaf1"] if not e.is_out]
    return [m for m in packets if isinstance(m, Data) and m.flags & DataFlag.REPAIR]


def test_every_bfr_gives_out_the_same_bytes(lab, tmp_path):
    made, nodes = calm_push(lab, tmp_path, lambda made: not repairs(made), 900)
    assert {"leaf1", "leaf2"} <= nodes.keys()
    assert len(nodes) == 3
    check(made, nodes)


def test_gaps_and_repairs_of_one_host_are_the_same_bytes(lab, tmp_path):
    lab.ask("h3", do="impair", links={"leaf1": {"drop_ppb": LOSS_PPB}}, seed=7)
    try:
        made, nodes = calm_push(lab, tmp_path, repairs, 950)
    finally:
        lab.ask("h3", do="impair", links={}, seed=0)
    check(made, nodes)
    words = [e.packet.message for e in made.of["leaf1"] if e.is_out]
    assert any(isinstance(m, Feedback) and m.rows for m in words)


def test_few_pushes_were_set_aside():
    PUSHES.check()
