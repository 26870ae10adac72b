"""Figures in docs that runs gave: `make figures` measures them anew and writes them there.

docs/gap.md and the table of words in README.md, from one run of `fanfold gap`.
"""

import sys
from pathlib import Path

from fanfold.study.gap import REQUIREMENTS, build_gap
from fanfold.study.gap_page import gap_page
from fanfold.study.gap_table import Gap, cell_of

ROOT = Path(__file__).parent.parent
HEAD = "| scheme | interactivity "


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


def main() -> None:
    """Measure, write, and say which files changed."""
    gap = build_gap(progress=lambda what, done, n: tell(f"{what}: {done} of {n}"))
    readme, page = ROOT / "README.md", ROOT / "docs" / "gap.md"
    for path, text in (
        (readme, put(readme.read_text(), words_of(gap))),
        (page, gap_page(gap)),
    ):
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            tell(f"{path.relative_to(ROOT)}: changed")


if __name__ == "__main__":
    sys.exit(main())
