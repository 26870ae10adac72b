"""From what was found to the sections of the page, summary first."""

from collections.abc import Mapping, Sequence

from fanfold.report import charts
from fanfold.report.amounts import (
    better,
    capital,
    format_times,
    format_value,
    label_of,
    size_text,
)
from fanfold.report.figure import Figure, spec_of
from fanfold.report.gap_section import gap_section
from fanfold.report.headers import headers_section
from fanfold.report.heat import HEIGHT as HEAT_HEIGHT
from fanfold.report.heat import busiest, heat_map, scale_of
from fanfold.report.layout import Layout
from fanfold.report.material import Kept, Material, gpus_of
from fanfold.report.page import Code, Head, Section, Table, Tile
from fanfold.report.points import format_point
from fanfold.report.ranking import best_first, decisive, ranked
from fanfold.report.sweeps import sweeps_of
from fanfold.report.tables import (
    Cell,
    Grid,
    defaults_table,
    idle_metrics,
    main_tables,
    meanings,
    sweep_table,
)
from fanfold.report.verdicts import split_verdict
from fanfold.schemes.catalog import FAN_SCHEMES
from fanfold.study.metric_catalog import metric_of
from fanfold.study.result import Study

MOST_HEATS = 4
OURS = "fanfold"
MOST_TILES = 5
TILED = ("utilisation_ppm", "source_bytes", "fabric_bytes", "feedback_pkts")
"""Metrics in large beside the decisive one, best against baseline."""


def head_of(material: Material) -> Head:
    """Title and facts."""
    study = material.study
    facts = [
        ("model", study.model),
        ("fabric", material.net.name),
        ("GPUs", f"{gpus_of(study, material.point):,}" if study.gpus else ""),
        ("main table at", format_point(study.kind, material.point)),
        ("seed", str(study.seed)),
        ("version", study.version),
    ]
    shown = [(what, value) for what, value in facts if value]
    kind = "comparison" if study.kind == "compare" else f"study {study.kind}"
    return Head(kind, material.name, capital(study.title), shown, study.version, study.seed)


def sections_of(material: Material) -> list[Section]:
    """All sections that there is something for."""
    parts = [
        _summary(material),
        _table(material),
        gap_section(material.gap) if material.gap else None,
        _times(material),
        _links(material),
        *sweeps_of(material),
        headers_section(material),
        _replay(material),
        _ground(material),
    ]
    return [part for part in parts if part is not None]


def _summary(material: Material) -> Section:
    study, rows = material.study, material.rows
    metric = decisive(study, rows)
    figures = []
    if metric:
        order = [row.scheme for row in best_first(rows, metric)]
        values = {row.scheme: row.values[metric] for row in best_first(rows, metric)}
        said = ", ".join(f"{s} {format_value(metric, values[s])}" for s in order)
        is_time = metric_of(metric).unit == "ps"
        setups = {r.scheme: r.values.get("setup_ps", 0) for r in rows} if is_time else {}
        parts = " Wide grey: set-up of trees, before the data." if any(setups.values()) else ""
        figures.append(
            Figure(
                "choice",
                f"{capital(label_of(metric))}, scheme by scheme",
                f"{capital(metric_of(metric).meaning)}. {better(metric)}{parts}",
                f"One point for each scheme: {said}.",
                spec_of(
                    charts.dots(metric, values, study.baseline, setups),
                    height=charts.ROW_HEIGHT * len(values) + 20,
                ),
            )
        )
    verdict, others = split_verdict(study, material.point)
    folded = Grid(
        "At the other points",
        (("what to choose", ""),),
        tuple((Cell(line),) for line in others),
    )
    return Section(
        "summary",
        "Summary",
        verdict=[_sentence(line, study) for line in verdict],
        tiles=_tiles(material, metric),
        figures=figures,
        grids=[Table(folded, is_folded=True)] if others else [],
    )


def _tiles(material: Material, metric: str) -> list[Tile]:
    study, rows = material.study, material.rows
    if not metric:
        return []
    best = best_first(rows, metric)[0]
    base = next((r for r in rows if r.scheme == study.baseline), None)
    said = f"{format_value(metric, best.values[metric])} {label_of(metric)}"
    tiles = [Tile("best", best.scheme, said)]
    if base is None or base is best:
        return tiles
    for name in dict.fromkeys([metric, *TILED]):
        a, b = best.values.get(name, 0), base.values.get(name, 0)
        if a <= 0 or b <= 0:
            continue
        amounts = f"{format_value(name, a)} against {format_value(name, b)} by {base.scheme}"
        more = "less" if a < b else "more"
        big = f"{format_times(max(a, b), min(a, b))} {more}" if a != b else "the same"
        tiles.append(Tile(label_of(name), big, amounts))
    return tiles[:MOST_TILES]


def _sentence(line: str, study: Study) -> str:
    """With a capital, unless it starts with the name of a scheme."""
    first = line.partition(" ")[0].rstrip(",:")
    return line if first in {row.scheme for row in study.rows} else capital(line)


