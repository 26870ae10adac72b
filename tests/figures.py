"""Figures of pages that simulations give: `make figures` runs all anew and writes them there.

docs/gap.md and the words in docs/comparing.md, from one run of `fanfold gap`; the texts of
tests/figures.toml; the table that docs/comparing.md shows of `fanfold compare`; that of
docs/failures.md; what examples/study.ipynb printed. Every word and figure that changes is told,
before and after.
Speeds are measured by bench/run.py and stand in bench/figures.toml; they are left as they are.
"""

import argparse
import io
import json
import re
import shlex
import sys
from collections.abc import Callable
from contextlib import chdir, redirect_stdout
from difflib import unified_diff
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from failure_page import PAGE as FAILURES
from failure_page import failure_rows, put_rows
from figure_lines import Figure, Runs, figures, filled, found_in, printed_by
from readme_lines import ID

from fanfold.study.failure_table import Asked, build_failure_table
from fanfold.study.gap import REQUIREMENTS, build_gap
from fanfold.study.gap_page import gap_page
from fanfold.study.gap_table import Gap, cell_of

ROOT = Path(__file__).parent.parent
HEAD = "| scheme | interactivity "
NOTEBOOK = ROOT / "examples" / "study.ipynb"
SHOWN = "--topology fat-tree:k=8 --workload broadcast:1MiB --schemes unicast,fanfold"
"""The command whose table docs/comparing.md shows."""
RULE = re.compile(r"^ ─+$", re.MULTILINE)
SPEED = re.compile(r"\b[\d.]+ [kMG](?=\s)")
"""Hops a second, measured."""
PARTS = ("gap", "texts", "table", "failures", "notebook")


def words_of(gap: Gap) -> str:
    """The words as a table of Markdown, the draft's where they differ."""
    lines = [f"| scheme | {' | '.join(REQUIREMENTS)} |", f"|{'---|' * (1 + len(REQUIREMENTS))}"]
    for name in gap.schemes:
        cells = [cell_of(gap, requirement, name) for requirement in REQUIREMENTS]
        words = [
            f"{c.word} (draft: {c.draft_word})" if c.draft_word not in ("", c.word) else c.word
            for c in cells
        ]
        lines.append(f"| {name} | {' | '.join(words)} |")
    return "\n".join(lines)


def put(page: str, table: str) -> str:
    """A page with its table of words exchanged."""
    at = page.index(HEAD)
    return page[:at] + table + page[page.index("\n\n", at) :]


def tell(text: str) -> None:
    """A line on standard output."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def write(path: Path, text: str) -> None:
    """Write a page that has changed, and tell each line before and after."""
    was = path.read_text(encoding="utf-8") if path.exists() else ""
    if was == text:
        return
    path.write_text(text, encoding="utf-8")
    name = str(path.relative_to(ROOT))
    for line in unified_diff(was.split("\n"), text.split("\n"), name, name, n=0, lineterm=""):
        tell(line)


def do_gap() -> None:
    """docs/gap.md, and the words in docs/comparing.md."""
    gap = build_gap(progress=lambda what, done, n: tell(f"{what}: {done} of {n}"))
    page = ROOT / "docs" / "comparing.md"
    write(page, put(page.read_text(encoding="utf-8"), words_of(gap)))
    write(ROOT / "docs" / "gap.md", gap_page(gap))


def do_texts() -> None:
    """Figures in sentences and rows, written page by page as they come."""
    with TemporaryDirectory(prefix="fanfold-figures-") as folder:
        runs = Runs(Path(folder), tell)
        for one in figures():
            _do_text(one, runs)


def _do_text(one: Figure, runs: Runs) -> None:
    path = ROOT / one.page
    page = path.read_text(encoding="utf-8")
    found = found_in(one, page, runs.rows_of)
    changed = [f"{each.shown} -> {each.due}" for each in found if each.shown != each.due]
    if changed:
        path.write_text(filled(page, found), encoding="utf-8")
        tell(f"{one.page}: {one.text[:50]}...: {', '.join(changed)}")


def table_of(printed: str) -> str:
    """Rows and head of what ``compare`` prints."""
    lines = printed.split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith("  scheme"))
    last = max(i for i, line in enumerate(lines) if line.startswith("  ") and line.strip())
    return "\n".join(line.rstrip() for line in lines[first : last + 1])


def like(table: str) -> list[str]:
    """A table without what differs from run to run: speeds, ids, widths."""
    plain = RULE.sub("", SPEED.sub("", ID.sub("", table)))
    return plain.split()


def shown_table(page: str) -> str:
    """The table of ``compare`` that docs/comparing.md shows."""
    start = page.index("```\n  scheme") + len("```\n")
    return page[start : page.index("\n```", start)]


def do_table() -> None:
    """The table of docs/comparing.md, where more than speeds and ids of it differ."""
    file = ROOT / "docs" / "comparing.md"
    page = file.read_text(encoding="utf-8")
    with TemporaryDirectory(prefix="fanfold-figures-") as folder:
        was, now = shown_table(page), table_of(printed_by(SHOWN, Path(folder)))
    if like(was) != like(now):
        write(file, page.replace(was, now))


def do_failures() -> None:
    """The table of docs/failures.md; what does not fit is told, and keeps no row."""
    found = build_failure_table(Asked(), lambda scheme, what: tell(f"{scheme}: {what}"))
    for why in found.left_out:
        tell(f"not run, {why}")
    page = ROOT / FAILURES
    write(page, put_rows(page.read_text(encoding="utf-8"), failure_rows(found)))


def do_notebook() -> None:
    """What the cells of the notebook print; their results go into a folder that ends."""
    book: dict[str, Any] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    scope: dict[str, Any] = {}
    with TemporaryDirectory() as folder, chdir(folder):
        for cell in (c for c in book["cells"] if c["cell_type"] == "code"):
            told = io.StringIO()
            with redirect_stdout(told):
                exec("".join(cell["source"]), scope)
            for out in cell["outputs"]:
                out["text"] = told.getvalue().splitlines(keepends=True)
    write(NOTEBOOK, json.dumps(book, indent=1, ensure_ascii=False) + "\n")


DOES: dict[str, Callable[[], None]] = {
    "gap": do_gap,
    "texts": do_texts,
    "table": do_table,
    "failures": do_failures,
    "notebook": do_notebook,
}


def main() -> None:
    """Measure, write, and say what changed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=PARTS, help=shlex.join(PARTS))
    for part in parser.parse_args().parts:
        tell(f"== {part}")
        DOES[part]()


if __name__ == "__main__":
    sys.exit(main())
