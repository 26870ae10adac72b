"""A verb takes its flags as values; on a command line they are flags like others."""

import inspect
from importlib import import_module
from typing import Annotated, NamedTuple

import typer

from fanfold.cli.flag_groups import taken_apart
from fanfold.cli.verbs import VERBS

MOST = 12


class Pair(NamedTuple):
    low: Annotated[int, typer.Option("--least", help="of both")] = 1
    high: Annotated[int, typer.Option()] = 2


def verb(name: str = "x", *, pair: Pair, loud: bool = False) -> None:
    seen.append((name, pair, loud))


seen: list[tuple[str, Pair, bool]] = []


def test_fields_are_flags_with_their_names_and_defaults() -> None:
    shown = taken_apart(verb)
    assert list(inspect.signature(shown).parameters) == ["name", "low", "high", "loud"]
    app = typer.Typer()
    app.command()(shown)
    made = typer.main.get_command(app)
    for line in ([], ["--least", "7", "--name", "y"], ["--high", "9", "--loud"]):
        made(line, standalone_mode=False)
    assert seen == [
        ("x", Pair(), False),
        ("y", Pair(low=7), False),
        ("x", Pair(high=9), True),
    ]


def test_a_verb_without_groups_is_left_as_it_is() -> None:
    assert taken_apart(test_fields_are_flags_with_their_names_and_defaults) is (
        test_fields_are_flags_with_their_names_and_defaults
    )


def test_no_verb_has_more_parameters_than_one_can_see_at_a_glance() -> None:
    found = {}
    for row in VERBS:
        module = import_module(row.module)
        app = getattr(module, "app", None)
        own = getattr(module, row.name.replace("-", "_"), None)
        for each in [c.callback for c in app.registered_commands] if app else [own]:
            names = set(inspect.signature(inspect.unwrap(each)).parameters) - {"ctx"}
            found[f"{row.name} {each.__name__}"] = len(names)
    assert len(found) > 25
    assert {name: n for name, n in found.items() if n > MOST} == {}
