"""A report: one HTML file, and each figure of it as SVG and PNG."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.report.figure import svg_of, write_files
from fanfold.report.material import Material, gather
from fanfold.report.page import render
from fanfold.report.replay_svg import standalone
from fanfold.report.sections import head_of, sections_of
from fanfold.report.theme import in_light
from fanfold.report.verdicts import split_verdict
from fanfold.results.store import Store
from fanfold.study.gap import Progress

PAGE = "report.html"
FIGURES = "figures"


class Report(NamedTuple):
    """name: of the study or run. page, figures: files that were written."""

    name: str
    title: str
    verdict: tuple[str, ...]
    page: Path
    figures: tuple[Path, ...]


def write_report(
    store: Store,
    name: str,
    folder: Path,
    *,
    is_study: bool,
    has_gap: bool = True,
    progress: Progress | None = None,
) -> Report:
    """Write the report of one study or run into a folder; equal inputs give equal bytes.

    Raises:
        ConfigError: a file that cannot be read, or a folder that cannot be written.
    """
    with _writing(folder):
        (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    material = gather(store, name, is_study=is_study, has_gap=has_gap, progress=progress)
    page, svgs = make_page(material)
    with _writing(folder):
        _take_away_old(folder)
        (folder / PAGE).write_text(page, encoding="utf-8")
        figures = write_files(svgs, folder / FIGURES)
    study = material.study
    verdict, _ = split_verdict(study, material.point)
    return Report(material.name, study.title, tuple(verdict), folder / PAGE, tuple(figures))


def _take_away_old(folder: Path) -> None:
    """Figures of the page that was here before, by its own words; other files stay."""
    page = folder / PAGE
    before = page.read_text(encoding="utf-8") if page.exists() else ""
    for file in (folder / FIGURES).iterdir():
        if f'"{file.stem}": ' in before:
            file.unlink()


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as err:
        allowed = f"a folder that can be written: {err.strerror}"
        raise ConfigError("--out", str(folder), allowed) from err


def make_page(material: Material) -> tuple[str, dict[str, str]]:
    """The page, and the SVG of each figure by name."""
    schemes = tuple(dict.fromkeys(row.scheme for row in material.study.rows))
    sections = sections_of(material)
    page = render(head_of(material), sections, schemes)
    svgs = {
        figure.name: svg_of(figure.spec, schemes)
        for section in sections
        for figure in section.figures
    }
    svgs["replay"] = in_light(standalone(material.replay), schemes)
    return page, svgs
