"""Lines of a program in any order: each message and each fan has the same outcome."""

import numpy as np
import pytest
from validation_world import MIB, NDP, NO_EDGES, PFC, PKT, ROCE, fabric

from fanfold.kernels.jit import JIT
from fanfold.scenario.settings import Settings
from fanfold.schemes.catalog import scheme_of
from fanfold.schemes.program import Fan, build_program, edges_of, expand
from fanfold.sim.simulate import simulate
from fanfold.streams import stream
from fanfold.work.collective import Collective

N_HOSTS = 16
NO_MESSAGES = np.zeros((0, 4), np.int64)


def pairs():
    """Messages between random hosts, some of one pair, of one size, or of one time."""
    draw = stream(5, "tests/order")
    rows = []
    for _ in range(80):
        a, b = (int(h) for h in draw.choice(N_HOSTS, 2, replace=False))
        rows.append((a, b, int(draw.integers(1, 30)) * PKT // 2, int(draw.integers(4)) * 10**6))
    return build_program(np.array(sorted(set(rows)), np.int64), NO_EDGES)


def fans():
    """Fans of random hosts to random hosts, two of each source, some at one time."""
    draw = stream(6, "tests/order")
    some = []
    for source in range(8):
        for _ in range(2):
            others = [h for h in range(N_HOSTS) if h != source]
            to = draw.choice(others, int(draw.integers(1, 15)), replace=False)
            n_bytes = int(draw.integers(1, 40)) * PKT // 3
            receivers = tuple(sorted(int(h) for h in to))
            some.append(Fan(source, receivers, n_bytes, int(draw.integers(2)) * 10**6))
    return build_program(NO_MESSAGES, NO_EDGES, fans=tuple(some), folds=True)


def forks():
    """A host that passes on to many others, all at the time when it has received."""
    rows = [(0, 1, 5 * PKT, 0), *((1, b, (b % 3 + 1) * PKT, 0) for b in range(2, 10))]
    edges = np.array([(0, i) for i in range(1, 9)])
    return build_program(np.array(rows, np.int64), edges)


def collective(name, kind):
    return scheme_of(name).build(Collective(kind, MIB // 4, tuple(range(N_HOSTS))))


def mixed():
    """Messages and fans, and some of each wait for some of the others."""
    messages, more = pairs(), fans()
    table = np.stack([messages.src, messages.dst, messages.n_bytes, messages.start_ps], axis=1)
    n = len(table)
    edges = np.array(
        [(i, n + i % 16) for i in range(20)] + [(n + i, 40 + i) for i in range(16)]
    )
    return build_program(table, edges, fans=more.fans, folds=True)


LIGHT = ("pairs", "forks", "fans", "mixed")
"""What runs without compiled code as well."""
CASES = {
    "pairs": (pairs, Settings()),
    "pairs, one path each": (pairs, Settings(routing="ecmp")),
    "pairs, go back n": (pairs, ROCE),
    "pairs, paused": (pairs, PFC),
    "pairs, cut": (pairs, NDP),
    "pairs, lossy": (pairs, Settings(loss_ppb=5_000_000)),
    "forks": (forks, Settings()),
    "fans": (fans, Settings()),
    "fans, lossy": (fans, Settings(loss_ppb=5_000_000)),
    "mixed": (mixed, Settings()),
}
for _name, _kind in (
    ("ring", "all_reduce"),
    ("halving-doubling", "all_reduce"),
    ("binary-tree", "broadcast"),
    ("double-binary-tree", "all_reduce"),
    ("direct", "all_to_all"),
    ("unicast", "all_gather"),
    ("fanfold", "all_gather"),
    ("bier", "all_reduce"),
):
    CASES[f"{_name} {_kind}"] = (lambda n=_name, k=_kind: collective(n, k), Settings())


def shuffled(program, seed):
    """The same program, its lines and its dependencies in another order; where each line went.

    Lines that are alike keep their order: which of them is which, only their place says.
    """
    draw = stream(seed, "tests/shuffle")
    n, m = program.src.size, len(program.fans)
    table = np.stack([program.src, program.dst, program.n_bytes, program.start_ps], axis=1)
    place = np.concatenate(
        [
            keep_alike(draw.permutation(n), table.tolist()),
            n + keep_alike(draw.permutation(m), list(program.fans)),
        ]
    ).astype(np.int64)
    edges = place[edges_of(program)]
    moved = np.empty_like(table)
    moved[place[:n]] = table
    some = [program.fans[0]] * m if m else []
    for i, fan in enumerate(program.fans):
        some[place[n + i] - n] = fan
    other = build_program(
        moved,
        edges[draw.permutation(len(edges))],
        fans=tuple(some),
        folds=program.folds,
        on=program.on,
    )
    return other, place


def keep_alike(place, lines):
    """Give lines that are alike their places in rising order."""
    alike = {}
    for i, line in enumerate(lines):
        alike.setdefault(repr(line), []).append(i)
    place = place.copy()
    for group in alike.values():
        place[group] = np.sort(place[group])
    return place


def run(program, settings):
    net, routes = fabric("fat-tree:k=4")
    return simulate(net, routes, program, settings, seed=9)


@pytest.mark.parametrize("name", CASES if JIT else LIGHT)
def test_the_order_of_lines_changes_nothing(name):
    build, settings = CASES[name]
    program = expand(build())
    first = run(program, settings)
    assert first.stuck == ()
    for seed in range(2):
        other, place = shuffled(program, seed)
        outcome = run(other, settings)
        assert outcome.item_ps[place].tolist() == first.item_ps.tolist()
        assert outcome.feedback_at_source[place].tolist() == first.feedback_at_source.tolist()
        for field in ("host_ps", "got_bytes", "link_pkts", "link_bytes", "link_peak_bytes"):
            assert np.array_equal(getattr(outcome, field), getattr(first, field)), field
        assert outcome.repairs == first.repairs
