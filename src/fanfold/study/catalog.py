"""Every study that can be asked for; a new one is one file and one row here."""

from collections.abc import Callable
from difflib import get_close_matches
from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.study import model_push
from fanfold.study.ask import ALL, SHARED_KEYS, Setting
from fanfold.study.keys import Key
from fanfold.study.phases import Graph, Style


class Kind(NamedTuple):
    """A name, what it is, its own keys, metrics of its table, and the function of its graph.

    metrics: the one that decides first. model: that is taken where none is named.
    """

    name: str
    summary: str
    keys: tuple[Key, ...]
    metrics: tuple[str, ...]
    graph: Callable[[Setting, Style], Graph]
    model: str
    gpus: int

    @property
    def all_keys(self) -> tuple[Key, ...]:
        """Those of every study, then its own."""
        return (*SHARED_KEYS, *self.keys)


CATALOG: tuple[Kind, ...] = (
    Kind(
        "model-push",
        "a model from one GPU to all others",
        model_push.KEYS,
        model_push.METRICS,
        model_push.graph,
        "llama3-70b",
        256,
    ),
)


def kind_of(name: str) -> Kind:
    """Row of a name.

    Raises:
        ConfigError: no such study; the nearest name, or all.
    """
    names = [row.name for row in CATALOG]
    if name not in names:
        near = get_close_matches(name, names, 1)
        allowed = f"{near[0]}?" if near else ", ".join([*names, ALL])
        raise ConfigError("study", name, allowed)
    return CATALOG[names.index(name)]
