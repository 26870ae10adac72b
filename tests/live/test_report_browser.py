"""The page in a browser: it draws, asks for nothing, complains of nothing, needs no mouse."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import report_world as world
from browser import Browser, find_browser, install_browser

from fanfold.report import gap_store
from fanfold.report.report import Report, write_report
from fanfold.results.store import Store

WIDTHS = (1280, 2560)
LOOKS = ("light", "dark")
DRAWN = "document.documentElement.dataset.drawn !== undefined"
BARE = """[...document.querySelectorAll('.chart')].filter(
    (chart) => chart.querySelectorAll('svg .mark-group path, svg .mark-group line, '
        + 'svg [class*=mark-] path, svg [class*=mark-] line').length < 4
).map((chart) => chart.id)"""
WIDER = """[...document.querySelectorAll('.chart svg')].filter(
    (svg) => svg.getBoundingClientRect().right > innerWidth).length"""
CUT = """[...document.querySelectorAll('.chart svg')].flatMap((svg) => {
    const room = svg.getBoundingClientRect();
    return [...svg.querySelectorAll('.role-legend-label text, .role-legend-symbol path')]
        .filter((part) => {
            const at = part.getBoundingClientRect();
            return at.right > room.right + 1 || at.bottom > room.bottom + 1
                || at.left < room.left - 1 || part.textContent.endsWith('\u2026');
        }).map((part) => `${svg.closest('.chart').id}: ${part.textContent}`);
})"""
"""Parts of legends that do not stand whole on the page."""
STUCK = """[...document.querySelectorAll('table')].filter((table) => {
    const box = table.closest('.scroll');
    const room = document.querySelector('main').getBoundingClientRect();
    return !box || getComputedStyle(box).overflowX !== 'auto'
        || box.getBoundingClientRect().right > room.right + 1;
}).map((table) => table.caption.textContent)"""
"""Tables that are wider than the page and cannot be moved."""
PAPER = "getComputedStyle(document.body).backgroundColor"
INK = "getComputedStyle(document.querySelector('.chart svg text')).fill"
SPEAKS = "document.querySelector('[data-part=when]').textContent"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    store = Store(tmp_path_factory.mktemp("results"))
    name = world.make_study(store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gap_store, "build_main_rows", lambda _: world.gap())
        return write_report(store, name, tmp_path_factory.mktemp("report"), is_study=True)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = find_browser()
    if path is None:
        lack = install_browser()
        path = find_browser()
        if path is None and not os.environ.get("CI"):
            pytest.skip(f"no chromium here, and none to be had: {lack}")
        assert path is not None, f"no chromium: {lack}"
    with Browser(path) as made:
        yield made


@pytest.fixture
def page(browser: Browser) -> Browser:
    browser.requests.clear()
    browser.complaints.clear()
    return browser


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("width", WIDTHS)
def test_it_draws_and_asks_for_nothing(
    page: Browser, report: Report, width: int, look: str
) -> None:
    page.open(report.page, width=width, scheme=look)
    page.until(DRAWN)
    charts = page.value("document.querySelectorAll('.chart').length")
    assert charts == page.value("Number(document.documentElement.dataset.drawn)") > 8
    assert page.value(BARE) == []
    assert page.value(WIDER) == 0
    assert page.value("document.documentElement.scrollWidth") <= width
    assert page.complaints == []
    assert page.requests == [report.page.resolve().as_uri()]


@pytest.mark.parametrize("width", [560, *WIDTHS])
def test_legends_are_whole_and_wide_tables_scroll(
    page: Browser, report: Report, width: int
) -> None:
    page.open(report.page, width=width)
    page.until(DRAWN)
    page.value("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert page.value("document.querySelectorAll('.role-legend-label text').length") > 10
    assert page.value(CUT) == []
    assert page.value(STUCK) == []
    assert page.value("document.documentElement.scrollWidth") <= width
    wide = (
        "[...document.querySelectorAll('.scroll')].filter((b) => b.scrollWidth > b.clientWidth)"
    )
    if width < WIDTHS[0]:
        assert page.value(f"{wide}.length") > 0
    moved = f"{wide}.every((box) => {{ box.scrollLeft = 40; return box.scrollLeft > 0; }})"
    assert page.value(moved)


def test_it_is_light_dark_or_paper_as_asked(page: Browser, report: Report) -> None:
    seen = []
    for look in LOOKS:
        page.open(report.page, width=WIDTHS[0], scheme=look)
        page.until(DRAWN)
        seen.append((page.value(PAPER), page.value(INK)))
    assert seen[0][0] == "rgb(255, 255, 255)"
    assert len({paper for paper, _ in seen}) == len({ink for _, ink in seen}) == 2
    page.value("document.querySelector('[name=theme][value=light]').click()")
    assert (page.value(PAPER), page.value(INK)) == seen[0]
    page.value("document.querySelector('[name=theme][value=dark]').click()")
    assert (page.value(PAPER), page.value(INK)) == seen[1]
    page.ask("Emulation.setEmulatedMedia", media="print", features=[])
    assert (page.value(PAPER), page.value(INK)) == seen[0]
    assert page.paper().startswith(b"%PDF")
    assert page.complaints == []


def test_a_packet_is_stepped_through_by_keys(page: Browser, report: Report) -> None:
    page.open(report.page, width=WIDTHS[0])
    page.until(DRAWN)
    n_steps = page.value("Number(document.documentElement.dataset.replay)")
    assert page.value(SPEAKS) == "Before the first copy leaves"
    page.value("document.querySelector('[data-part=next]').focus()")
    for key in ("Enter", " "):
        page.press(key)
    assert page.value(SPEAKS).startswith(f"Step 2 of {n_steps}")
    assert page.value("document.querySelectorAll('.moves line').length") > 1
    page.press("Tab")
    assert page.value("document.activeElement.dataset.part") == "range"
    page.press("ArrowRight")
    assert page.value(SPEAKS).startswith("Step 3 of")
    for _ in range(n_steps):
        page.press("ArrowRight")
    assert page.value(SPEAKS).startswith(f"Step {n_steps} of {n_steps}")
    assert page.value("document.querySelectorAll('.r-have').length") == 7
    page.value("document.querySelector('[data-part=first]').click()")
    page.value("document.querySelector('[data-part=play]').click()")
    page.until(f"{SPEAKS}.startsWith('Step 2 ')")
    page.value("document.querySelector('[data-part=play]').click()")
    assert page.value("document.querySelector('[data-part=play]').textContent") == "Play"
    assert page.complaints == []


def test_a_fault_of_the_page_would_be_seen(page: Browser, tmp_path: Path) -> None:
    fault = tmp_path / "fault.html"
    fault.write_text("<script>console.error('x'); fetch('data:,'); missing()</script>")
    page.open(fault, width=WIDTHS[0])
    page.until("true")
    assert len(page.complaints) == 2
    assert page.requests[1:] == ["data:,"]
