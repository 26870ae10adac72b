"""Every study that can be asked for; a new one is one file and one row here."""

from collections.abc import Callable
from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.nearest import one_of
from fanfold.study import (
    allreduce,
    checkpoint,
    cold_start,
    federated,
    inter_dc,
    model_push,
    moe_dispatch,
)
from fanfold.study.ask import ALL, SHARED_KEYS, Setting
from fanfold.study.keys import Key
from fanfold.study.phases import Graph, Style


class Kind(NamedTuple):
    """A name, what it is, its own keys, metrics of its table, and the function of its graph.

    metrics: the one that decides first. model, gpus: where none is named. sweep: where none of
    its keys is given. schemes: that it takes beside those of every study. by_size: the key
    that stands for the model where it is given.
    """

    name: str
    summary: str
    keys: tuple[Key, ...]
    metrics: tuple[str, ...]
    graph: Callable[[Setting, Style], Graph]
    model: str
    gpus: int
    sweep: tuple[tuple[str, tuple[str, ...]], ...] = ()
    schemes: tuple[str, ...] = ()
    by_size: str = ""

    @property
    def all_keys(self) -> tuple[Key, ...]:
        """Those of every study, then its own."""
        return (*SHARED_KEYS, *self.keys)


CATALOG: tuple[Kind, ...] = (
    Kind(
        "moe-dispatch",
        "one MoE layer: tokens to their experts and back",
        moe_dispatch.KEYS,
        moe_dispatch.METRICS,
        moe_dispatch.graph,
        "deepseek-v3",
        64,
    ),
    Kind(
        "allreduce",
        "one training iteration: gradients of all replicas summed",
        allreduce.KEYS,
        allreduce.METRICS,
        allreduce.graph,
        "llama3-70b",
        64,
        schemes=allreduce.SCHEMES,
    ),
    Kind(
        "model-push",
        "a model from one GPU to all others",
        model_push.KEYS,
        model_push.METRICS,
        model_push.graph,
        "llama3-70b",
        256,
        by_size="size",
    ),
    Kind(
        "cold-start",
        "replicas that join within seconds and draw a model",
        cold_start.KEYS,
        cold_start.METRICS,
        cold_start.graph,
        "llama3-70b",
        16,
    ),
    Kind(
        "checkpoint",
        "all GPUs write their shards to several storage nodes",
        checkpoint.KEYS,
        checkpoint.METRICS,
        checkpoint.graph,
        "llama3-70b",
        64,
        by_size="size",
    ),
    Kind(
        "inter-dc",
        "a model from one data center to regions behind a WAN",
        inter_dc.KEYS,
        inter_dc.METRICS,
        inter_dc.graph,
        "llama3-405b",
        4,
        by_size="size",
    ),
    Kind(
        "federated",
        "one round of federated learning",
        federated.KEYS,
        federated.METRICS,
        federated.graph,
        "gpt-3b-32",
        16,
        (("form", federated.FORMS),),
    ),
)


def kind_of(name: str) -> Kind:
    """Row of a name.

    Raises:
        ConfigError: no such study; the nearest name, or all.
    """
    names = [row.name for row in CATALOG]
    if name not in names:
        raise ConfigError("study", name, one_of(name, [*names, ALL]))
    return CATALOG[names.index(name)]
