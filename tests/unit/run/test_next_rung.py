"""A scheme that packets have no room for keeps its row, and others keep theirs."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from fanfold.results import query
from fanfold.results.store import Store
from fanfold.run import run_scenario
from fanfold.scenario.scenario import Scenario, Workload
from fanfold.sim import fan_arrays

SCENARIO = Scenario(
    topology="star:hosts=8",
    schemes=("unicast", "bier"),
    workload=Workload("broadcast", 1 << 20),
)


def rows_by_scheme(store: Store, scenario: Scenario) -> dict[str, dict[str, Any]]:
    runs = run_scenario(scenario, store)
    rows = query.comparison([store.place(run.run_id) for run in runs if run.run_id])
    return {row["scheme"]: row for row in rows}


def test_without_room_a_scheme_falls_to_flow_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = rows_by_scheme(Store(tmp_path / "exact"), SCENARIO)
    monkeypatch.setattr(fan_arrays, "MAX_ROWS", 100)
    rows = rows_by_scheme(Store(tmp_path / "coarse"), SCENARIO)
    assert [rows[name]["fidelity"] for name in ("unicast", "bier")] == ["packet", "flow"]
    assert "no room for it as packet: " in rows["bier"]["fidelity_why"]
    assert rows["unicast"] == exact["unicast"]
    ends = exact["bier"]["last_ps"], rows["bier"]["last_ps"]
    assert ends[0] * 19 < ends[1] * 20 < ends[0] * 21


def test_asked_for_packets_it_is_a_row_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_arrays, "MAX_ROWS", 100)
    asked = msgspec.structs.replace(SCENARIO, fidelity="packet")
    unicast, bier = run_scenario(asked, Store(tmp_path))
    assert (unicast.refusal, bool(unicast.run_id)) == ("", True)
    assert (bier.run_id, "blocks at receivers" in bier.refusal) == ("", True)
