"""A fan on a large net takes the memory and the time of the BFRs that it passes."""

import time
from pathlib import Path

import numpy as np
import pytest

from fanfold.kernels.jit import JIT
from fanfold.run import warm
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Fan, build_program
from fanfold.sim.simulate import FANS, Simulation
from fanfold.sim.sparse import LEAST_BYTES, sparse
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes

NO_MESSAGE, NO_EDGE = np.zeros((0, 4), np.int64), np.zeros((0, 2), np.int64)
PAGE = 4096
MIB = 2**20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE


def broadcast(net) -> Simulation:
    fan = Fan(0, tuple(range(1, net.n_hosts)), PAGE)
    program = build_program(NO_MESSAGE, NO_EDGE, fans=(fan,), folds=True)
    return Simulation(net, build_routes(net), program, Settings(), seed=1, whole=FANS)


@pytest.mark.skipif(not JIT, reason="measures compiled code")
def test_one_packet_to_8192_hosts_takes_little_to_set_up_and_to_send():
    warm(FANS)
    net = build_named_net("fat-tree:k=32")
    before, began = resident_bytes(), time.process_time()
    sim = broadcast(net)
    set_up = time.process_time() - began
    while sim.step():
        pass
    grown, spent = resident_bytes() - before, time.process_time() - began
    assert not sim.outcome().stuck
    assert grown < 200 * MIB
    assert set_up < 0.5
    assert spent < 1


def test_only_tables_of_bfrs_on_the_way_are_filled():
    net = build_named_net("fat-tree:k=8")
    sim = broadcast(net)
    tables = sim.fans.bier.tables
    assert not tables.is_filled.any()
    while sim.step():
        pass
    # One table of each BFR that the packet passed: the source's edge, aggregation and core
    # router, seven other pods' aggregation routers, and all 31 other edge routers; the
    # source's own pod goes by the aggregation router that is there already.
    assert tables.is_filled.sum() == 1 + 1 + 1 + 7 + 31
    assert (tables.f_bm.any(axis=(1, 2)) == (tables.is_filled > 0)).all()


def test_sparse_arrays_are_zeros_that_can_be_written():
    for n in (LEAST_BYTES // 8 - 1, LEAST_BYTES // 8 + 3):
        array = sparse((n,), np.uint64)
        assert array.shape == (n,)
        assert not array.any()
        array[-1] = 7
        assert array.sum() == 7
    before = resident_bytes()
    large = sparse((4096, 2**18), np.uint8)  # a gibibyte
    large[:, 0] = 1
    assert large[:, :2].sum() == 4096
    assert resident_bytes() - before < 2 * 4096 * PAGE
