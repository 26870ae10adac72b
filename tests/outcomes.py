"""What becomes of one scheme in one scenario, by packets."""

from typing import Any

from fanfold.results.outcome import Outcome
from fanfold.run import build_job, build_stage, simulate_job
from fanfold.scenario.scenario import read_scenario


def outcome_of(
    topology: str, name: str, kind: str, n_bytes: int, seed: int = 1, **settings: Any
) -> Outcome:
    """A collective of so many bytes by one scheme; settings as a scenario has them."""
    scenario = read_scenario(
        {
            "topology": topology,
            "seed": seed,
            "schemes": [name],
            "fidelity": "packet",
            "workload": {"kind": kind, "n_bytes": n_bytes},
            "settings": settings,
        }
    )
    stage = build_stage(scenario)
    return simulate_job(scenario, stage, build_job(scenario, name, stage))
