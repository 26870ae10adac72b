"""Gradients by schemes that add in the network and by those that do not; who gets slots."""

from pathlib import Path

import pytest

import fanfold
from fanfold.study.catalog import kind_of
from fanfold.study.result import Row, Study
from fanfold.study.sweep import schemes_of


def study(folder: Path, schemes: tuple[str, ...], **keys: str) -> Study:
    return fanfold.study(
        "allreduce",
        model="gpt-3b-32",
        gpus=16,
        topology="fat-tree:k=4",
        schemes=schemes,
        fidelity="flow",
        out=folder,
        jobs=1,
        sweep={key: [text] for key, text in keys.items()},
    )


def rows(made: Study) -> dict[str, Row]:
    return {row.scheme: row for row in made.rows}


def test_the_network_halves_what_hosts_send(tmp_path: Path) -> None:
    made = rows(study(tmp_path, ("ring", "sharp", "fanfold"), tp="1"))
    ring, sharp, ours = (made[name].values for name in ("ring", "sharp", "fanfold"))
    # 2 (n - 1) / n of the vector against once; headers of 64 bytes, and of 100; 816 values
    # and as many exponents are 4,080 bytes
    assert ring["source_bytes"] / sharp["source_bytes"] == pytest.approx(2 * 15 / 16, rel=0.02)
    assert ours["source_bytes"] / sharp["source_bytes"] == pytest.approx(
        (4180 / 3264) / ((4160 + 64) / 4096), rel=1e-4
    )
    assert ours["time_all_ps"] < ring["time_all_ps"]
    assert sharp["setup_ps"] > 0 == ours["setup_ps"]
    assert (ring["feedback_pkts"] > 0, ours["feedback_pkts"]) == (True, 0)


def test_slots_hold_a_group_back_and_the_row_says_how_many_it_got(tmp_path: Path) -> None:
    few = rows(study(tmp_path, ("fanfold",), tp="1", slots="16"))["fanfold"]
    many = rows(study(tmp_path, ("fanfold",), tp="1", slots="512"))["fanfold"]
    assert few.note == "slots of sums in each BFR: 16 for 1"
    assert many.note == "slots of sums in each BFR: 512 for 1"
    # 8 blocks in a round of 6 x (334,400 ps + 1 us), not one every 334,400 ps
    ratio = 6 * (334_400 + 1_000_000) / (8 * 334_400)
    assert few.values["time_all_ps"] / many.values["time_all_ps"] == pytest.approx(ratio, 1e-3)


def test_groups_that_compete_are_told_apart(tmp_path: Path) -> None:
    made = rows(study(tmp_path, ("fanfold",), tp="4", ecmp="1", slots="1000"))["fanfold"]
    # ways up begin at agg0 for hosts of edge0, at agg1 for those of edge1: two roots
    assert made.note == (
        "slots of sums in each BFR: 512 for the group of h0, 256 for the group of h1, "
        "512 for the group of h2, 256 for the group of h3"
    )
    none = rows(study(tmp_path, ("fanfold",), tp="4", ecmp="1", slots="512"))["fanfold"]
    assert none.refusal.endswith("sum 1, which no switch has slots left for")


def test_the_study_takes_schemes_that_do_nothing_but_sums() -> None:
    more = kind_of("allreduce").schemes
    assert {"parameter-server", "sharp"} <= set(schemes_of(["all"], more))
    assert "sharp" not in schemes_of(["all"], kind_of("model-push").schemes)
