"""Studies: workloads by every scheme, what it costs, and what that means.

The package can be called: ``fanfold.study("moe-dispatch", gpus=256)`` is ``study/api.py``.
"""

import sys
from types import ModuleType
from typing import Any


class _Studies(ModuleType):
    """This package, as something to call."""

    def __call__(self, kind: str, **given: Any) -> Any:
        """Run one study; a ``Study`` (study/result.py).

        Raises:
            ConfigError: the first wrong value, by its name.
        """
        from fanfold.study.api import study as run  # noqa: PLC0415 - half a second of imports

        return run(kind, **given)


sys.modules[__name__].__class__ = _Studies
