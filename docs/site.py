"""The pages of this tree in one folder, where links between them lead as they do here.

mkdocs takes one folder; pages stand in several. Whatever a page links to comes along: a script,
a picture, a licence. ``make docs`` runs this, then mkdocs with all links checked.
"""

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "build" / "pages"
LINK = re.compile(r"\]\(([^)#:\s]+)[^)]*\)")
FENCED = re.compile(r"```.*?```", re.DOTALL)


def main() -> None:
    """Copy README.md, and all that is reached from it."""
    shutil.rmtree(PAGES, ignore_errors=True)
    todo, seen = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")], set[Path]()
    while todo:
        page = todo.pop()
        if page in seen:
            continue
        seen.add(page)
        place = PAGES / page.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        if page.is_dir():
            place.mkdir(exist_ok=True)
            continue
        shutil.copy2(page, place)
        if page.suffix == ".md":
            text = FENCED.sub("", page.read_text(encoding="utf-8"))
            links = ((page.parent / link).resolve() for link in LINK.findall(text))
            todo += [link for link in links if link.is_relative_to(ROOT) and link.exists()]


if __name__ == "__main__":
    main()
