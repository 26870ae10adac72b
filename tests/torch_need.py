"""PyTorch for a test module: under CI it is there or tests fail, elsewhere they may skip."""

import os

import pytest


def need_torch():
    """Skip a module without PyTorch, with the reason; never under CI."""
    if os.environ.get("CI"):
        import torch  # noqa: F401, PLC0415
    pytest.importorskip("torch", reason="no PyTorch here: pip install 'fanfold[torch]'")
