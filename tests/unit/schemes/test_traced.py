"""Programs of traces: every scheme, nothing lost, times by hand."""

from pathlib import Path

import numpy as np
import pytest

from fanfold.errors import ConfigError
from fanfold.scenario.settings import Settings
from fanfold.schemes import traced
from fanfold.schemes.catalog import CATALOG, scheme_of
from fanfold.schemes.program_rules import check_program
from fanfold.schemes.traced import build_traced
from fanfold.sim.fluid import run_fluid
from fanfold.sim.simulate import simulate
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes
from fanfold.work.chakra import load_chakra
from fanfold.work.goal import read_goal
from fanfold.work.trace_ops import Op, join_ops

TRACES = Path(__file__).parents[1] / "work" / "traces"
NAMES = ("step", "pipeline", "collectives")
NET = build_named_net("star:hosts=6")
ROUTES = build_routes(NET)
HOSTS = (5, 1, 3, 0)
US = 10**6


def of(name, scheme, hosts=HOSTS):
    trace = load_chakra(TRACES / name)
    return build_traced(trace, hosts[: trace.n_ranks], scheme_of(scheme))


@pytest.mark.parametrize("scheme", CATALOG, ids=lambda scheme: scheme.name)
@pytest.mark.parametrize("name", NAMES)
def test_every_scheme_runs_every_trace_to_its_end(name, scheme):
    program = of(name, scheme.name).program
    check_program(program, NET.n_hosts)
    out = run_fluid(NET, ROUTES, program._replace(protocol=""), Settings(), seed=1)
    assert out.stuck == ()
    assert (out.item_ps >= 0).all()
    trace = load_chakra(TRACES / name)
    used = {HOSTS[rank] for rank in range(trace.n_ranks)}
    assert set(np.nonzero(out.got_bytes)[0].tolist()) <= used


def received(name, scheme):
    """Bytes that each host receives."""
    program = of(name, scheme).program
    out = np.zeros(NET.n_hosts, np.int64)
    np.add.at(out, program.dst, program.n_bytes)
    for fan in program.fans:
        out[list(fan.receivers)] += fan.n_bytes
    return out.tolist()


def test_a_step_moves_what_its_collectives_say():
    """Two sums of 1 MiB by two, two of 4 MiB by two, one broadcast of 1 MiB to three."""
    direct = received("step", "direct")
    mib = 1 << 20
    assert direct == [6 * mib if h in (5, 1, 3) else 5 * mib * (h == 0) for h in range(6)]
    assert sum(received("step", "unicast")) == 2 * 2 * mib + 2 * 2 * 4 * mib + 3 * mib


def test_who_stands_in_is_said():
    assert of("collectives", "unicast").note == ""
    assert of("collectives", "fanfold").note == (
        "all_to_all by direct, reduce_scatter by direct"
    )
    assert of("step", "direct").note == "broadcast by binary-tree"


def test_fans_fold_where_the_scheme_folds():
    assert of("step", "fanfold").program.folds
    assert not of("step", "bier").program.folds
    assert len(of("step", "bier").program.fans) >= 5


def test_computing_delays_what_waits_for_it():
    """Rank 0 computes 50 us, sends; rank 1 gets it, computes 20 us more."""
    text = "num_ranks 2\nrank 0 {{\na: calc {0}\nb: send 4096b to 1\nb requires a\n}}\n"
    text += "rank 1 {{\na: recv 4096b from 0\nb: calc {1}\nb requires a\n}}\n"

    def end_of(*ns):
        program = build_traced(read_goal(text.format(*ns)), (0, 1), scheme_of("ring")).program
        return simulate(NET, ROUTES, program, Settings(), seed=1).end_ps

    got_ps = run_fluid(
        NET,
        ROUTES,
        build_traced(read_goal(text.format(0, 0)), (0, 1), scheme_of("ring")).program,
        Settings(),
        seed=1,
    ).host_ps[1]
    assert end_of(50_000, 20_000) == got_ps + 70 * US


def test_a_rank_goes_on_when_its_own_part_is_there():
    """By unicast the first receiver goes on before the last has anything; by a fan it waits."""
    cast = {"n_bytes": 32_768, "members": (0, 1, 2, 3), "root": 0}
    ops = [
        [Op("broadcast", "b", (), **cast), Op("compute", "c", (0,), duration_ps=10 * US)]
        for _ in range(4)
    ]
    n_ends = {}
    for scheme in ("unicast", "fanfold"):
        program = build_traced(join_ops(ops), HOSTS, scheme_of(scheme)).program
        ends = simulate(NET, ROUTES, program, Settings(), seed=1).item_ps[program.n_sent :]
        n_ends[scheme] = len(set(ends[program.pauses_ps == 10 * US].tolist()))
    assert n_ends == {"unicast": 3, "fanfold": 1}


@pytest.mark.parametrize("scheme", ["unicast", "ring", "fanfold", "halving-doubling"])
def test_a_collective_waits_for_its_ranks(scheme):
    """All compute as long before an all_gather: it is later by just that."""
    sum_of = {"n_bytes": 32_768, "members": (0, 1, 2, 3)}

    def end_of(duration_ps):
        ops = [
            [
                Op("compute", f"c{r}", (), duration_ps=duration_ps),
                Op("all_gather", f"g{r}", (0,), **sum_of),
            ]
            for r in range(4)
        ]
        program = build_traced(join_ops(ops), HOSTS, scheme_of(scheme)).program
        return run_fluid(NET, ROUTES, program, Settings(), seed=1).end_ps

    assert end_of(300 * US) == end_of(0) + 300 * US


def test_too_many_messages_are_refused_and_pieces_get_fewer(monkeypatch):
    whole = of("step", "binary-tree").program.n_items
    monkeypatch.setattr(traced, "MAX_ITEMS", 16)
    assert of("step", "binary-tree").program.n_items < whole
    monkeypatch.setattr(traced, "MAX_ITEMS", 3)
    with pytest.raises(ConfigError, match="up to 3 with binary-tree"):
        of("step", "binary-tree")
