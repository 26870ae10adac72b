"""PyTorch for a test module: under CI it is there or tests fail, elsewhere they may skip."""

import os
from importlib import import_module

import pytest


def need_torch(*more: str) -> None:
    """Skip a module without PyTorch, or what more it needs, with the reason; never under CI."""
    for name in ("torch", *more):
        if os.environ.get("CI"):
            import_module(name)
        pytest.importorskip(name, reason=f"no {name} here: pip install 'fanfold[torch]' {name}")
