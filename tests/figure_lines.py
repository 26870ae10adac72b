"""Sentences and rows of pages whose figures runs give: tests/figures.toml has them.

A text is what stands on the page, white space as it comes, with a hole for each figure:

    4 MiB over 128 ranks: {fanfold last_ps us.1} us by `fanfold`

A hole is a scheme (or several, ``a|b``, of which ``least`` or ``most`` is taken), a value of
its row in ``fanfold compare --json``, a unit, and how many decimals are shown. Where a text
rests on several runs, ``2:`` in front says which. A run is what follows ``fanfold compare``;
``SLOTS=8`` is examples/slots.toml with so many slots on a fat tree of k = 8.
"""

import contextlib
import io
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any, NamedTuple

from fanfold.cli.main import run

ROOT = Path(__file__).parent.parent
FILE = Path(__file__).parent / "figures.toml"
HOLE = re.compile(
    r"\{(?:(\d):)?(?:(least|most) )?([\w+|-]+) (\w+) (us|ms|s|MiB|MB|GB|Gbps|n)(?:\.(\d))?\}"
)
NUMBER = r"\d[\d,]*(?:\.\d+)?"
UNITS = {"us": 10**6, "ms": 10**9, "s": 10**12, "MiB": 2**20, "MB": 10**6, "GB": 10**9, "n": 1}
SLOTS = re.compile(r"SLOTS=(\d+)")
Row = Mapping[str, Any]


class Figure(NamedTuple):
    """A text of a page. runs: what is typed for it. is_cheap: a test runs it each time."""

    page: str
    text: str
    runs: tuple[str, ...]
    is_cheap: bool


class Found(NamedTuple):
    """A hole: where its number stands on the page, what stands there, what is due."""

    start: int
    end: int
    shown: str
    due: str


def figures() -> list[Figure]:
    """All texts, in the order of the file."""
    table = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return [
        Figure(row["page"], row["text"], tuple(row["runs"]), row.get("is_cheap", False))
        for row in table["figure"]
    ]


def pattern_of(text: str) -> re.Pattern[str]:
    """What finds a text on its page, a group for each hole."""
    parts = []
    at = 0
    for hole in HOLE.finditer(text):
        parts += [_plain(text[at : hole.start()]), f"({NUMBER})"]
        at = hole.end()
    return re.compile("".join([*parts, _plain(text[at:])]))


def _plain(text: str) -> str:
    return re.sub(r"(?:\\?\s)+", r"\\s+", re.escape(text))


def match_of(figure: Figure, page: str) -> re.Match[str]:
    """Where a text stands.

    Raises:
        ValueError: it does not, or more than once.
    """
    found = list(pattern_of(figure.text).finditer(page))
    if len(found) != 1:
        raise ValueError(f"{figure.page}: {len(found)} times: {figure.text[:60]}")
    return found[0]


def found_in(
    figure: Figure, page: str, rows_of: Callable[[str], Mapping[str, Row]]
) -> list[Found]:
    """Each hole of a text, filled."""
    match = match_of(figure, page)
    found = []
    for i, hole in enumerate(HOLE.finditer(figure.text), 1):
        number, pick, schemes, field, unit, decimals = hole.groups()
        rows = rows_of(figure.runs[int(number or 1) - 1])
        values = [int(rows[scheme][field]) for scheme in schemes.split("|")]
        value = max(values) if pick == "most" else min(values)
        due = shown(value, unit, int(decimals or 0))
        found.append(Found(*match.span(i), match[i], due))
    return found


def shown(value: int, unit: str, decimals: int) -> str:
    """A figure as pages write it. Gbps: 4 MiB over a time in ps."""
    exact = Decimal(4 * 2**20 * 8 * 1000) / value if unit == "Gbps" else Decimal(value)
    step = Decimal(1).scaleb(-decimals)
    return f"{(exact / UNITS.get(unit, 1)).quantize(step, ROUND_HALF_UP):,}"


def filled(page: str, found: list[Found]) -> str:
    """A page with the figures that are due; holes may be of several texts."""
    for one in sorted(found, reverse=True):
        page = page[: one.start] + one.due + page[one.end :]
    return page


def printed_by(command: str, folder: Path) -> str:
    """What ``fanfold compare`` prints, from runs of its own.

    Raises:
        ValueError: it did not end well.
    """
    words = shlex.split(command)
    if (slots := SLOTS.fullmatch(words[0])) is not None:
        text = (ROOT / "examples" / "slots.toml").read_text(encoding="utf-8")
        text = text.replace("fat-tree:k=4", "fat-tree:k=8,rate=100Gbps").replace(
            "array_slots = 16", f"array_slots = {slots[1]}"
        )
        text = text.replace('"all_reduce"', '"all_reduce"\nranks = 128')
        words[0] = str(folder / f"slots-{slots[1]}.toml")
        Path(words[0]).write_text(text, encoding="utf-8")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = run(["compare", *words, "--out", str(folder / "runs")])
    if code != 0:
        raise ValueError(f"fanfold compare {command}: ended with {code}")
    return out.getvalue()


class Runs:
    """Rows by scheme of commands, each run once."""

    def __init__(self, folder: Path, told: Callable[[str], None] = lambda _: None) -> None:
        self._kept: dict[str, dict[str, Row]] = {}
        self._tell = told
        self._folder = folder

    def rows_of(self, command: str) -> dict[str, Row]:
        """Rows that the command prints as JSON."""
        if command not in self._kept:
            self._tell(f"fanfold compare {command}")
            told = json.loads(printed_by(f"{command} --json", self._folder))
            self._kept[command] = {row["scheme"]: row for row in told["runs"]}
        return self._kept[command]