def _table(material: Material) -> Section:
    grids = [Table(grid) for grid in main_tables(material.study, material.rows)]
    if material.study.keys:
        shown = [
            m for m in material.study.metrics if any(m in r.values for r in material.study.rows)
        ]
        grids.append(Table(sweep_table(material.study, shown), is_folded=True))
    noted = tuple((Cell(row.scheme), Cell(row.note)) for row in material.rows if row.note)
    if noted:
        head = (("scheme", ""), ("done otherwise, or not ended", ""))
        grids.append(Table(Grid("Notes", head, noted, is_words=True)))
    base = material.study.baseline
    intro = f"Below a number stands how it compares with {base}: 1/4 is a quarter of it."
    idle = idle_metrics(material.study, material.rows)
    if idle:
        intro += f" Nothing for any scheme: {', '.join(label_of(m) for m in idle)}."
    return Section("table", "All schemes", intro=[intro], grids=grids)


def _times(material: Material) -> Section | None:
    endings = {s: k.endings for s, k in material.kept.items() if k.endings}
    if not endings:
        return None
    order = [s for s in ranked(material.study, material.rows) if s in endings]
    drawn = {s: endings[s] for s in order}
    figure = Figure(
        "completion",
        "When receivers have everything",
        "Each line climbs to 100 % when the last receiver of its scheme has all bytes. A steep "
        "line: nobody waits for a straggler. Schemes that take equally long share a line.",
        "Lines, one for each scheme, of the share of receivers that have everything over time: "
        + ", ".join(f"{s} ends at {_end(material.kept[s])}" for s in order)
        + ".",
        spec_of(charts.distributions(drawn), height=charts.LINE_HEIGHT),
    )
    return Section("times", "Completion times", figures=[figure])


def _end(kept: Kept) -> str:
    at_ps = kept.row.values.get("time_all_ps")
    return "never" if at_ps is None else format_value("time_all_ps", at_ps)


def _links(material: Material) -> Section | None:
    layout = material.layout
    loads = {s: k.loads for s, k in material.kept.items() if k.loads}
    if not loads:
        return None
    shown = _heated(material, layout, loads)
    scale = scale_of([loads[s] for s in shown])
    figures = []
    for scheme in shown:
        most = busiest(layout, loads[scheme])
        (a, b), n_bytes = max(most.items(), key=lambda one: (one[1], one[0]))
        where = f"{layout.spots[a].name} - {layout.spots[b].name}"
        total = size_text(sum(load.n_bytes for load in loads[scheme]))
        said = f"busiest {where} with {size_text(n_bytes)}; {total} on all links"
        figures.append(
            Figure(
                f"links-{scheme}",
                scheme,
                f"{capital(said)}.",
                f"Drawing of the net with its cables coloured by bytes, {scheme}: {said}.",
                spec_of(heat_map(layout, loads[scheme], scale), height=HEAT_HEIGHT),
                is_half=True,
            )
        )
    intro = [
        "Hosts are dots, routers squares. All drawings share one scale of colour and width."
    ]
    if layout.is_grouped:
        intro.append(
            "The fabric has too many nodes to draw each: neighbours stand as one mark, and a "
            "line has the colour of the busiest cable in it."
        )
    others = [s for s in loads if s not in shown]
    if others:
        intro.append(f"Not drawn: {', '.join(others)}; the table has their busiest links.")
    return Section("links", "What the links carry", intro=[" ".join(intro)], figures=figures)


def _heated(
    material: Material, layout: Layout, loads: Mapping[str, Sequence[object]]
) -> list[str]:
    """The baseline, the best, the best that copies at hosts, and the next that differ."""
    order = [s for s in ranked(material.study, material.rows) if s in loads]
    wanted = [material.study.baseline, *order[:1], OURS]
    wanted += [s for s in order if s not in FAN_SCHEMES][:1] + order
    shown: list[str] = []
    seen: list[dict[tuple[int, int], int]] = []
    for scheme in dict.fromkeys(s for s in wanted if s in loads):
        carried = busiest(layout, material.kept[scheme].loads)
        if len(shown) < MOST_HEATS and carried and carried not in seen:
            shown.append(scheme)
            seen.append(carried)
    return shown


def _replay(material: Material) -> Section:
    return Section("replay", "One packet, hop by hop", replay=material.replay)


def _ground(material: Material) -> Section:
    study = material.study
    code = [Code("The same again", study.command)]
    if material.scenario:
        code.append(Code("scenario.toml", material.scenario.rstrip("\n")))
    grids = [Table(meanings(study)), Table(_runs(material))]
    if study.defaults:
        grids.insert(0, Table(defaults_table(study)))
    return Section("ground", "What this rests on", grids=grids, code=code)


def _runs(material: Material) -> Grid:
    lines = tuple(
        (
            Cell(row.scheme),
            Cell(row.fidelity or "computed"),
            Cell(_bits(material.kept.get(row.scheme))),
            Cell(row.run_id or "none kept"),
        )
        for row in material.rows
        if not row.refusal
    )
    head = (("scheme", ""), ("fidelity", ""), ("BitString", "of its fans"), ("run", ""))
    return Grid("Runs", head, lines, is_words=True)


def _bits(kept: Kept | None) -> str:
    return f"{kept.bitstring_bits:,} bits" if kept and kept.bitstring_bits else "-"
