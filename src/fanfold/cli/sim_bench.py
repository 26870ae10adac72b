"""`fanfold sim-bench`: how many packet hops a second the simulator moves on this machine."""

import json
import time
from collections.abc import Callable
from statistics import median_low
from typing import Annotated, NamedTuple

import numpy as np
import typer
from rich.box import SIMPLE
from rich.table import Table

from fanfold.cli.console import screen
from fanfold.cli.seed import checked_seed
from fanfold.cli.study_tables import format_count
from fanfold.errors import ConfigError
from fanfold.results.outcome import Outcome
from fanfold.sim.bench_cases import SETTINGS, Case, cases
from fanfold.sim.loop.heap_bench import heap_loop
from fanfold.sim.simulate import simulate
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes

HEAP_TURNS = 4_000_000
MAX_ROUNDS = 25
NS_PER_SECOND = 10**9


class Speed(NamedTuple):
    """One case: hops of one run, medians of CPU time of the run and of as many heap turns."""

    name: str
    n_hosts: int
    n_hops: int
    end_ps: int
    cpu_ns: int
    hops_per_s: int
    heap_per_s: int
    of_heap_ppb: int


def sim_bench(
    only: Annotated[str | None, typer.Option(help="names by commas, such as S1a,S3")] = None,
    rounds: Annotated[int, typer.Option(help="runs of each; the median counts")] = 3,
    seed: Annotated[
        int, typer.Option(help="of permutations and paths", callback=checked_seed)
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Hops a second on S1a, S1b, S3 and S4, and beside a bare heap loop."""
    if not 1 <= rounds <= MAX_ROUNDS:
        raise ConfigError("--rounds", rounds, f"1..{MAX_ROUNDS}")
    speeds = [measure(case, rounds, seed) for case in _chosen(cases(seed), only)]
    if as_json:
        print(json.dumps([speed._asdict() for speed in speeds]))
    else:
        _show(speeds)


def measure(case: Case, rounds: int, seed: int) -> Speed:
    """Run one case some times, after a first one that compiles or loads the loop."""
    net = build_named_net(case.topology, seed)
    routes = build_routes(net)
    heap = np.zeros(net.n_hosts, np.int64)

    def once() -> Outcome:
        return simulate(net, routes, case.program, SETTINGS, seed=seed)

    outcome = once()
    heap_loop(heap, 1)
    cpu_ns = median_low(_cpu_ns(once) for _ in range(rounds))
    heap_ns = median_low(_cpu_ns(lambda: heap_loop(heap, HEAP_TURNS)) for _ in range(rounds))
    hops_per_s = outcome.n_hops * NS_PER_SECOND // cpu_ns
    heap_per_s = HEAP_TURNS * NS_PER_SECOND // heap_ns
    share = hops_per_s * 10**9 // heap_per_s
    return Speed(
        *(case.name, net.n_hosts, outcome.n_hops, outcome.end_ps),
        *(cpu_ns, hops_per_s, heap_per_s, share),
    )


def _chosen(known: tuple[Case, ...], only: str | None) -> list[Case]:
    if only is None:
        return list(known)
    names = [case.name for case in known]
    asked = [name.strip() for name in only.split(",")]
    for name in asked:
        if name not in names:
            raise ConfigError("--only", name, ", ".join(names))
    return [case for case in known if case.name in asked]


def _cpu_ns(what: Callable[[], object]) -> int:
    began = time.process_time_ns()
    what()
    return max(time.process_time_ns() - began, 1)


def _show(speeds: list[Speed]) -> None:
    table = Table(title="packet hops a second, one core", box=SIMPLE)
    for column in ("case", "hosts", "hops", "CPU s", "hops/s", "heap turns/s", "of the heap"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for s in speeds:
        table.add_row(
            *(s.name, f"{s.n_hosts:,}", f"{s.n_hops:,}", f"{s.cpu_ns / NS_PER_SECOND:.3f}"),
            *(format_count(s.hops_per_s), format_count(s.heap_per_s)),
            f"{s.of_heap_ppb / 10**7:.0f} %",
        )
    screen().print(table)
