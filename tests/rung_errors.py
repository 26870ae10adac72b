"""Measure how far trains and flow are off packets, into src/fanfold/scenario/rung_errors.py.

A grid of schemes, collectives, nets and sizes that packets manage within a second or two, and
scenarios of chance, those of the tests among them.

    python tests/rung_errors.py [--print]
"""

import sys
import time
from collections.abc import Iterator
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from twin_world import TREES, case

from fanfold.errors import ConfigError
from fanfold.scenario.fidelity import Work, are_trains_exact
from fanfold.scenario.rung_bounds import band_of, load_of, shape_of
from fanfold.scenario.settings import Settings
from fanfold.schemes.catalog import scheme_of
from fanfold.schemes.options import SchemeOptions
from fanfold.schemes.tree_fans import Site
from fanfold.sim.fluid import run_fluid
from fanfold.sim.simulate import simulate
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes
from fanfold.work.collective import Collective

TARGET = Path(__file__).parents[1] / "src/fanfold/scenario/rung_errors.py"
N_SEEDS = 7000
MAX_HOPS = 2_000_000
EVERY_S = 10
"""From one word of how far it is to the next."""
KIB, MIB = 2**10, 2**20
NETS = (
    *(
        ("fat-tree:k=8", 128),
        ("fat-tree:k=16", 256),
        ("fat-tree:k=4", 16),
        ("star:hosts=32", 32),
    ),
    *(
        ("leaf-spine:leaves=4,spines=4,hosts=16", 16),
        ("torus:dims=4x4", 16),
        ("fat-tree:k=16", 1024),
    ),
    *(("dragonfly:a=4,p=2,h=2", 32), ("rail:servers=4,gpus=4,spines=2,unit=2", 16)),
)
ROWS = (
    *(("unicast", "broadcast"), ("unicast", "all_reduce"), ("unicast", "all_to_all")),
    *(("direct", "all_reduce"), ("direct", "all_gather"), ("ring", "all_reduce")),
    *(("ring", "all_gather"), ("chain", "broadcast"), ("binary-tree", "broadcast")),
    *(("binary-tree", "all_reduce"), ("double-binary-tree", "broadcast")),
    *(("double-binary-tree", "all_reduce"), ("halving-doubling", "all_reduce")),
    *(("parameter-server", "all_reduce"), ("bier", "broadcast"), ("bier", "all_gather")),
    *(("bier", "all_reduce"), ("fanfold", "broadcast"), ("fanfold", "all_gather")),
    *(("fanfold", "all_reduce"), ("mldp", "broadcast"), ("pim-sm", "all_gather")),
)
LARGE = (
    *(("fat-tree:k=32", 8192, "chain", "broadcast", MIB),),
    *(("fat-tree:k=32", 8192, "binary-tree", "broadcast", MIB),),
    *(("fat-tree:k=32", 8192, "double-binary-tree", "broadcast", MIB),),
    *(("fat-tree:k=16", 1024, "halving-doubling", "all_reduce", 8 * MIB),),
)
"""Cells of deep pipelines, and of many rounds with ever smaller pieces, over MAX_HOPS."""
SIZES = (64 * KIB, MIB, 16 * MIB)
STANDING = Settings(tree_start="standing")
Key = tuple[str, int, str, str]


@cache
def fabric(name):
    """A net and its routes."""
    net = build_named_net(name)
    return net, build_routes(net)


def errors_of(net, routes, compact, plain, settings, seed) -> Iterator[tuple[Key, int]]:
    """Of each rung in ppm: the larger one of the last receiver's and the last sender's."""
    packets = simulate(net, routes, plain, settings, seed=seed)
    key = shape_of(compact), band_of(compact, settings), load_of(net, settings)
    if packets.stuck or packets.repairs[0]:
        return
    outs = {"flow": run_fluid(net, routes, compact, settings, seed=seed)}
    if are_trains_exact(settings) and not plain.sums:
        for name, n in (("short", 8), ("long", 64)):
            outs[name] = simulate(net, routes, plain, settings, seed=seed, segment_pkts=n)
    for name, out in outs.items():
        pairs = (out.end_ps, packets.end_ps), (out.host_ps.max(), packets.host_ps.max())
        yield (*key, name), max(abs(int(a) - int(b)) * 10**6 // int(b) for a, b in pairs)


def cell(net_name, n, scheme, kind, size, most=MAX_HOPS) -> list[tuple[Key, int]]:
    """Errors of one cell of the grid; none where it is too much, or cannot be."""
    net, routes = fabric(net_name)
    work = Collective(kind, size // n * n, tuple(range(n)))
    site, way = Site(net, TREES, "standing"), scheme_of(scheme)
    try:
        compact = way.build(work, SchemeOptions(compact=True), site)
    except ConfigError:
        return []
    if Work(net, routes, compact, STANDING).records(1) > most:
        return []
    plain = way.build(work, SchemeOptions(), site)
    return list(errors_of(net, routes, compact, plain, STANDING, 1))


def by_chance(seed) -> list[tuple[Key, int]]:
    """Errors of one scenario of chance."""
    one = case(seed)
    settings, routes = one.settings, build_routes(one.net)
    return list(errors_of(one.net, routes, one.program(), one.program(), settings, seed))


def one(job):
    """Errors of one of the jobs, and which."""
    find, args = job
    return args, find(*args)


def measure(tell=lambda *words: None) -> dict[Key, int]:
    """The largest error of each shape, band, load and rung; what is found in any order."""
    most: dict[Key, int] = {}
    jobs = [(cell, (*row, 10**9)) for row in LARGE]
    jobs += [(cell, (*net, *row, size)) for net in NETS for row in ROWS for size in SIZES]
    jobs += [(by_chance, (seed,)) for seed in range(N_SEEDS)]
    began_s = said_s = time.monotonic()
    with get_context("fork").Pool() as pool:
        for n, (args, found) in enumerate(pool.imap_unordered(one, jobs, 8), 1):
            for key, ppm in found:
                if ppm > most.get(key, -1):
                    most[key] = ppm
                    tell(key, ppm, args)
            if time.monotonic() - said_s >= EVERY_S or n == len(jobs):
                said_s = time.monotonic()
                sys.stderr.write(f"{said_s - began_s:.0f} s: {n:,} of {len(jobs):,}\n")
    return most


def main() -> None:
    """Write the table, or print what is found on the way."""
    is_printed = "--print" in sys.argv
    most = measure(print if is_printed else lambda *words: None)
    rows = "".join(
        f"    {(*key, ppm)!r},\n".replace("'", '"') for key, ppm in sorted(most.items())
    )
    TARGET.write_text(
        '"""Largest errors against packets, ppm: `make rungs` (tests/rung_errors.py).\n'
        "\n"
        "Shape, band of packets of a piece, links, rung, error.\n"
        '"""\n\n'
        f"MEASURED: tuple[tuple[str, int, str, str, int], ...] = (\n{rows})\n"
    )


if __name__ == "__main__":
    main()
