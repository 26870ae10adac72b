"""Five requirements by scheme: measured numbers, and the words that limits make of them.

    gap = build_gap("leaf-spine:leaves=16,spines=8,hosts=256,rate=400Gbps")
    cell_of(gap, "dynamics", "bier").word

Everything is measured on one fabric: by tree protocols' own messages, by the packet simulator,
by headers sent hop by hop. docs/metrics.md defines each number.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from fanfold.results.outcome import Outcome
from fanfold.sim.round_trip import round_trip
from fanfold.study.gap_basis import basis_of
from fanfold.study.gap_examples import build_examples
from fanfold.study.gap_ground import (
    LOSS_PPB,
    PLAIN,
    ROWS,
    SOURCE,
    TOPOLOGY,
    GapNet,
    Numbers,
    SchemeRow,
    build_ground,
)
from fanfold.study.gap_sim import play, program_of, settings_of
from fanfold.study.gap_table import Cell, Gap, Limit
from fanfold.study.gap_words import DRAFT_WORDS, build_defaults, why_of
from fanfold.study.measure_dynamics import measure_dynamics
from fanfold.study.measure_faults import measure_faults
from fanfold.study.measure_feedback import measure_feedback
from fanfold.study.measure_loss import measure_loss
from fanfold.study.measure_simplicity import measure_simplicity
from fanfold.study.measure_sparseness import Sparse, build_sparse, measure_sparseness
from fanfold.study.thresholds import build_limits, numbers_of, worst_word
from fanfold.trees.settings import TreeSettings
from fanfold.units import format_duration
from fanfold.version import VERSION

REQUIREMENTS = ("interactivity", "reliability", "dynamics", "sparseness", "simplicity")
"""In the order of draft-zhang-rtgwg-multicast-requirements-gaps-aidc, section 3."""
N_SEEDS = 10
"""Runs with loss, each with a seed of its own."""
Progress = Callable[[str, int, int], None]
"""Called with what is being measured, how many rows are done, and of how many."""


def build_gap(
    topology: str = TOPOLOGY,
    *,
    n_receivers: int = 0,
    n_members: int | None = None,
    loss_ppb: int = LOSS_PPB,
    detect_ps: int = TreeSettings().detect_ps,
    seed: int = 1,
    n_seeds: int = N_SEEDS,
    progress: Progress | None = None,
) -> Gap:
    """Measure all rows, and work out the examples.

    Args:
        n_receivers: of the large group, 0 for all hosts but one. n_members: of the sparse one.
        loss_ppb: of a packet on a link. detect_ps: until a router notices a dead link.
        n_seeds: runs with loss of each row.

    Raises:
        ConfigError: no such topology, groups that it has no hosts for, or no path.
    """
    ground = build_ground(
        topology,
        n_receivers=n_receivers,
        n_members=n_members,
        loss_ppb=loss_ppb,
        seed=seed,
    )
    rows = [_noticing(row, detect_ps) for row in ROWS]
    gap = measure_gap(ground, rows, progress, n_seeds=n_seeds)
    command = _command(ground, detect_ps, n_seeds)
    return msgspec.structs.replace(gap, command=command, examples=build_examples())


def build_main_rows(progress: Progress | None = None) -> Gap:
    """The same on the fabric of the table, without variants and examples."""
    ground = build_ground()
    gap = measure_gap(ground, [row for row in ROWS if not row.variant_of], progress)
    detect_ps = TreeSettings().detect_ps
    return msgspec.structs.replace(gap, command=_command(ground, detect_ps, N_SEEDS))


def measure_gap(
    ground: GapNet,
    rows: Sequence[SchemeRow],
    progress: Progress | None = None,
    *,
    n_seeds: int = N_SEEDS,
) -> Gap:
    """The table of some rows on a fabric with groups that are there already."""
    tell = progress or (lambda what, done, n: None)
    tell("groups", 0, len(rows))
    bench, net = Bench(ground, rows, n_seeds), ground.net
    rtt_ps = round_trip(net, ground.routes)
    limits = build_limits(int(net.bps[net.first_out[SOURCE]]), rtt_ps)
    cells: list[Cell] = []
    for number, row in enumerate(rows):
        tell(row.name, number, len(rows))
        cells += _cells(row, limits, bench.numbers(row))
    tell("examples", len(rows), len(rows))
    return Gap(
        command="",
        seed=ground.seed,
        version=VERSION,
        topology=ground.topology,
        n_hosts=ground.net.n_hosts,
        n_receivers=len(ground.receivers),
        n_members=len(ground.members),
        n_seeds=n_seeds,
        loss_ppb=ground.loss_ppb,
        schemes=tuple(row.name for row in rows if not row.variant_of),
        variants=tuple((r.name, r.variant_of, r.what) for r in rows if r.variant_of),
        limits=limits,
        cells=tuple(sorted(cells, key=lambda cell: REQUIREMENTS.index(cell.requirement))),
        examples=(),
        defaults=build_defaults(ground, rows[0].tree.detect_ps),
    )


class Bench:
    """What rows share: runs of the same program and feedback, and the sparse groups."""

    def __init__(self, ground: GapNet, rows: Sequence[SchemeRow], n_seeds: int) -> None:
        self.ground, self.n_seeds = ground, n_seeds
        is_planned = any(row.is_planned for row in rows)
        self.sparse: Sparse = build_sparse(ground, all_encodings=is_planned)
        self._bases: dict[tuple[str, ...], Outcome] = {}
        self._moved: dict[tuple[str, ...], Numbers] = {}
        self._named: dict[tuple[str, bool], Numbers] = {}

    def numbers(self, row: SchemeRow) -> Numbers:
        """All numbers of a row."""
        ground, key = self.ground, (row.program, row.feedback, row.tree_repair)
        if key not in self._bases:
            base = self._bases[key] = self._run(row, 0)
            lossy = [self._run(row, ground.loss_ppb, seed) for seed in range(self.n_seeds)]
            self._moved[key] = {
                **measure_feedback(ground, row, base),
                **measure_loss(ground, row, base, lossy),
            }
        named = row.program, row.is_planned
        if named not in self._named:
            self._named[named] = measure_sparseness(row, self.sparse)
        return {
            **self._moved[key],
            **measure_faults(ground, row),
            **measure_dynamics(ground, row),
            **self._named[named],
            **measure_simplicity(ground, row, self.sparse, self._bases[key]),
        }

    def _run(self, row: SchemeRow, loss_ppb: int, more_seed: int = 0) -> Outcome:
        """The large group gets one message."""
        settings = msgspec.structs.replace(settings_of(row), loss_ppb=loss_ppb)
        ground = self.ground
        program = program_of(ground, row, ground.receivers, ground.message_bytes)
        return play(ground, program, settings, more_seed=more_seed)


def _cells(row: SchemeRow, limits: tuple[Limit, ...], values: Numbers) -> Iterable[Cell]:
    for place, requirement in enumerate(REQUIREMENTS):
        numbers = tuple(
            msgspec.structs.replace(number, by=basis_of(row, number.metric))
            for number in numbers_of(limits, requirement, values)
        )
        word = worst_word(numbers)
        if not word:
            continue
        words = DRAFT_WORDS.get(row.name.removesuffix(PLAIN))
        draft_word = words[place] if words else ""
        why = why_of(requirement, limits, numbers, word, draft_word)
        yield Cell(requirement, row.name, word, draft_word, why, numbers)


def _noticing(row: SchemeRow, detect_ps: int) -> SchemeRow:
    return row._replace(tree=msgspec.structs.replace(row.tree, detect_ps=detect_ps))


def _command(ground: GapNet, detect_ps: int, n_seeds: int) -> str:
    parts = [
        "fanfold gap",
        f"--topology {ground.topology}",
        f"--receivers {len(ground.receivers)}",
        f"--members {len(ground.members)}",
        f"--loss {_share(ground.loss_ppb)}",
        f"--detect {format_duration(detect_ps).replace(' ', '')}",
        f"--seed {ground.seed}",
        f"--seeds {n_seeds}",
    ]
    return " ".join(parts)


def _share(ppb: int) -> str:
    return f"{ppb // 1000}ppm" if ppb % 1000 == 0 else f"{ppb}ppb"
