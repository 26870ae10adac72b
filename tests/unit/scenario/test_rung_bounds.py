"""Bounds of rungs: measured, rounded up, and still true.

``make twins`` takes 200 scenarios of chance; FANFOLD_TWINS says how many.
"""

import os

import pytest
from rung_errors import ROWS, cell
from twin_world import case

from fanfold.kernels.jit import JIT
from fanfold.results.outcome import Outcome
from fanfold.scenario.fidelity import are_trains_exact
from fanfold.scenario.rung_bounds import LADDER_PPM, UNKNOWN, bound_ppm, bound_text
from fanfold.scenario.rung_errors import MEASURED
from fanfold.scenario.settings import Settings
from fanfold.schemes.catalog import scheme_of
from fanfold.schemes.options import SchemeOptions
from fanfold.sim.fluid import run_fluid
from fanfold.sim.simulate import FANS, simulate
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes
from fanfold.work.collective import Collective

for_compiled = pytest.mark.skipif(not JIT, reason="packet by packet this is for compiled code")
ERRORS = {row[:4]: row[4] for row in MEASURED}
N_CASES = int(os.environ.get("FANFOLD_TWINS", "60"))


def test_bounds_in_words() -> None:
    assert bound_text(UNKNOWN) == "never measured against packets"
    assert bound_text(0) == "the same as packets"
    assert bound_text(1000) == "within 0.1 % of packets"
    assert bound_text(15_000) == "within 1.5 % of packets"
    assert bound_text(20_000_000) == "within 2,000 % of packets"


def test_a_bound_is_not_below_what_was_measured() -> None:
    """A unicast broadcast of 1 MiB over a fat tree."""
    net = build_named_net("fat-tree:k=4")
    work = Collective("broadcast", 2**20, tuple(range(16)))
    program = scheme_of("unicast").build(work, SchemeOptions(compact=True))
    for rung, segment in (("short", 8), ("long", 64), ("flow", 0)):
        bound = bound_ppm(net, program, Settings(), segment)
        assert bound in LADDER_PPM
        assert bound >= ERRORS["messages", 3, "layered", rung]
    assert bound_ppm(net, program, Settings(), 1) == 0


@for_compiled
@pytest.mark.parametrize("row", [ROWS[i] for i in (0, 5, 8, 10, 14, 17)], ids="-".join)
def test_cells_of_the_table_hold(row: tuple[str, str]) -> None:
    """Red after a change of a rung: ``make rungs`` measures anew."""
    found = cell("fat-tree:k=4", 16, *row, 2**20)
    assert found
    assert [(key, ppm) for key, ppm in found if ppm > ERRORS[key]] == []


@for_compiled
@pytest.mark.parametrize("first", range(0, N_CASES, 10))
def test_scenarios_of_chance_lie_within_their_bound(first: int) -> None:
    for seed in range(first, first + 10):
        one = case(seed)
        net, program, settings = one.net, one.program(), one.settings
        routes = build_routes(net)
        packets = simulate(net, routes, program, settings, seed=seed, whole=FANS)
        outs = {0: run_fluid(net, routes, program, settings, seed=seed)}
        if are_trains_exact(settings):
            for n in (8, 64):
                outs[n] = simulate(
                    *(net, routes, program, settings), seed=seed, segment_pkts=n, whole=FANS
                )
        for n, out in outs.items():
            bound = bound_ppm(net, program, settings, n)
            assert bound == UNKNOWN or error_ppm(out, packets) <= bound, one


def error_ppm(out: Outcome, packets: Outcome) -> int:
    pairs = (out.end_ps, packets.end_ps), (out.host_ps.max(), packets.host_ps.max())
    return max(abs(int(a) - int(b)) * 10**6 // int(b) for a, b in pairs)
