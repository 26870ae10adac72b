"""Words of the gap table: limits, the worst number, what is said where the draft differs."""

import msgspec
import pytest

from fanfold.errors import ConfigError
from fanfold.kernels.jit import JIT
from fanfold.scenario.scenario import load_scenario
from fanfold.study import gap_examples
from fanfold.study.amount import amount
from fanfold.study.gap import REQUIREMENTS, build_gap, measure_gap
from fanfold.study.gap_basis import PUSH
from fanfold.study.gap_ground import ROWS, build_ground
from fanfold.study.gap_page import difference_line
from fanfold.study.gap_table import NEVER_HERE, Gap, Limit, Number, cell_of, differences
from fanfold.study.gap_words import DRAFT_WORDS, why_of
from fanfold.study.metric_catalog import CATALOG, metric_of
from fanfold.study.thresholds import build_limits, numbers_of, word_of, worst_word

LIMITS = build_limits(400_000_000_000)
EXAMPLES = (gap_examples.THOUSAND, gap_examples.IMPLOSION, gap_examples.REGIONS)
BY_NAME = {limit.metric: limit for limit in LIMITS}
SMALL = "leaf-spine:leaves=4,spines=2,hosts=16,rate=400Gbps,delay=500ns"


@pytest.mark.parametrize(
    ("value", "word"),
    [(0, "Good"), (10, "Good"), (11, "Moderate"), (20, "Moderate"), (21, "Poor")],
)
def test_less_is_better(value, word):
    assert word_of(Limit("feedback_ps", 10, 20, ""), value) == word


@pytest.mark.parametrize(
    ("value", "word"),
    [(100, "Good"), (90, "Good"), (89, "Moderate"), (50, "Moderate"), (49, "Poor")],
)
def test_more_is_better_for_goodput(value, word):
    assert word_of(Limit("goodput_ppm", 90, 50, ""), value) == word


@pytest.mark.parametrize("metric", ["feedback_ps", "goodput_ppm"])
def test_never_is_poor(metric):
    assert word_of(BY_NAME[metric], NEVER_HERE) == "Poor"


def test_the_worst_number_makes_the_word():
    values = {"feedback_per_kpkt": 5, "feedback_ps": 10**9 + 1, "feedback_pkts": 7}
    numbers = numbers_of(LIMITS, "interactivity", values)
    assert [n.metric for n in numbers] == ["feedback_per_kpkt", "feedback_ps", "feedback_pkts"]
    assert [n.word for n in numbers] == ["Good", "Poor", ""]
    assert worst_word(numbers) == "Poor"
    assert worst_word(numbers[:1]) == "Good"
    assert worst_word(numbers[2:]) == ""


def test_numbers_of_other_requirements_are_left_out():
    assert numbers_of(LIMITS, "dynamics", {"feedback_ps": 1, "state_kinds": 1}) == ()


def test_every_requirement_has_limits_and_each_limit_a_metric_with_a_better_side():
    assert {metric_of(limit.metric).requirement for limit in LIMITS} == {*REQUIREMENTS}
    assert len(BY_NAME) == len(LIMITS)
    for limit in LIMITS:
        metric = metric_of(limit.metric)
        assert metric.better in ("less", "more")
        assert (limit.good < limit.moderate) == (metric.better == "less")
        assert limit.why


def test_limits_of_dynamics_follow_the_rate_and_no_others():
    slow = {limit.metric: limit for limit in build_limits(100_000_000_000)}
    changed = {name for name, limit in BY_NAME.items() if slow[name] != limit}
    assert changed == {"join_ps", "leave_ps", "change_gap_ps"}
    assert BY_NAME["join_ps"].good == 147_840  # 7,392 octets at 400 Gbit/s


def test_limits_of_feedback_follow_long_round_trips():
    far = {limit.metric: limit for limit in build_limits(400_000_000_000, 10**11)}
    assert (far["feedback_ps"].good, far["feedback_ps"].moderate) == (2 * 10**11, 2 * 10**12)
    near = {limit.metric: limit for limit in build_limits(400_000_000_000, 10**6)}
    assert near == BY_NAME


def test_metrics_have_names_of_their_own_and_values_a_unit_in_the_name():
    names = [metric.name for metric in CATALOG]
    assert len(set(names)) == len(names)
    for metric in CATALOG:
        ends = {"ps": "_ps", "bytes": "_bytes", "ppm": "_ppm", "bit/s": "_bps"}
        end = ends.get(metric.unit)
        assert end is None or metric.name.endswith(end), metric


