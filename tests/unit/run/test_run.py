"""Scenarios through the simulator: what runs, what is kept, what is refused, what is found."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import fanfold
from fanfold import run as run_module
from fanfold.errors import ConfigError
from fanfold.kernels.jit import JIT
from fanfold.results import query
from fanfold.results.outcome import Outcome
from fanfold.results.schema import TABLES
from fanfold.results.store import DIGESTS, SCENARIO, Store
from fanfold.run import Run, code_version, run_scenario, trace_run
from fanfold.scenario import fidelity
from fanfold.scenario.scenario import Scenario, Workload, load_scenario
from fanfold.scenario.settings import Settings
from fanfold.schemes.catalog import CATALOG
from fanfold.sim import simulate

EXAMPLES = Path(__file__).parents[3] / "examples"
SMALL = Scenario(
    "leaf-spine:leaves=2,spines=2,hosts=8",
    schemes=("unicast", "fanfold"),
    workload=Workload("broadcast", 40_000),
    settings=Settings(loss_ppb=20_000_000),
)


def files_of(store: Store) -> dict[str, bytes]:
    return {
        path.relative_to(store.folder).as_posix(): path.read_bytes()
        for path in sorted(store.folder.rglob("*"))
        if path.is_file()
    }


def rows_of(runs: list[Run], store: Store) -> list[query.Row]:
    return query.comparison([store.place(run.run_id) for run in runs])


def test_the_same_scenario_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    kept = []
    for name in ("a", "b"):
        store = Store(tmp_path / name)
        run_scenario(SMALL, store)
        kept.append(files_of(store))
    assert kept[0] == kept[1]
    names = {SCENARIO, DIGESTS, *(f"{table.name}.parquet" for table in TABLES)}
    assert {Path(file).name for file in kept[0]} == names
    assert len(kept[0]) == 2 * len(names)


def test_another_seed_gives_another_result(tmp_path: Path) -> None:
    store = Store(tmp_path)
    ends = {
        tuple(
            row["end_ps"] for row in rows_of(run_scenario(replace(SMALL, seed=s), store), store)
        )
        for s in (1, 2, 3)
    }
    assert len(ends) == 3


def test_a_kept_run_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    first = run_scenario(SMALL, store)
    assert all(run.wall_ps > 0 and run.n_hops > 0 for run in first)

    def refuse(*_: Any, **__: Any) -> Outcome:
        raise AssertionError("made again")

    monkeypatch.setattr(run_module, "simulate_job", refuse)
    again = run_scenario(SMALL, store)
    assert [run.run_id for run in again] == [run.run_id for run in first]
    assert all(run.wall_ps == 0 for run in again)
    with pytest.raises(AssertionError, match="made again"):
        run_scenario(SMALL, store, use_cache=False)
    (store.place(first[0].run_id) / "links.parquet").write_bytes(b"")
    with pytest.raises(AssertionError, match="made again"):
        run_scenario(SMALL, store)


def test_a_kept_run_says_how_to_make_it_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "a")
    runs = run_scenario(SMALL, store)
    for run in runs:
        scenario = load_scenario(store.place(run.run_id) / SCENARIO)
        assert scenario.schemes == (run.scheme,)
        (again,) = run_scenario(scenario, Store(tmp_path / "b"))
        assert again.run_id == run.run_id
    assert files_of(store) == files_of(Store(tmp_path / "b"))


def test_all_takes_all_that_can_and_tells_why_others_cannot(tmp_path: Path) -> None:
    asked = replace(SMALL, schemes=("all",), settings=Settings())
    runs = run_scenario(asked, Store(tmp_path))
    assert [run.scheme for run in runs] == [scheme.name for scheme in CATALOG]
    can = {s.name for s in CATALOG if "broadcast" in s.kinds}
    assert {run.scheme for run in runs if not run.refusal} == can
    for run in runs:
        assert bool(run.refusal) == (run.run_id == "")
        assert not run.refusal or "workload.kind: takes" in run.refusal


def test_a_scheme_may_refuse_the_ranks_and_others_go_on(tmp_path: Path) -> None:
    three = replace(SMALL, workload=Workload("broadcast", 40_000, 3))
    runs = run_scenario(replace(three, schemes=("halving-doubling", "ring")), Store(tmp_path))
    assert "a power of two" in runs[0].refusal
    assert not runs[1].refusal


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schemes": ("fanfol",)}, "schemes: got 'fanfol'; did you mean fanfold?"),
        ({"schemes": ("xyz",)}, "schemes: got 'xyz', allowed: all, unicast"),
        ({"topology": "fat-tre:k=4"}, "topology: got 'fat-tre'; did you mean fat-tree?"),
        ({"workload": Workload("broadcast", 1, 9)}, "workload.ranks: got 9, allowed: 2..8"),
        (
            {"workload": Workload("all_gather", 9)},
            "workload.n_bytes: got 9, allowed: a multiple",
        ),
        (
            {"workload": Workload("all_to_all", 8), "schemes": ("ring",)},
            "workload.kind: got 'all",
        ),
        ({"fidelity": "train"}, "fidelity: got 'train', allowed: packet where"),
    ],
)
def test_bad_input_is_one_line(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        run_scenario(replace(SMALL, **changes), Store(tmp_path))
    assert str(caught.value).startswith(said)
    assert not list(tmp_path.iterdir())


def test_messages_that_wait_for_each_other_are_refused(tmp_path: Path) -> None:
    matrix = tmp_path / "round.cm"
    matrix.write_text(
        "Nodes 4\nConnections 2\nTriggers 2\n"
        "0->1 id 1 trigger 2 size 4096 send_done_trigger 1\n"
        "1->2 id 2 trigger 1 size 4096 send_done_trigger 2\n"
        "trigger id 1 oneshot\ntrigger id 2 oneshot\n"
    )
    scenario = Scenario("star:hosts=4", schemes=(), workload=None, matrix=str(matrix))
    with pytest.raises(ConfigError, match="message 0: got 'waits for itself or for nothing'"):
        run_scenario(scenario, Store(tmp_path / "runs"))


@pytest.mark.skipif(not JIT, reason="a million packets: for compiled code")
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda p: p.stem)
def test_examples_run_to_their_end(path: Path, tmp_path: Path) -> None:
    store = Store(tmp_path)
    rows = rows_of([r for r in run_scenario(load_scenario(path), store) if r.run_id], store)
    assert rows
    for row in rows:
        assert (row["n_stuck"], row["n_unfinished"]) == (0, 0)
        assert row["got_bytes"] == row["due_bytes"]
        assert row["n_hops"] == row["fabric_pkts"]


def test_fan_and_copies_cross_the_links_that_a_pencil_finds(tmp_path: Path) -> None:
    asked = replace(SMALL, settings=Settings())
    store = Store(tmp_path)
    fan, copies = rows_of(run_scenario(asked, store), store)
    assert (fan["scheme"], copies["scheme"]) == ("fanfold", "unicast")
    # 10 packets; 8 hosts on 2 leaves: h0 > leaf0, leaf0 > spine > leaf1, 7 down
    assert fan["data_hops"] == 10 * (1 + 2 + 7)
    assert copies["data_hops"] == 10 * (3 * 2 + 4 * 4)
    assert (fan["source_pkts"], copies["source_pkts"]) == (10, 70)
    assert (fan["feedback_pkts"], copies["feedback_pkts"]) == (1, 70)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(loss_ppb=1),
        Settings(transport="ndp"),
        Settings(transport="roce"),
        Settings(pfc_pkts=(2, 1)),
        Settings(queue_bytes=10**6),
        Settings(ecn_bytes=10**4, cut_through=True),
    ],
)
def test_choice_and_simulator_agree_on_where_trains_go(settings: Settings) -> None:
    asked = replace(SMALL, schemes=("unicast",), settings=settings, fidelity="packet")
    job = run_module.build_job(asked, "unicast", run_module.build_stage(asked))
    try:
        simulate.check(settings, 2, job.program)
        may = True
    except ConfigError:
        may = False
    assert fidelity.are_trains_exact(settings) == may


def test_work_that_is_estimated_is_the_work_that_is_done(tmp_path: Path) -> None:
    asked = replace(SMALL, schemes=("all",), settings=Settings())
    stage = run_module.build_stage(asked)
    store = Store(tmp_path)
    for row in rows_of([r for r in run_scenario(asked, store) if r.run_id], store):
        job = run_module.build_job(asked, row["scheme"], stage)
        assert row["n_hops"] <= job.choice.n_hops <= 2 * row["n_hops"], row["scheme"]


def test_fidelity_is_as_asked_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, store = replace(SMALL, schemes=("unicast",), settings=Settings()), Store(tmp_path)
    for name in ("packet", "train", "flow"):
        runs = run_scenario(replace(asked, fidelity=name), store)
        (row,) = rows_of(runs, store)
        assert (row["fidelity"], row["fidelity_why"]) == (name, "asked for")
        assert (runs[0].n_hops == 0) == (name == "flow")
    monkeypatch.setattr(fidelity, "MAX_RECORDS", 1)
    (row,) = rows_of(run_scenario(asked, store), store)
    assert row["fidelity"] == "flow"
    assert "over 1" in row["fidelity_why"]


def test_a_traced_packet_spends_its_time_where_it_says(tmp_path: Path) -> None:
    asked, store = replace(SMALL, settings=Settings(switch_ps=1000)), Store(tmp_path)
    for run in run_scenario(asked, store):
        story = trace_run(store, run.run_id[:8], 0, 9)
        assert story.is_same
        at: dict[tuple[str, int], int] = {}
        for step in story.steps:
            spent = step.serial_ps + step.prop_ps + step.switch_ps
            assert (step.prop_ps, step.switch_ps) == (10**6, 1000)
            assert step.serial_ps == step.n_bytes * 80
            assert step.wait_ps is not None
            assert step.wait_ps >= 0
            before = at.get((step.what, step.src))
            if before is not None:
                assert before + step.wait_ps + spent == step.at_ps
            at[step.what, step.node] = step.at_ps
        assert {step.what for step in story.steps} in (
            {"data", "ack"},
            {"fan data", "feedback"},
        )
        assert story.steps[-1].node == 0


@pytest.mark.parametrize("settings", [Settings(block_psns=4), Settings(cut_through=True)])
@pytest.mark.parametrize("fidelity_", ["packet", "train"])
def test_every_packet_can_be_traced(settings: Settings, fidelity_: str, tmp_path: Path) -> None:
    asked, store = replace(SMALL, settings=settings, fidelity=fidelity_), Store(tmp_path)
    for run in run_scenario(asked, store):
        for packet in range(10):
            steps = trace_run(store, run.run_id, 0, packet).steps
            assert len(steps) in (4, 8 + 2 + 10)


def test_a_packet_of_a_source_with_several_links_is_traced_over_all(tmp_path: Path) -> None:
    rail = "rail:servers=2,gpus=2,spines=1,unit=2"
    asked = replace(SMALL, topology=rail, schemes=("fanfold",), settings=Settings())
    store = Store(tmp_path)
    (run,) = run_scenario(asked, store)
    steps = trace_run(store, run.run_id, 0, 0).steps
    assert len({s.link for s in steps if s.src == 0}) == 2
    assert {s.node for s in steps if s.node < 4 and s.what == "fan data"} == {1, 2, 3}


@pytest.mark.parametrize(
    ("start", "item", "packet", "said"),
    [
        ("zzz", 0, 0, "RUN: got 'zzz'"),
        ("", 1, 0, "--item: got 1, allowed: 0..0"),
        ("", 0, 10, "--packet: got 10, allowed: 0..9, packets of item 0"),
        ("", -1, 0, "--item: got -1"),
    ],
)
def test_what_cannot_be_traced(
    start: str, item: int, packet: int, said: str, tmp_path: Path
) -> None:
    store = Store(tmp_path)
    (run,) = run_scenario(replace(SMALL, schemes=("fanfold",)), store)
    with pytest.raises(ConfigError) as caught:
        trace_run(store, start or run.run_id, item, packet)
    assert str(caught.value).startswith(said)


def test_a_run_without_packets_has_none_to_trace(tmp_path: Path) -> None:
    store = Store(tmp_path)
    asked = replace(SMALL, schemes=("fanfold",), fidelity="flow", settings=Settings())
    (run,) = run_scenario(asked, store)
    with pytest.raises(ConfigError, match="a run that moves packets"):
        trace_run(store, run.run_id, 0, 0)


def test_a_version_names_its_sources() -> None:
    number, _, digest = code_version().partition("+")
    assert number == fanfold.__version__
    assert len(digest) == 8
