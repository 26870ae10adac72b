"""Parts of a report by themselves: where nodes stand, heat, replay, axes, words."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import fanfold
from fanfold.report import charts
from fanfold.report.amounts import format_times, format_value, label_of
from fanfold.report.charts import Along
from fanfold.report.comparison import command_of
from fanfold.report.figure import Spec, spec_of, svg_of
from fanfold.report.headers import PAYLOAD_BYTES, headers_of
from fanfold.report.heat import Load, busiest, scale_of
from fanfold.report.layout import MOST_GROUPS, MOST_SPOTS, place_nodes
from fanfold.report.points import format_key, format_point
from fanfold.report.ranking import best_first
from fanfold.report.replay import MOST_FRAMES, replay_of
from fanfold.report.replay_svg import drawing, standalone
from fanfold.report.theme import MARKS, PAPER, colours, in_light, mark_of, var
from fanfold.report.verdicts import split_verdict
from fanfold.results.store import Store
from fanfold.run import run_scenario, trace_run
from fanfold.scenario.scenario import Scenario, Workload
from fanfold.scenario.settings import Settings
from fanfold.schemes.catalog import CATALOG as SCHEMES
from fanfold.study.metric_catalog import CATALOG
from fanfold.study.result import Row, Study
from fanfold.topo.nets import build_named_net
from fanfold.trees.settings import TreeSettings

HOUR_PS = 3600 * 10**12
NETS = (
    "star:hosts=4",
    "leaf-spine:leaves=2,spines=2,hosts=8",
    "fat-tree:k=4",
    "rail:servers=2,gpus=2,spines=1,unit=2",
    "torus:dims=3x3",
    "wan:sites=3,hosts=4,leaves=2",
    "fat-tree:k=8",
    "fat-tree:k=16",
)


@pytest.mark.parametrize("name", NETS)
def test_every_node_has_a_spot_and_every_cable_a_line(name: str) -> None:
    net = build_named_net(name, 1)
    layout = place_nodes(net)
    assert layout.spot_of.shape == (net.n_nodes,)
    assert sum(spot.n_nodes for spot in layout.spots) == net.n_nodes
    assert layout.is_grouped == (len(layout.spots) < net.n_nodes)
    assert layout.is_grouped == (net.n_nodes > MOST_SPOTS)
    tiers = Counter(spot.tier for spot in layout.spots)
    if layout.is_grouped:
        assert tiers == {0: 16, 1: 16, 2: 16, 3: MOST_GROUPS}
    places = [(spot.x, spot.y) for spot in layout.spots]
    assert all(0 <= x <= 1 and 0 <= y <= 1 for x, y in places)
    assert len(set(places)) == len(places)
    for node in range(net.n_nodes):
        assert layout.spots[layout.spot_of[node]].tier == net.tier[node]
    pairs = {
        tuple(sorted((int(layout.spot_of[a]), int(layout.spot_of[b]))))
        for a, b in zip(net.src, net.dst, strict=True)
    }
    assert set(layout.lines) == {pair for pair in pairs if pair[0] != pair[1]}


def test_tiers_are_rows_and_a_mesh_of_one_tier_is_a_circle() -> None:
    tree = place_nodes(build_named_net("fat-tree:k=4", 1))
    assert not tree.is_round
    rows = {spot.tier: spot.y for spot in tree.spots}
    assert sorted(rows, key=lambda tier: -rows[tier]) == [0, 1, 2, 3]
    assert len({(spot.tier, spot.y) for spot in tree.spots}) == 4
    torus = place_nodes(build_named_net("torus:dims=3x3", 1))
    assert torus.is_round
    far = [(s.x - 0.5) ** 2 + (s.y - 0.5) ** 2 for s in torus.spots if s.tier == 1]
    assert max(far) - min(far) < 0.001


def test_heat_is_that_of_the_busier_direction() -> None:
    net = build_named_net("star:hosts=4", 1)
    layout = place_nodes(net)
    loads = [Load(0, 4, 100), Load(4, 0, 300), Load(4, 1, 7)]
    assert busiest(layout, loads) == {(0, 4): 300, (1, 4): 7}


def test_steps_of_heat_rise_and_hold_every_amount() -> None:
    amounts = [70, 900, 12_345, 1_000_000, 999_999_999]
    scale = scale_of([[Load(0, 1, n)] for n in amounts])
    assert scale.edges[0] == 70
    assert scale.edges[-1] == 999_999_999
    assert list(scale.edges) == sorted(set(scale.edges))
    steps = [scale.step(n) for n in amounts]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (0, len(scale.names()) - 1)
    for n, step in zip(amounts, steps, strict=True):
        assert scale.edges[step] <= n <= scale.edges[step + 1]


@pytest.mark.parametrize("name", ["leaf-spine:leaves=2,spines=2,hosts=8", "torus:dims=3x3"])
def test_a_replay_has_every_copy_and_every_word(name: str, tmp_path: Path) -> None:
    net, store = build_named_net(name, 1), Store(tmp_path)
    asked = Scenario(name, schemes=("fanfold",), workload=Workload("broadcast", 4096))
    (run,) = run_scenario(asked, store)
    story = trace_run(store, run.run_id, 0, 0)
    replay = replay_of(net, place_nodes(net), story, "")
    assert 0 < len(replay.frames) <= MOST_FRAMES
    moved = Counter({"down": 0, "up": 0})
    for frame in replay.frames:
        moved[frame.way] += sum(move.n_pkts for move in frame.moves)
    copies = [step for step in story.steps if step.what == "fan data"]
    assert moved == {"down": len(copies), "up": len(story.steps) - len(copies)}
    reached = {spot for frame in replay.frames for spot in frame.reached}
    assert reached == set(range(1, net.n_hosts))
    assert f"{net.n_hosts - 1} hosts have it" in replay.frames[-1].tally
    branches = len({step.node for step in copies if step.src == 0})
    assert replay.frames[-1].tally.endswith(f"{branches} at the source")
    assert drawing(replay).count("data-spot") == net.n_nodes
    whole = standalone(replay)
    assert whole.count('class="r-down"') == len({(s.src, s.node) for s in copies})
    assert whole.count('class="r-up"') > 0


def test_many_frames_are_joined_and_none_is_lost(tmp_path: Path) -> None:
    net, store = build_named_net("star:hosts=4", 1), Store(tmp_path)
    settings = Settings(loss_ppb=200_000_000, rto_ps=5_000_000)
    work = Workload("broadcast", 4096)
    asked = Scenario("star:hosts=4", schemes=("bier",), workload=work, settings=settings)
    (run,) = run_scenario(asked, store)
    story = trace_run(store, run.run_id, 0, 0)
    last = story.steps[-1].at_ps
    steps = [
        step._replace(at_ps=step.at_ps + i * last)
        for i in range(MOST_FRAMES)
        for step in story.steps
    ]
    replay = replay_of(net, place_nodes(net), story._replace(steps=steps), "")
    assert len(replay.frames) < len({(step.at_ps, step.what) for step in steps})
    assert sum(m.n_pkts for f in replay.frames for m in f.moves) == len(steps)


def test_every_scheme_looks_like_no_other() -> None:
    names = tuple(scheme.name for scheme in SCHEMES)
    looks = [(mark_of(n, names).light, mark_of(n, names).shape) for n in names]
    assert len(set(looks)) == len(names)
    assert mark_of("else", ("else", *names)).shape != mark_of("other", ("else", "other")).shape


def test_every_colour_of_a_file_is_light() -> None:
    names = ("fanfold", "else")
    text = " ".join(var(name) for name in colours(names))
    assert "var(" not in in_light(text, names)
    assert in_light(var("s-fanfold"), names) == MARKS["fanfold"].light


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("side", [0, 1], ids=["light", "dark"])
def test_text_and_marks_stand_out_from_the_page(side: int) -> None:
    """Contrast of 4.5 for text and of 3 for marks, as WCAG 2 asks for."""
    page = PAPER["paper"][side]
    for name in ("ink", "soft", "accent", "good"):
        assert contrast(PAPER[name][side], page) >= 4.5, name
        assert contrast(PAPER[name][side], PAPER["panel"][side]) >= 4.5, name
    for name in ("good", "moderate", "poor"):
        assert contrast(PAPER[name][side], PAPER[f"{name}-back"][side]) >= 4.5, name
    for name, mark in MARKS.items():
        assert contrast(mark[side], page) >= 3, name


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("time_all_ps", 93_612_480, "93.612 us"),
        ("time_all_ps", 10_000 * 10**12, "2.78 h"),
        ("idle_gpu_ps", 5_000_000, "5 us of GPUs"),
        ("fabric_bytes", 968_884_224, "968.884 MB"),
        ("fabric_bytes", 999, "999 B"),
        ("utilisation_ppm", 123_456, "12.35 %"),
        ("egress_micro_usd", 1_500_000, "1.5 USD"),
        ("goodput_bps", 400_000_000_000, "400 Gbit/s"),
        ("feedback_pkts", 12_345, "12,345"),
        ("recover_ps", -1, "never"),
    ],
)
def test_amounts_have_their_unit(metric: str, value: int, text: str) -> None:
    assert format_value(metric, value) == text


@pytest.mark.parametrize(
    ("value", "base", "text"),
    [
        *((300, 2, "150 x"), (30, 2, "15 x"), (5, 2, "2.5 x"), (2, 2, "1 x")),
        *((2, 5, "1/2.5"), (1, 116, "1/116"), (0, 5, ""), (5, 0, "")),
    ],
)
def test_ratios_are_for_people(value: int, base: int, text: str) -> None:
    assert format_times(value, base) == text


def test_every_metric_has_a_heading_of_its_own() -> None:
    headings = Counter(label_of(metric.name) for metric in CATALOG)
    assert {name for name, n in headings.items() if n > 1} <= {"state off the paths"}
    assert not any("_" in name for name in headings)


def test_points_are_written_by_the_sort_of_their_key() -> None:
    assert format_key("share", 100_000) == "0.01 %"
    assert format_key("count", 65_536) == "65,536"
    assert format_key("size", 4_194_304) == "4 MiB"
    assert format_point("model-push", {"gpus": 8, "loss": 10_000_000}) == "gpus 8, loss 1 %"
    assert format_point("model-push", {"loss": "1%"}) == "loss 1%"


def test_the_best_is_first_and_of_equals_the_one_that_sends_least() -> None:
    rows = [
        Row("a", {}, values={"time_all_ps": 5, "utilisation_ppm": 1, "feedback_pkts": 9}),
        Row("b", {}, values={"time_all_ps": 5, "utilisation_ppm": 2, "feedback_pkts": 1}),
        Row("c", {}, values={"time_all_ps": 4, "utilisation_ppm": 3}),
        Row("d", {}, refusal="cannot"),
    ]
    assert [row.scheme for row in best_first(rows, "time_all_ps")] == ["c", "b", "a"]
    assert [row.scheme for row in best_first(rows, "utilisation_ppm")] == ["c", "b", "a"]
    assert best_first(rows, "") == []


def data_of(spec: Spec) -> list[dict[str, Any]]:
    (rows,) = spec["datasets"].values()
    return list(rows)


def test_a_distribution_that_never_ends_stays_below_all() -> None:
    spec = spec_of(charts.distributions({"a": [(-1, 1), (10, 1), (20, 2)]}), height=100)
    rows = data_of(spec)
    assert [row["share"] for row in rows] == [0, 25, 75]


def test_a_long_distribution_keeps_its_ends() -> None:
    ends = [(100 + i, 1) for i in range(5 * charts.MOST_STEPS)]
    spec = spec_of(charts.distributions({"a": ends}), height=100)
    rows = data_of(spec)
    assert len(rows) <= charts.MOST_STEPS + 3
    assert (rows[0]["share"], rows[-1]["share"], rows[-1]["at"]) == (0, 100, ends[-1][0])


def test_a_sweep_is_drawn_by_number_or_by_step() -> None:
    rows = [
        Row("a", {"gpus": gpus, "loss": loss}, values={"time_all_ps": 10})
        for gpus, loss in (("8", "0"), ("64", "1%"))
    ]
    x = x_of("gpus", "count", rows)
    assert (x["type"], x["scale"]["type"]) == ("quantitative", "log")
    x = x_of("loss", "share", rows)
    assert (x["type"], x["sort"]) == ("ordinal", ["0", "1%"])


def x_of(key: str, sort: str, rows: list[Row]) -> dict[str, Any]:
    spec = spec_of(charts.sweep("time_all_ps", Along(key, sort), rows, ["a"]), height=9)
    return dict(spec["layer"][0]["encoding"]["x"])


def test_headers_are_those_of_the_survey() -> None:
    net = build_named_net("leaf-spine:leaves=2,spines=2,hosts=8", 1)
    found, faults = headers_of(net, 1)
    assert faults == []
    assert [size.n_members for size in found.sizes] == [1, 4, 7]
    for size in found.sizes:
        able = [row for row in size.rows if not row.refusal]
        assert size.cheapest == min(able, key=lambda row: row.link_bytes).encoding
        assert {row.payload_bytes for row in able} == {PAYLOAD_BYTES}


def test_sentences_of_other_points_stand_apart() -> None:
    points = [{"gpus": "8"}, {"gpus": "80"}]
    study = Study(
        *("k", "t", "c", 1, "v", "m", "f", 8, ("gpus",), (), "unicast"),
        tuple(Row("a", dict(point)) for point in points),
        ("gpus 8: choose a.", "gpus 80: choose b.", "First: a."),
        (),
    )
    shown, others = split_verdict(study, {"gpus": "8"})
    assert shown == ["choose a.", "First: a."]
    assert others == ["gpus 80: choose b."]


def test_angles_of_a_star_differ() -> None:
    layout = place_nodes(build_named_net("wan:sites=3,hosts=4,leaves=2", 1))
    xs = np.array([(spot.x, spot.y) for spot in layout.spots])
    apart = np.abs(xs[:, None] - xs[None]).sum(axis=2) + np.eye(len(xs))
    assert apart.min() > 0.005


def test_what_flags_cannot_say_is_made_again_by_the_file() -> None:
    usual = Scenario("star:hosts=4", workload=Workload("broadcast", 4096))
    by_flags = "fanfold compare --topology star:hosts=4 --workload broadcast:4096B"
    assert command_of(usual, ["pim-sm"]) == f"{by_flags} --schemes pim-sm --seed 1"
    for other in (
        {"settings": Settings(feedback="packet")},
        {"trees": TreeSettings(detect_ps=1)},
    ):
        scenario = msgspec.structs.replace(usual, **other)
        assert command_of(scenario, ["pim-sm"]) == "fanfold compare scenario.toml"


def labels_of(chart: charts.Chart, height: int = 200) -> list[str]:
    """Texts of a chart as it is drawn."""
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg_of(spec_of(chart, height=height), ()))


def test_parts_of_one_are_decimals_on_an_axis() -> None:
    rows = [{"name": "a", "x": 1 << i, "y": 0.3 + 0.2 * i} for i in range(4)]
    texts = labels_of(charts.curves(rows, "receivers", "times", ["a"]))
    assert {"0.2", "0.4", "0.6"} <= set(texts)
    assert not [text for text in texts if re.fullmatch(r"[\d.]+m", text)]
    money = labels_of(charts.dots("egress_micro_usd", {"a": 900_000, "b": 450_000}, "a"))
    assert "0.4 USD" in money


@pytest.mark.parametrize(
    ("values", "due", "never"),
    [
        ({"a": 9 * HOUR_PS, "b": 4 * HOUR_PS}, {"0s", "2 h", "10 h"}, "ks"),
        ({"a": 900 * HOUR_PS, "b": HOUR_PS}, {"1 h", "10 h", "100 h"}, "ks"),
        ({"a": 20 * HOUR_PS // 60, "b": 10 * HOUR_PS // 60}, {"5 min", "20 min"}, "ks"),
        ({"a": 90 * 10**12, "b": 40 * 10**12}, {"20s", "100s"}, "min"),
    ],
)
def test_long_times_are_hours_and_minutes(
    values: dict[str, int], due: set[str], never: str
) -> None:
    texts = labels_of(charts.dots("time_all_ps", values, "a"))
    assert due <= set(texts)
    assert not [text for text in texts if text.endswith(never)]


def test_what_is_mostly_set_up_is_two_parts() -> None:
    values = {"unicast": 10**9, "pim-sm": 5 * 10**10}
    setups = {"unicast": 0, "pim-sm": 49 * 10**9}
    told = spec_of(charts.dots("time_all_ps", values, "unicast", setups), height=100)
    rules = [layer for layer in told["layer"] if layer["mark"]["type"] == "rule"]
    ends = [
        (row["from"], row["value"])
        for rule in rules
        for row in told["datasets"][rule["data"]["name"]]
    ]
    assert ends[0][1] == ends[1][0] == 49 * 10**9
    assert ends[1][1] == 5 * 10**10
    drawn = labels_of(charts.dots("time_all_ps", values, "unicast", setups))
    assert "50 ms, 50 x unicast; 98 % of it set-up" in drawn
    plain = spec_of(charts.dots("time_all_ps", values, "unicast"), height=100)
    assert not [layer for layer in plain["layer"] if layer["mark"]["type"] == "rule"]


def test_every_metric_is_computed_somewhere() -> None:
    """A name in the catalog that no other source speaks of is a promise that nothing keeps."""
    root = Path(fanfold.__file__).parent
    files = [*root.glob("study/*.py"), *root.glob("report/*.py")]
    text = "\n".join(
        file.read_text()
        for file in files
        if file.name not in ("metric_catalog.py", "amounts.py")
    )
    words = set(re.findall(r"\w+", text))
    unknown = {metric.name.removeprefix("far_") for metric in CATALOG} - words
    known = {name for name in unknown if f"extra_{name}" in words}
    assert unknown == known
