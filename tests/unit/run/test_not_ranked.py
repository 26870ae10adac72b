"""A run that leaves out what was asked for stands beside the others, and below them."""

from pathlib import Path

from fanfold.report.comparison import comparison_of
from fanfold.results import query
from fanfold.results.store import Store
from fanfold.run import run_scenario
from fanfold.scenario.fidelity import left_out
from fanfold.scenario.scenario import Scenario, Workload
from fanfold.scenario.settings import Failure, Settings
from fanfold.study.result import Row, Study
from fanfold.study.verdict import sentences

LOSS = "no packets, so no loss in it"


def test_sharp_has_no_loss_and_is_not_first_beside_schemes_that_have(tmp_path: Path) -> None:
    scenario = Scenario(
        topology="fat-tree:k=4",
        schemes=("sharp", "ring"),
        workload=Workload("all_reduce", 1 << 20),
        settings=Settings(loss_ppb=10_000_000),
    )
    store = Store(tmp_path)
    places = [store.place(run.run_id) for run in run_scenario(scenario, store)]
    ring, sharp = query.comparison(places)
    assert (ring["scheme"], ring["left_out"]) == ("ring", "")
    assert (sharp["scheme"], sharp["left_out"]) == ("sharp", LOSS)
    assert sharp["last_ps"] < ring["last_ps"]
    ratios = {row["scheme"]: row["of_fastest_ppb"] for row in query.ratios(places)}
    assert ratios == {"ring": 10**9, "sharp": None}
    told = comparison_of(store, ring["run_id"])
    assert told.verdict[0].startswith("Choose ring ")
    assert f"Not ranked: sharp: {LOSS}." in told.verdict


def test_what_a_rung_without_packets_has_not() -> None:
    failures = (Failure(0, "a", "b"),)
    asked = Settings(loss_ppb=1, queue_bytes=1 << 20, pfc_pkts=(2, 1), failures=failures)
    assert left_out("packet", asked) == ""
    lacks = "no packets, so no loss, no full queues, no pauses, no failures in it"
    assert left_out("flow", asked) == lacks
    assert left_out("flow", Settings()) == ""


def study_of(*rows: Row) -> Study:
    return Study(
        "model-push", "", "", 1, "", "", "", 8, (), ("time_all_ps",), "unicast", rows, (), ()
    )


def test_a_verdict_chooses_among_those_that_are_ranked() -> None:
    quick = Row("sharp", {}, "flow", values={"time_all_ps": 1}, unranked=LOSS)
    slow = Row("ring", {}, "packet", values={"time_all_ps": 9})
    assert sentences(study_of(quick, slow))[0].startswith("choose ring: ")
    assert sentences(study_of(quick)) == (f"no choice: {LOSS}.",)


def test_fans_and_sums_say_that_they_use_one_plane(tmp_path: Path) -> None:
    scenario = Scenario(
        topology="superpod:gpus=8,planes=4",
        schemes=("fanfold", "mldp", "chain"),
        workload=Workload("broadcast", 1 << 18),
    )
    store = Store(tmp_path)
    rows = query.comparison([store.place(run.run_id) for run in run_scenario(scenario, store)])
    told = {row["scheme"]: row["planes"] for row in rows}
    one = "fans and sums use one plane of 4"
    assert told == {"fanfold": one, "mldp": one, "chain": ""}
    flat = Scenario(
        topology="star:hosts=8", schemes=("fanfold",), workload=Workload("broadcast", 1 << 18)
    )
    (row,) = query.comparison([store.place(r.run_id) for r in run_scenario(flat, store)])
    assert row["planes"] == ""