def test_amounts_are_said_in_the_unit_of_the_metric():
    assert amount("join_ps", 1_200_000_000) == "1.2 ms"
    assert amount("goodput_ppm", 402_950) == "40.29 %"
    assert amount("goodput_ppm", 1_000_000) == "100 %"
    assert amount("feedback_per_kpkt", 255_000) == "255,000"
    assert amount("recover_ps", NEVER_HERE) == "never"


def why(numbers, word, draft_word, requirement="reliability"):
    return why_of(requirement, LIMITS, numbers, word, draft_word)


def test_a_reason_names_the_worst_numbers_and_the_limits_they_pass():
    slow = Number("recover_ps", 201_500_000_000, "Poor")
    late = Number("recover_ps", 10_000_000_000, "Moderate")
    assert why((slow, late), "Poor", "Poor") == "recover_ps 201.5 ms, above 50 ms"
    assert why((late,), "Moderate", "") == "recover_ps 10 ms, above 1 ms"
    assert why((Number("goodput_ppm", 2_950, "Poor"),), "Poor", "").endswith("below 50 %")
    assert why((Number("recover_ps", NEVER_HERE, "Poor"),), "Poor", "") == (
        "recover_ps never comes"
    )


def test_a_difference_from_the_draft_is_explained():
    said = why((Number("recover_ps", 0, "Good"),), "Good", "Moderate")
    assert said.startswith("every number is within its limit")
    assert "The draft says Moderate: it goes by fast reroute" in said
    assert "draft" not in why((Number("recover_ps", 0, "Good"),), "Good", "Good")


def test_the_draft_has_a_word_for_each_requirement_of_its_four_rows():
    assert set(DRAFT_WORDS) == {"pim-sm", "mldp", "sr-p2mp", "bier"}
    assert set(DRAFT_WORDS) < {row.name for row in ROWS if not row.variant_of}
    initials = {name: "".join(word[0] for word in words) for name, words in DRAFT_WORDS.items()}
    assert initials == {"pim-sm": "PPPGP", "mldp": "PPPGP", "sr-p2mp": "PMMGM", "bier": "PMGPG"}


def some_rows(*names):
    return [row for row in ROWS if row.name in names]


def test_a_small_gap_has_a_cell_for_each_row_and_survives_json():
    rows = some_rows("unicast", "pim-sm", "pim-sm+plain", "fanfold")
    ground = build_ground(
        SMALL, n_members=3, message_bytes=16 * 4096, far_topology="fat-tree:k=4"
    )
    gap = measure_gap(ground, rows, n_seeds=2)
    assert len(gap.cells) == len(REQUIREMENTS) * len(rows)
    assert [cell.requirement for cell in gap.cells[:4]] == ["interactivity"] * 4
    assert [cell.scheme for cell in gap.cells[:4]] == [row.name for row in rows]
    assert gap.schemes == ("unicast", "pim-sm", "fanfold")
    assert [variant[:2] for variant in gap.variants] == [("pim-sm+plain", "pim-sm")]
    assert (gap.n_hosts, gap.n_receivers, gap.n_members) == (16, 15, 3)
    assert cell_of(gap, "dynamics", "fanfold").word == "Good"
    heard = {
        c.scheme: c.numbers[0].value for c in gap.cells if c.requirement == "interactivity"
    }
    assert (heard["unicast"], heard["pim-sm+plain"], heard["fanfold"]) == (1000, 15_000, 62)
    assert heard["pim-sm"] == 1000 * 15 // 16  # one word each, at the end
    for cell in gap.cells:
        assert any(number.word == cell.word for number in cell.numbers)
        assert cell.why
        assert all(metric_of(n.metric).requirement == cell.requirement for n in cell.numbers)
    assert msgspec.json.decode(msgspec.json.encode(gap), type=Gap) == gap
    assert measure_gap(ground, rows[:1], n_seeds=2).cells == tuple(
        cell for cell in gap.cells if cell.scheme == "unicast"
    )


