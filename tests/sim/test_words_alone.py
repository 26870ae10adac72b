"""A word that no BFR reads stands in its packets' rows, and says what its bytes would."""

import numpy as np
import pytest

from fanfold.kernels.collect import FILLING, WHOLE
from fanfold.kernels.feedback import NOT_TOLD
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Fan, build_program
from fanfold.sim.by_hand import free
from fanfold.sim.loop import rows as r
from fanfold.sim.loop.receivers import speak_up
from fanfold.sim.simulate import FANS, Simulation
from fanfold.streams import stream
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes

N_BLOCKS, HOSTS = 6, 70
"""Receivers in two sets of 64."""


@pytest.fixture(scope="module")
def sim() -> Simulation:
    net = build_named_net(f"star:hosts={HOSTS},rate=100Gbps")
    settings = Settings(feedback="nack", bitstring_bits=64)
    fan = Fan(0, tuple(range(1, HOSTS)), (N_BLOCKS * 64 - 7) * settings.payload_bytes)
    none = np.zeros((0, 4), np.int64), np.zeros((0, 2), np.int64)
    program = build_program(*none, fans=(fan,))
    return Simulation(net, build_routes(net), program, settings, seed=1, whole=FANS)


def told(sim: Simulation, b: int) -> list[tuple[object, int, int]]:
    """Words on a block and the bytes of their packets, whose rows are given back."""
    fans, pkts, q = sim.fans, sim.world.pkts, sim.q
    bits, words = sim.senders.pkt_bits, []
    p = speak_up(q, pkts, bits, sim.senders.fans, fans.bier, fans.receivers, b)
    while p != r.NONE:
        row = pkts[p]
        size, n_bytes = int(row["si"]), int(row["bytes"])
        words.append((fans._word(sim, 0, p, size), size, n_bytes))
        p, done = int(row["next"]), p
        free(q, pkts, done)
    return words


@pytest.mark.parametrize("is_tree", [0, 1])
def test_it_says_what_its_bytes_would(sim: Simulation, is_tree: int) -> None:
    rng = stream(1, "tests/words-alone")
    fan, collect = sim.senders.fans[0], sim.fans.receivers.collect
    fan["is_tree"], q = is_tree, sim.q
    free_rows = int(q[r.N_FREE_PKT]), int(q[r.N_BODIES])
    for k in (1, 63, 64, HOSTS - 1):
        follow = collect.follow[int(fan["recv_at"]) + k]
        for block in range(N_BLOCKS):
            b = int(fan["block_at"]) + k * N_BLOCKS + block
            row, n_psn = collect.blocks[b], 64 if block < N_BLOCKS - 1 else 57
            row["follow"], row["block"], row["n_psn"] = fan["recv_at"] + k, block, n_psn
            row["have"] = np.uint64(int(rng.integers(2**62)) | int(rng.integers(2**62)))
            row["state"], row["polled"] = (WHOLE if block == 0 else FILLING), 2 * (block % 2)
            row["round"] = 7 * block
            said = []
            for speaks in (r.PER_BLOCK, r.PER_LOSS):
                fan["speaks"], follow["bift_id"], follow["floor"] = speaks, block % 2, 0
                said.append(told(sim, b))
                assert follow["bift_id"] == 0
            assert said[0] == said[1]
            assert said[0][0][0].behind == min(max(block - 1, 0), NOT_TOLD)
            follow["floor"] = 0
    assert free_rows == (int(q[r.N_FREE_PKT]), int(q[r.N_BODIES]))


def test_it_takes_no_row_of_bytes_however_many_there_are(sim: Simulation) -> None:
    fan, collect = sim.senders.fans[0], sim.fans.receivers.collect
    fan["speaks"] = r.PER_LOSS
    row = collect.blocks[int(fan["block_at"]) + N_BLOCKS]
    row["follow"], row["n_psn"], row["state"] = int(fan["recv_at"]) + 1, 64, FILLING
    row["have"], row["polled"] = 0, 2
    before, fans = int(sim.q[r.N_BODIES]), sim.fans
    at = int(fan["block_at"]) + N_BLOCKS
    arrays = sim.senders.pkt_bits, sim.senders.fans, fans.bier, fans.receivers
    for _ in range(50):
        speak_up(sim.q, sim.world.pkts, *arrays, at)
    assert sim.q[r.N_BODIES] == before
