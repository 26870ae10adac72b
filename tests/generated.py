"""Pages that are written from code. ``python tests/generated.py`` writes them anew."""

from collections.abc import Callable
from pathlib import Path

from fanfold.results import schema
from fanfold.scenario.scenario import schema_text
from fanfold.study import metric_page

DOCS = Path(__file__).parents[1] / "docs"
PAGES: dict[str, Callable[[], str]] = {
    "metrics.md": metric_page.page,
    "results.md": schema.page,
    "scenario.schema.json": schema_text,
}

if __name__ == "__main__":
    for name, text in PAGES.items():
        (DOCS / name).write_text(text(), encoding="utf-8")
