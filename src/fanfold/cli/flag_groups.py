"""Flags as values: a verb takes named tuples, and each of their fields is a flag."""

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from inspect import Parameter
from typing import Any, get_type_hints


def taken_apart(verb: Callable[..., None]) -> Callable[..., None]:
    """A verb for typer: in place of each named tuple a parameter for each of its fields.

    Fields have types, help and defaults as parameters of a verb have them.
    """
    groups: dict[str, Any] = {}

    def flags() -> Iterator[Parameter]:
        kinds = get_type_hints(verb, include_extras=True)
        for each in inspect.signature(verb).parameters.values():
            kind = kinds[each.name]
            if not hasattr(kind, "_field_defaults"):
                yield each.replace(kind=Parameter.KEYWORD_ONLY, annotation=kind)
                continue
            groups[each.name] = kind
            fields = get_type_hints(kind, include_extras=True)
            for name in kind._fields:
                usual = kind._field_defaults.get(name, Parameter.empty)
                yield Parameter(
                    name, Parameter.KEYWORD_ONLY, default=usual, annotation=fields[name]
                )

    shown = list(flags())
    if not groups:
        return verb

    @wraps(verb)
    def called(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(*(given.pop(field) for field in kind._fields))
        verb(**given)

    told: Any = called
    told.__signature__ = inspect.Signature(shown)
    told.__annotations__ = {each.name: each.annotation for each in shown}
    return called
