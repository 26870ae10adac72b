"""Every workload whose volumes can be asked for; a new one is one function and one row here."""

from collections.abc import Callable
from difflib import get_close_matches
from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.work import volumes
from fanfold.work.volumes import Ask, Row


class Workload(NamedTuple):
    """A name, what it is, and the function that gives its rows."""

    name: str
    summary: str
    rows: Callable[[Ask], list[Row]]


CATALOG: tuple[Workload, ...] = (
    Workload("parameters", "parameters of a model by part, and bytes", volumes.parameters),
    Workload("training", "collectives of one training iteration", volumes.training),
    Workload(
        "moe-dispatch", "tokens of one MoE layer to experts and back", volumes.moe_dispatch
    ),
    Workload("model-push", "a model to replicas in regions", volumes.model_push),
    Workload("cold-start", "replicas that start within seconds", volumes.cold_start),
)


def workload_of(name: str) -> Workload:
    """Row of a name.

    Raises:
        ConfigError: no such workload.
    """
    names = [row.name for row in CATALOG]
    if name not in names:
        near = get_close_matches(name, names, 1)
        raise ConfigError("workload", name, f"{near[0]}?" if near else ", ".join(names))
    return CATALOG[names.index(name)]
