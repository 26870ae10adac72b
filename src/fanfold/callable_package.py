"""A package that can be called: ``fanfold.push(...)`` beside ``fanfold.push.service``."""

import sys
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False  # typing is imported a good while after Ctrl-C can be met
if TYPE_CHECKING:
    from typing import Any


def make_callable(package: str, module: str) -> None:
    """Let a package be called as the function of its own name in a module, imported then."""
    name = package.rpartition(".")[2]

    class Callable(ModuleType):
        """This package, as something to call."""

        def __call__(self, *args: "Any", **named: "Any") -> "Any":
            """Call the function."""
            return getattr(import_module(module), name)(*args, **named)

    sys.modules[package].__class__ = Callable
