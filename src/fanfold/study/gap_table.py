"""The table of requirements and schemes as one value: words, the numbers behind them, limits.

``study/gap.py`` fills it; the command, the report and notebooks read it.
"""

from typing import Literal

import msgspec

from fanfold.study.result import Default

Word = Literal["Good", "Moderate", "Poor"]


class Number(msgspec.Struct, frozen=True):
    """One measured number.

    metric: name of a row of ``study/metric_catalog.py``, which has unit and meaning. value:
    NEVER_HERE for what never comes about. word: what its limits make of it, empty where it has
    none and does not decide. by: why no run gave it, empty where one did.
    """

    metric: str
    value: int
    word: Word | Literal[""] = ""
    by: str = ""


class Cell(msgspec.Struct, frozen=True):
    """One requirement of one scheme.

    word: that of its worst number. draft_word: of Table 1 of the draft, empty where that has
    no such row. why: which numbers decide; where word and draft_word differ, what the draft
    looks at and this measures otherwise. numbers: the deciding ones first.
    """

    requirement: str
    scheme: str
    word: Word
    draft_word: Word | Literal[""]
    why: str
    numbers: tuple[Number, ...]


class Limit(msgspec.Struct, frozen=True):
    """What makes words of one metric: Good up to ``good``, Moderate up to ``moderate``.

    For a metric of which more is better: from there on upward. why: where the limits are from.
    """

    metric: str
    good: int
    moderate: int
    why: str


class Line(msgspec.Struct, frozen=True):
    """One line of a worked example: what, by the first scheme, by the second, in the unit."""

    what: str
    unit: str
    values: tuple[tuple[str, int], ...]


class Example(msgspec.Struct, frozen=True):
    """A claim of the seeds, worked out: title, what ran, its lines, what follows."""

    title: str
    command: str
    lines: tuple[Line, ...]
    verdict: str


class Gap(msgspec.Struct, frozen=True):
    """The whole table.

    schemes: rows, in order; variants: rows below them: name, name of their scheme,
    what is different. n_seeds: runs with loss of each. cells: of both, by requirement and
    then scheme. command: prints it again.
    """

    command: str
    seed: int
    version: str
    topology: str
    n_hosts: int
    n_receivers: int
    n_members: int
    n_seeds: int
    loss_ppb: int
    schemes: tuple[str, ...]
    variants: tuple[tuple[str, str, str], ...]
    limits: tuple[Limit, ...]
    cells: tuple[Cell, ...]
    examples: tuple[Example, ...]
    defaults: tuple[Default, ...]


NEVER_HERE = -1
"""Value of a number that stands for "never"; it is worse than any other."""


def differences(gap: Gap) -> list[Cell]:
    """Cells whose word is not the draft's, each with the reason."""
    return [cell for cell in gap.cells if cell.draft_word not in ("", cell.word)]


def cell_of(gap: Gap, requirement: str, scheme: str) -> Cell:
    """One cell; the names are ours, so a wrong one is a bug."""
    return {(cell.requirement, cell.scheme): cell for cell in gap.cells}[requirement, scheme]