@pytest.mark.skipif(not JIT, reason="65,536 hosts are for compiled code")
def test_words_are_those_of_the_page_and_differ_from_the_draft_where_it_says_so(request):
    """What the command runs, with fewer seeds: docs/gap.md is what it gave with all of them."""
    rows = some_rows(*DRAFT_WORDS, "fanfold")
    gap = measure_gap(build_ground(), rows, n_seeds=3)
    page = (request.config.rootpath / "docs" / "gap.md").read_text()
    for name in (*DRAFT_WORDS, "fanfold"):
        words = [cell_of(gap, requirement, name).word for requirement in REQUIREMENTS]
        assert f"| {name} | {' | '.join(words)} |" in page
    assert differences(gap)
    for cell in differences(gap):
        assert difference_line(cell).split(" | why")[0] in page


def test_goodput_of_ten_seeds_is_a_median_with_its_spread():
    gap = measure_gap(
        build_ground(SMALL, n_members=3, message_bytes=64 * 4096, far_topology="fat-tree:k=4"),
        some_rows("fanfold"),
        n_seeds=10,
    )
    held = {n.metric: n.value for n in cell_of(gap, "reliability", "fanfold").numbers}
    least, middle, most = (held[f"goodput{end}_ppm"] for end in ("_least", "", "_most"))
    assert 0 < least <= middle <= most <= 10**6
    assert gap.n_seeds == 10


def test_what_no_run_gave_says_why():
    gap = measure_gap(
        build_ground(SMALL, n_members=3, message_bytes=16 * 4096, far_topology="fat-tree:k=4"),
        some_rows("unicast", "pim-sm", "bier", "fanfold"),
        n_seeds=1,
    )
    by = {(c.scheme, n.metric): (n.value, n.by) for c in gap.cells for n in c.numbers}
    for (scheme, metric), (value, reason) in by.items():
        if value == 0 and metric in ("setup_ps", "join_ps", "leave_ps", "control_msgs"):
            assert reason.startswith("by definition"), (scheme, metric)
    assert by["fanfold", "control_msgs"] == (2 * 3 + 1, PUSH)
    assert by["fanfold", "message_kinds"][0] == 4  # ASK, REPORT, CLOSE, FEEDBACK
    assert by["bier", "state_entries"][0] == 6 * 16  # a BIFT entry a host in 6 routers
    assert by["fanfold", "state_entries"][0] > by["bier", "state_entries"][0]
    assert by["pim-sm", "detect_ps"][1].startswith("given: --detect")
    assert by["fanfold", "detect_ps"][1] == by["fanfold", "recover_ps"][1] == ""
    assert by["fanfold", "recover_ps"][0] == NEVER_HERE  # it leads nothing round a dead link


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"n_receivers": 16}, "receivers"),
        ({"n_receivers": -1}, "receivers"),
        ({"n_members": 0}, "members"),
        ({"n_members": 15}, "members"),
    ],
)
def test_groups_that_do_not_fit_are_refused(changes, field):
    with pytest.raises(ConfigError) as caught:
        build_gap(SMALL, **changes)
    assert caught.value.field == field


@pytest.mark.parametrize("scenario", EXAMPLES, ids=lambda s: s.name)
def test_examples_are_the_files_of_the_same_name(scenario, request):
    folder = request.config.rootpath / "examples"
    assert load_scenario(folder / f"{scenario.name}.toml") == scenario


def test_four_regions_take_a_quarter_of_the_egress():
    told = gap_examples.regions()
    assert dict(told.lines[0].values) == {"unicast": 2 * 10**12, "fanfold": 500 * 10**9}


@pytest.mark.skipif(not JIT, reason="1,024 hosts are for compiled code")
def test_a_thousand_acknowledgements_become_one_word():
    told = gap_examples.implosion()
    assert dict(told.lines[0].values) == {"bier": 64, "fanfold": 64}
    assert dict(told.lines[1].values) == {"bier": 64_000, "fanfold": 1}


@pytest.mark.skipif(not JIT, reason="1,024 hosts are for compiled code")
def test_a_source_link_saves_a_thousand_times_and_the_fabric_less():
    told = gap_examples.thousand()
    rates, pkts, _, fabric, _ = (dict(line.values) for line in told.lines)
    assert rates == {"unicast": 400 * 10**12, "fanfold": 400 * 10**9}
    assert pkts["unicast"] == 1000 * pkts["fanfold"]
    assert 4 * fabric["fanfold"] < fabric["unicast"] < 6 * fabric["fanfold"]
