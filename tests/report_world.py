"""Real runs on a small fabric, a comparison and a study of them, and a small gap table."""

from pathlib import Path

from msgspec.structs import replace

from fanfold.results import query
from fanfold.results.store import Store
from fanfold.run import run_scenario
from fanfold.scenario.scenario import Scenario, Workload
from fanfold.scenario.settings import Settings
from fanfold.study.gap_table import Cell, Gap, Limit, Number
from fanfold.study.keep import Shelf
from fanfold.study.result import Default, Row, Study, Value

FABRIC = "leaf-spine:leaves=2,spines=2,hosts=8"
SCHEMES = ("unicast", "ring", "bier", "fanfold")
BASE = Scenario(FABRIC, schemes=SCHEMES, workload=Workload("broadcast", 40_000))
LOSS_PPB = {"0": 0, "1%": 10_000_000}
GPUS = (4, 8)
HOSTILE = "a </script><b>title</b>"
METRICS = (
    *("time_all_ps", "straggler_ps", "utilisation_ppm", "source_bytes", "fabric_bytes"),
    *("feedback_pkts", "repair_bytes"),
)


def make_comparison(store: Store) -> dict[str, str]:
    """Run ids by scheme."""
    return {run.scheme: run.run_id for run in run_scenario(BASE, store)}


def make_study(store: Store) -> str:
    """ID of a study of two numbers of GPUs and two losses, every number from a kept run."""
    rows: list[Row] = []
    for gpus in GPUS:
        for loss, loss_ppb in LOSS_PPB.items():
            work = Workload("broadcast", 40_000, gpus)
            asked = replace(BASE, workload=work, settings=Settings(loss_ppb=loss_ppb))
            point: dict[str, Value] = {"gpus": str(gpus), "loss": loss}
            rows += _rows(asked, store, point)
    rows.append(Row("pim-sm", {"gpus": "8", "loss": "0"}, refusal="no tree to be had"))
    starts = [f"gpus {g}, loss {loss}: " for g in GPUS for loss in LOSS_PPB]
    study = Study(
        kind="model-push",
        title=HOSTILE,
        command="fanfold study model-push --gpus 8",
        seed=1,
        version="0.1.0+test",
        model="llama3-70b",
        topology=FABRIC,
        gpus=GPUS[0],
        keys=("gpus", "loss"),
        metrics=METRICS,
        baseline="unicast",
        rows=tuple(rows),
        verdict=(
            *(f"{start}choose fanfold" for start in starts),
            "First of all: fanfold at 4.",
        ),
        defaults=(Default("rate", "100Gbps", "of this fabric"),),
    )
    return Shelf(store.folder).put_study(study)


def _rows(asked: Scenario, store: Store, point: dict[str, Value]) -> list[Row]:
    runs = run_scenario(asked, store)
    found = {
        row["run_id"]: row for row in query.comparison([store.place(r.run_id) for r in runs])
    }
    rows = []
    for run in runs:
        told = found[run.run_id]
        values = {
            "time_all_ps": told["last_ps"],
            "straggler_ps": told["last_ps"] - told["p50_ps"],
            "utilisation_ppm": 10**12 // told["last_ps"],
            "source_bytes": told["source_bytes"],
            "fabric_bytes": told["fabric_bytes"],
            "feedback_pkts": told["feedback_pkts"],
            "repair_bytes": told["repair_bytes"],
        }
        note = "goes round" if run.scheme == "ring" else ""
        rows.append(
            Row(run.scheme, point, told["fidelity"], run.run_id, values=values, note=note)
        )
    return rows


def gap() -> Gap:
    """Two schemes, all requirements; one word differs from the draft's."""
    cells = []
    never, soon = Number("join_ps", -1, "Poor"), Number("join_ps", 7_000, "Good")
    for requirement in ("interactivity", "reliability", "dynamics", "sparseness", "simplicity"):
        cells += [
            Cell(requirement, "bier", "Poor", "Good", "as measured", (never,)),
            Cell(requirement, "fanfold", "Good", "", "", (soon,)),
        ]
    return Gap(
        command="fanfold gap --seed 1",
        seed=1,
        version="0.1.0",
        topology=FABRIC,
        n_hosts=8,
        n_receivers=7,
        n_members=2,
        n_seeds=1,
        loss_ppb=0,
        schemes=("bier", "fanfold"),
        variants=(),
        limits=(Limit("join_ps", 10_000, 20_000, "as an example"),),
        cells=tuple(cells),
        examples=(),
        defaults=(),
    )


def folder_bytes(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
