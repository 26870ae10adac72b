"""From what was asked for to tasks: every point of the sweep by every scheme."""

import itertools
from collections.abc import Iterable, Mapping

from fanfold.errors import ConfigError
from fanfold.schemes.catalog import CATALOG as SCHEMES
from fanfold.study.ask import ALL, StudyRequest
from fanfold.study.catalog import Kind, kind_of
from fanfold.study.keys import key_of, read_value
from fanfold.study.task import StudyTask

STUDIED = (
    "unicast",
    "ring",
    "binary-tree",
    "double-binary-tree",
    "pim-sm",
    "pim-dm",
    "bidir-pim",
    "mldp",
    "mldp-mp2mp",
    "sr-p2mp",
    "bier",
    "fanfold",
)
"""Schemes of every study, in the order of its table."""
BASELINE = "unicast"
MOST_TASKS = 10_000


def tasks_of(ask: StudyRequest) -> list[StudyTask]:
    """All tasks, point by point.

    Raises:
        ConfigError: an unknown key, scheme or value; values that clash; too many tasks.
    """
    kind = kind_of(ask.kind)
    schemes = schemes_of(ask.schemes, kind.schemes)
    _check_sweep(ask, kind)
    points = list(_points(swept(ask, kind)))
    if len(points) * len(schemes) > MOST_TASKS:
        got = f"{len(points)} points x {len(schemes)} schemes"
        raise ConfigError("--sweep", got, f"at most {MOST_TASKS} runs")
    return [
        StudyTask(ask.kind, scheme, _filled(kind, ask.given | point), point, ask.seed)
        for point in points
        for scheme in schemes
    ]


def swept(ask: StudyRequest, kind: Kind) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The sweep that was asked for, and the study's own of keys that nobody gave."""
    named = {*ask.given, *(name for name, _ in ask.sweep)}
    return (*(pair for pair in kind.sweep if pair[0] not in named), *ask.sweep)


def schemes_of(names: Iterable[str], more: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Names of schemes in the order asked for; "all" for those of every study, and ``more``.

    Raises:
        ConfigError: one that does not exist, or stands twice.
    """
    known = {scheme.name for scheme in SCHEMES}
    asked = list(names)
    if asked == [ALL]:
        return (*STUDIED, *more)
    for name in asked:
        if name not in known:
            allowed = ", ".join(dict.fromkeys([ALL, *STUDIED, *sorted(known)]))
            raise ConfigError("--schemes", name, allowed)
    if len(set(asked)) < len(asked) or not asked:
        raise ConfigError("--schemes", ",".join(asked), "names of schemes, each once")
    return tuple(asked)


def _check_sweep(ask: StudyRequest, kind: Kind) -> None:
    """Each key once, of the study, not beside its flag; values of its sort, each once."""
    for name in ask.given:
        key_of(kind.all_keys, name, kind.name)
    seen: set[str] = set()
    for name, values in ask.sweep:
        key = key_of(kind.all_keys, name, kind.name)
        if name in seen or ask.given.get(name):
            raise ConfigError("--sweep", name, "each key once, and not beside its own flag")
        seen.add(name)
        read = [read_value(key, value) for value in values]
        if not values or len(set(read)) < len(read) or "" in read:
            allowed = f"{name}=VALUE,VALUE,... each once"
            raise ConfigError("--sweep", f"{name}={','.join(values)}", allowed)
    named = {*(name for name, _ in ask.sweep), *(n for n, text in ask.given.items() if text)}
    if {"topology", "rate"} <= named:
        raise ConfigError("--sweep", "rate beside a topology", "rate=... in the topology")
    for key in kind.all_keys:
        read_value(key, ask.given.get(key.name, key.default))


def _points(sweep: tuple[tuple[str, tuple[str, ...]], ...]) -> Iterable[dict[str, str]]:
    names = [name for name, _ in sweep]
    for values in itertools.product(*(values for _, values in sweep)):
        yield dict(zip(names, values, strict=True))


def _filled(kind: Kind, given: Mapping[str, str]) -> dict[str, str]:
    """A value for each key of the study."""
    fallback = {"model": kind.model, "gpus": str(kind.gpus)}
    return {
        key.name: given.get(key.name) or fallback.get(key.name, key.default)
        for key in kind.all_keys
    }
