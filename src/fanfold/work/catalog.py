"""Every workload whose volumes can be asked for; a new one is one function and one row here."""

from collections.abc import Callable
from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.nearest import one_of
from fanfold.work import traffic, volumes
from fanfold.work.volumes import Row, WorkloadRequest


class Workload(NamedTuple):
    """A name, what it is, and the function that gives its rows."""

    name: str
    summary: str
    rows: Callable[[WorkloadRequest], list[Row]]


CATALOG: tuple[Workload, ...] = (
    Workload("parameters", "parameters of a model by part, and bytes", volumes.parameters),
    Workload("training", "collectives of one training iteration", volumes.training),
    Workload(
        "moe-dispatch", "tokens of one MoE layer to experts and back", volumes.moe_dispatch
    ),
    Workload("model-push", "a model to replicas in regions", volumes.model_push),
    Workload("cold-start", "replicas that start within seconds", volumes.cold_start),
    Workload("sizes", "bytes of models from 125 million parameters on", traffic.sizes),
    Workload("layers", "weights by layer, and by file of an index", traffic.layers),
    Workload("budgets", "latency that each parallelism copes with", traffic.budgets),
    Workload("bursts", "computing and sending in turns", traffic.bursts),
    Workload("checkpoint", "training state to storage replicas", traffic.checkpoint),
    Workload("inter-dc", "a model to regions behind a WAN", traffic.inter_dc),
    Workload("federated", "rounds with one server, some, none", traffic.federated),
    Workload("incast", "many to one aggregator or engine", traffic.incasts),
    Workload("state-sync", "small state to replicas, periodically", traffic.state_sync),
    Workload("roles", "one step by functional role", traffic.roles),
)


def workload_of(name: str) -> Workload:
    """Row of a name.

    Raises:
        ConfigError: no such workload.
    """
    names = [row.name for row in CATALOG]
    if name not in names:
        raise ConfigError("workload", name, one_of(name, names))
    return CATALOG[names.index(name)]
