"""A report of real runs: what it holds, where it is from, and that it needs nothing else."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import altair
import pytest
import report_world as world
from msgspec.structs import replace

from fanfold.errors import ConfigError
from fanfold.report import gap_store
from fanfold.report.amounts import format_value
from fanfold.report.comparison import named_of
from fanfold.report.material import Material, find, gather, newest
from fanfold.report.report import FIGURES, PAGE, Report, write_report
from fanfold.report.tables import AI_METRICS, main_tables
from fanfold.results import query
from fanfold.results.store import Store
from fanfold.run import run_scenario
from fanfold.study.keep import Shelf
from fanfold.study.metric_catalog import CATALOG

PNG = b"\x89PNG\r\n\x1a\n"
MAX_PAGE = 5_000_000
VOID = {"meta", "link", "input", "br", "line"}


class Made(NamedTuple):
    store: Store
    runs: dict[str, str]
    study: str


class Page(HTMLParser):
    """Elements of a page: tag and attributes; texts by the tag they stand in."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and data.strip():
            self.texts.append((self._open[-1], data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def words(self, *without: str) -> str:
        return " ".join(t for tag, t in self.texts if tag not in ("script", "style", *without))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    store = Store(tmp_path_factory.mktemp("results"))
    runs = world.make_comparison(store)
    return Made(store, runs, world.make_study(store))


@pytest.fixture(autouse=True)
def small_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of the real fabric takes long; that it is kept is a test of its own."""
    monkeypatch.setattr(gap_store, "build_main_rows", lambda *_: world.gap())


@pytest.fixture(scope="module")
def material(made: Made) -> Material:
    return gather(made.store, made.study, is_study=True, has_gap=False)


@pytest.fixture(scope="module")
def written(made: Made, tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Page]:
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gap_store, "build_main_rows", lambda *_: world.gap())
        report = write_report(made.store, made.study, folder, is_study=True)
    return report, Page(report.page.read_text(encoding="utf-8"))


def test_equal_inputs_give_equal_bytes(
    made: Made, written: tuple[Report, Page], tmp_path: Path
) -> None:
    altair.Chart(altair.InlineData(values=[])).mark_point().interactive().to_dict()
    write_report(made.store, made.study, tmp_path, is_study=True)
    first, second = world.folder_bytes(written[0].page.parent), world.folder_bytes(tmp_path)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def test_the_page_asks_for_nothing(written: tuple[Report, Page]) -> None:
    report, page = written
    (policy,) = [m["content"] for m in page.all("meta") if m.get("http-equiv")]
    assert policy is not None
    assert "default-src 'none'" in policy
    for tag, attributes in page.elements:
        for name in ("src", "href", "xlink:href", "action", "data", "srcset"):
            assert (attributes.get(name) or "#")[0] == "#" or attributes[name] == "data:,", tag
    css = "".join(text for tag, text in page.texts if tag == "style")
    assert not re.search(r"url\(|@import|https?:", css)
    assert report.page.stat().st_size < MAX_PAGE


def test_a_title_is_text_wherever_it_stands(written: tuple[Report, Page]) -> None:
    report, page = written
    assert [text for tag, text in page.texts if tag == "h1"] == ["A </script><b>title</b>"]
    assert not page.all("b") or all("data-part" in b for b in page.all("b"))
    assert report.title == world.HOSTILE


def test_every_figure_has_marks_words_and_both_files(written: tuple[Report, Page]) -> None:
    report, page = written
    charts = [d for d in page.all("div") if d.get("class") == "chart"]
    names = {str(d["id"]).removeprefix("chart-") for d in charts}
    assert names >= {"choice", "completion", "links-unicast", "links-fanfold"}
    assert names >= {"headers", "overhead", "over-gpus-time-all-ps", "over-loss-time-all-ps"}
    for chart in charts:
        assert chart["role"] == "img"
        assert len(chart["aria-label"] or "") > 40
    files = {path.stem for path in report.figures}
    assert files == names | {"replay"}
    assert len(report.figures) == 2 * len(files)
    for path in report.figures:
        content = path.read_bytes()
        assert content.startswith(PNG) if path.suffix == ".png" else content.startswith(b"<svg")
        if path.suffix == ".svg":
            text = content.decode()
            assert "var(--" not in text
            assert len(re.findall(r"<(?:path|line|rect|circle)\b", text)) > 8, path.name


def test_specs_have_no_counted_names_and_their_data_inside(
    written: tuple[Report, Page],
) -> None:
    _, page = written
    (specs,) = [t for tag, t in page.texts if tag == "script" and t.startswith('{"choice"')]
    assert re.search(r"(?:view|param)_\d", specs) is None
    assert '"url"' not in specs
    assert len(json.loads(specs)) > 8


def test_the_main_table_is_what_the_runs_hold(
    made: Made, material: Material, written: tuple[Report, Page]
) -> None:
    assert material.point == {"gpus": "8", "loss": "0"}
    _, page = written
    words = page.words()
    for row in material.rows:
        if row.refusal:
            continue
        (told,) = query.comparison([made.store.place(row.run_id)])
        assert format_value("time_all_ps", told["last_ps"]) in words
        assert format_value("fabric_bytes", told["fabric_bytes"]) in words
    assert "no tree to be had" in words
    assert "goes round" in words


def test_best_is_marked_by_a_word_where_values_differ(
    material: Material, written: tuple[Report, Page]
) -> None:
    _, page = written
    text = written[0].page.read_text(encoding="utf-8")
    cells = re.findall(r'<td class="best">([^<]*)<small>best', text)
    rows = [row for row in material.rows if row.values]
    expected = []
    for metric in world.METRICS:
        values = [row.values[metric] for row in rows]
        pick = max if metric == "utilisation_ppm" else min
        if len(set(values)) > 1:
            expected += [format_value(metric, pick(values))] * values.count(pick(values))
    assert sorted(cells[: len(expected)]) == sorted(expected)
    assert "best" in page.words()


def test_metrics_of_any_network_and_of_ai_jobs_stand_apart(
    material: Material, written: tuple[Report, Page]
) -> None:
    _, page = written
    captions = [text for tag, text in page.texts if tag == "caption"]
    assert captions.index("Metrics of any network") < captions.index("Metrics of AI jobs")
    assert set(AI_METRICS) <= {metric.name for metric in CATALOG}
    grids = main_tables(material.study, material.rows)
    plain, of_ai = [[name for name, _ in grid.head] for grid in grids]
    assert {"GPU utilisation", "straggler spread"} == {*of_ai} - {"scheme"}
    assert {"until all have it", "all links"} <= {*plain}


def test_the_page_says_how_to_make_it_again(written: tuple[Report, Page]) -> None:
    words = written[1].words()
    for said in ("fanfold study model-push --gpus 8", "0.1.0+test", "of this fabric", "seed 1"):
        assert said in words, said


def test_the_summary_is_of_the_point_that_is_shown(written: tuple[Report, Page]) -> None:
    report, page = written
    assert report.verdict == ("choose fanfold", "First of all: fanfold at 4.")
    assert "gpus 4, loss 1%: choose fanfold" in page.words()


def test_words_of_the_gap_table_are_there(written: tuple[Report, Page]) -> None:
    _, page = written
    spans = [str(s.get("class")) for s in page.all("span")]
    assert spans.count("word Poor") == 2 * 5
    assert spans.count("word Good") == 5 + 5  # measured, and the draft's where it differs
    words = page.words()
    assert "join: never" in words
    assert "Where the draft says otherwise" in words


def test_a_comparison_is_all_kept_schemes_of_one_scenario(made: Made) -> None:
    material = gather(made.store, made.runs["ring"], is_study=False, has_gap=False)
    assert [row.scheme for row in material.rows] == list(world.SCHEMES)
    assert {row.run_id for row in material.rows} == set(made.runs.values())
    best = min(material.rows, key=lambda row: row.values["time_all_ps"])
    time = format_value("time_all_ps", best.values["time_all_ps"])
    assert time in material.study.verdict[0]
    assert material.scenario.count("schemes") == 1


def test_an_imported_file_is_named_without_folders(tmp_path: Path) -> None:
    figure = Path(__file__).parents[3] / "examples" / "figure1.json"
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "rack.json").write_bytes(figure.read_bytes())
    topology = f"import:{tmp_path}/own/rack.json,rate=10Gbit/s"
    store = Store(tmp_path / "runs")
    asked = replace(world.BASE, topology=topology, schemes=("unicast", "fanfold"))
    (run, _) = run_scenario(asked, store)
    material = gather(store, run.run_id, is_study=False, has_gap=False)
    study = material.study
    assert study.topology == "import:rack.json,rate=10Gbit/s"
    assert study.title.endswith(", import:rack.json,rate=10Gbit/s")
    assert "on import:rack.json,rate=10Gbit/s" in study.verdict[0]
    assert study.command == "fanfold compare scenario.toml"
    assert named_of("import:/a/b,c/d.json,delay=1us") == "import:d.json,delay=1us"
    write_report(store, run.run_id, tmp_path / "page", is_study=False, has_gap=False)
    assert str(tmp_path) not in (tmp_path / "page" / PAGE).read_text(encoding="utf-8")


def test_a_run_of_a_study_leads_to_the_study(made: Made, tmp_path: Path) -> None:
    study = Shelf(made.store.folder).study(made.study)
    store = Store(tmp_path)
    Shelf(tmp_path).put_study(study)
    with pytest.raises(ConfigError, match="a run of fanfold compare, or of a study"):
        gather(store, "f" * 16, is_study=False, has_gap=False)
    material = gather(store, study.rows[0].run_id, is_study=False, has_gap=False)
    assert material.name == made.study
    assert material.kept == {}


def test_names_are_found_by_their_start(made: Made) -> None:
    assert find(made.store, made.study[:10]) == (made.study, True)
    assert find(made.store, made.runs["bier"][:10]) == (made.runs["bier"], False)
    near = made.study[:-1] + ("0" if made.study[-1] != "0" else "1")
    with pytest.raises(ConfigError, match=made.study):
        find(made.store, near)
    with pytest.raises(ConfigError, match="none yet; fanfold study makes one"):
        find(Store(made.store.folder / "nowhere"), "abc")
    with pytest.raises(ConfigError, match="--last"):
        newest(Store(made.store.folder / "nowhere"))


def test_the_newest_is_what_was_written_last(made: Made, tmp_path: Path) -> None:
    store = Store(tmp_path)
    runs = world.make_comparison(store)
    assert newest(store)[0] in runs.values()
    study = Shelf(made.store.folder).study(made.study)
    name = Shelf(tmp_path).put_study(study)
    assert newest(store) == (name, True)


def test_the_gap_table_is_measured_once(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def build(*how: object) -> object:
        asked.append(how)
        return world.gap()

    monkeypatch.setattr(gap_store, "build_main_rows", build)
    store = Store(tmp_path)
    assert gap_store.kept_gap(store) == gap_store.kept_gap(store) == world.gap()
    assert asked == [(None,)]


def test_a_folder_that_cannot_be_written_is_named(made: Made, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--out"):
        write_report(made.store, made.study, tmp_path / "file", is_study=True)
    assert (PAGE, FIGURES) == ("report.html", "figures")
