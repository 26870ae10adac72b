"""Trees at flow fidelity against the packet simulator: times within 3 %, counts equal."""

import numpy as np
import pytest
from tree_world import NAMES, check_whole, fabric, program_of, run

from fanfold.kernels.jit import JIT
from fanfold.results.outcome import ACK, DATA, FEEDBACK
from fanfold.scenario.settings import Settings
from fanfold.sim.fluid import run_fluid

pytestmark = pytest.mark.skipif(not JIT, reason="packet by packet this is for compiled code")
TOLERANCE = 0.03
MIB = 2**20
CASES = [(name, kind, "block") for name in NAMES for kind in ("broadcast", "all_gather")]
CASES += [("mldp", "all_reduce", "block"), ("sr-p2mp", "broadcast", "nack")]
CASES += [("pim-sm", "broadcast", "packet"), ("bier", "broadcast", "packet")]


@pytest.mark.parametrize(("name", "kind", "feedback"), CASES)
def test_flow_is_near_packet(name, kind, feedback):
    net, routes = fabric()
    settings = Settings(feedback=feedback)
    program = program_of(name, kind, 4 * MIB)
    packet = run(program, settings)
    flow = run_fluid(net, routes, program, settings, seed=1)
    check_whole(packet)
    for one, other in (
        (packet.end_ps, flow.end_ps),
        (packet.host_ps.max(), flow.host_ps.max()),
    ):
        set_up_ps = program.setup.ps  # the time of data alone is compared
        assert other - set_up_ps == pytest.approx(one - set_up_ps, rel=TOLERANCE)
    assert flow.got_bytes.tolist() == packet.got_bytes.tolist()
    assert flow.feedback_at_source.tolist() == packet.feedback_at_source.tolist()
    sides = [DATA, FEEDBACK] if kind != "all_reduce" else [FEEDBACK]
    assert np.array_equal(flow.link_pkts[:, sides], packet.link_pkts[:, sides])
    assert np.array_equal(flow.link_bytes[:, sides], packet.link_bytes[:, sides])
    for side in (DATA, ACK):
        assert flow.link_bytes[:, side].sum() == packet.link_bytes[:, side].sum()
