"""What a shell offers after Tab: names of schemes, topologies, models, labs and hosts.

typer offers commands, options and files. A parameter that stands below gets words of its own,
from the catalog, the lab or the fabric file that the command itself would read. Whatever is
wrong on the line, nothing is offered and nothing is said: it is not run yet.
"""

import os
import shlex
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from fanfold.errors import FanfoldError

VARIABLE = "_FANFOLD_COMPLETE"
"""Set by the shell's script; typer forms its name of the program's."""
LINES = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""The line so far, as bash and as other shells give it."""
Words = Callable[[Any], Iterable[str]]
"""Words for a parameter by the context of its command."""


def words_so_far() -> list[str] | None:
    """The line that a shell wants completed, without the program; None where none does."""
    if not os.environ.get(VARIABLE):
        return None
    line = next((os.environ[name] for name in LINES if name in os.environ), "")
    try:
        return shlex.split(line)[1:]
    except ValueError:  # an open quote
        return line.split()[1:]


def offer_words(verb: Any, path: str = "") -> None:
    """Give the parameters of a command, and of all below it, their words."""
    for name, below in getattr(verb, "commands", {}).items():
        offer_words(below, f"{path} {name}".strip())
    for option in verb.params:
        words = _words_of(path, option.name)
        if words is not None:
            option._custom_shell_complete = partial(_matching, words, option.name in LISTS)


def _words_of(path: str, name: str) -> Words | None:
    return WORDS.get(f"{path} {name}", WORDS.get(name))


def _matching(words: Words, is_list: bool, ctx: Any, _: Any, so_far: str) -> list[str]:
    """Words that go on from what stands there; in a list from what follows the last comma."""
    before, comma, last = so_far.rpartition(",") if is_list else ("", "", so_far)
    taken = before.split(",")
    try:
        found = [word for word in words(ctx) if word.startswith(last) and word not in taken]
    except (FanfoldError, OSError, ValueError):
        return []
    return [f"{before}{comma}{word}" for word in found]


# What there is. A module is imported where it is asked for: a shell waits for each Tab.


def _labs(ctx: Any) -> list[str]:
    del ctx
    found: list[str] = import_module("fanfold.live.lab").list_labs()
    return found


def _nodes(ctx: Any, *roles: str) -> list[str]:
    """Nodes of the fabric file on the line, or of the lab."""
    lab = ctx.params.get("lab") or ctx.params.get("name") or "lab"
    home = import_module("fanfold.live.lab").labs_home()
    config = Path(ctx.params.get("config") or home / lab / "fabric.toml")
    fabric = import_module("fanfold.topo.fabric_file").load_fabric(config)
    return [node.name for node in fabric.nodes if node.role in roles]


def _hosts(ctx: Any) -> list[str]:
    return _nodes(ctx, "host")


def _targets(ctx: Any) -> list[str]:
    source = ctx.params.get("source") or "h0"
    return ["all", *(name for name in _hosts(ctx) if name != source)]


def _bfrs(ctx: Any) -> list[str]:
    return _nodes(ctx, "bfr")


def _all_nodes(ctx: Any) -> list[str]:
    return _nodes(ctx, "host", "bfr")


def _failing(ctx: Any) -> list[str]:
    """Links or nodes, by what is to fail."""
    if ctx.params.get("what") in ("node", "pause"):
        return _all_nodes(ctx)
    home = import_module("fanfold.live.lab").labs_home()
    lab = ctx.params.get("name") or "lab"
    fabric = import_module("fanfold.topo.fabric_file").load_fabric(home / lab / "fabric.toml")
    return [f"{link.a}-{link.b}" for link in fabric.links]


def _failed(ctx: Any) -> list[str]:
    lab = import_module("fanfold.live.lab").Lab(ctx.params.get("name") or "lab")
    found = import_module("fanfold.api.failing").failures_of(lab)
    return [*found.links, *found.gray, *found.slow, *found.corrupt, *found.nodes]


def _named(module: str, rows: str, *others: str) -> Words:
    """Names of a catalog's rows, or the words of a literal type."""

    def words(ctx: Any) -> list[str]:
        del ctx
        found = getattr(import_module(f"fanfold.{module}"), rows)
        kinds = get_args(found)
        return [*others, *(kinds or [getattr(row, "name", row) for row in found])]

    return words


_topologies = _named("topo.net_catalog", "NET_CATALOG")

WORDS: dict[str, Words] = {
    "lab": _labs,
    "lab status name": _labs,
    "lab down name": _labs,
    "lab restart name": _labs,
    "lab restart node": _all_nodes,
    "lab fail what": _named("api.failing", "KINDS"),
    "lab fail target": _failing,
    "lab fail name": _labs,
    "lab heal targets": _failed,
    "lab heal name": _labs,
    "top name": _labs,
    "top source": _all_nodes,
    "to": _targets,
    "push source": _hosts,
    "receive node": _hosts,
    "bfr node": _bfrs,
    "ranks": _hosts,
    "schemes": _named("schemes.catalog", "CATALOG", "all"),
    "topology": _topologies,
    "topo name": _topologies,
    "model": _named("work.presets", "PRESETS"),
    "study kind": _named("study.catalog", "CATALOG", "all"),
    "workload name": _named("work.catalog", "CATALOG"),
    "compare workload": _named("work.collective", "Kind"),
    "trees protocol": _named("trees.catalog", "CATALOG"),
    "encoding": _named("encodings.catalog", "CATALOG", "all"),
    "placement": _named("topo.placement", "Kind"),
}
"""By the parameter's name, or by its command's and its own where others have that name too."""
LISTS = frozenset({"to", "ranks", "schemes", "encoding"})
"""Names by commas."""
