"""Every number that a study can give: name, unit, which way is better, what it means.

``requirement`` is one of the five of draft seed 000, section 3 (empty: a cost). Thresholds that
make words of numbers stand in ``study/thresholds.py``.
"""

from typing import Literal, NamedTuple

Requirement = Literal[
    "", "interactivity", "reliability", "dynamics", "sparseness", "simplicity"
]
Better = Literal["less", "more", ""]


class Metric(NamedTuple):
    """One number. unit: empty for counts."""

    name: str
    unit: str
    better: Better
    requirement: Requirement
    meaning: str


CATALOG: tuple[Metric, ...] = (
    Metric("time_all_ps", "ps", "less", "", "until the last receiver has everything"),
    Metric("time_p50_ps", "ps", "less", "", "until half of the receivers have everything"),
    Metric("time_p99_ps", "ps", "less", "", "until 99 of 100 receivers have everything"),
    Metric("step_ps", "ps", "less", "", "one step: computing and waiting for the network"),
    Metric("utilisation_ppm", "ppm", "more", "", "share of the step in which a GPU computes"),
    Metric("idle_gpu_ps", "GPU ps", "less", "", "time that all GPUs together wait in a step"),
    Metric("source_bytes", "bytes", "less", "", "on the busiest link out of a source"),
    Metric("busiest_bytes", "bytes", "less", "", "on the busiest link of the fabric"),
    Metric("fabric_bytes", "bytes", "less", "", "on all links"),
    Metric("feedback_pkts", "packets", "less", "interactivity", "that reach a source"),
)


def metric_of(name: str) -> Metric:
    """Row of a name; the name is ours, so a wrong one is a bug."""
    return {metric.name: metric for metric in CATALOG}[name]
