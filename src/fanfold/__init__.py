"""fanfold: one message to many, many folded into one.

BIER point-to-multipoint forwarding (RFC 8279, RFC 8296) in software BFRs, with feedback
folded on the way back by the same BitString. What the command line does, programs do with
``push``, ``lab``, ``compare`` and ``study`` (docs/api.md); each is loaded when first used.
"""

from importlib import import_module

from fanfold.version import VERSION

__version__ = VERSION

TYPE_CHECKING = False  # typing is imported a good while after Ctrl-C can be met
if TYPE_CHECKING:
    from typing import Any

    from fanfold.api.comparing import Comparison, ComparisonFailed, compare
    from fanfold.api.lab_context import RunningLab, lab
    from fanfold.api.pushing import PushFailed, push
    from fanfold.api.values import as_json
    from fanfold.errors import CheckFailed, ConfigError, EnvironmentLack, FanfoldError
    from fanfold.push.result import PushResult
    from fanfold.study.api import study
    from fanfold.study.result import Study

__all__ = [
    "CheckFailed",
    "Comparison",
    "ComparisonFailed",
    "ConfigError",
    "EnvironmentLack",
    "FanfoldError",
    "PushFailed",
    "PushResult",
    "RunningLab",
    "Study",
    "__version__",
    "as_json",
    "compare",
    "lab",
    "push",
    "study",
]

_PLACES = {
    "CheckFailed": "errors",
    "Comparison": "api.comparing",
    "ComparisonFailed": "api.comparing",
    "ConfigError": "errors",
    "EnvironmentLack": "errors",
    "FanfoldError": "errors",
    "PushFailed": "api.pushing",
    "PushResult": "push.service",
    "RunningLab": "api.lab_context",
    "Study": "study.result",
    "as_json": "api.values",
    "compare": "api.comparing",
    "lab": "api.lab_context",
}


def __getattr__(name: str) -> "Any":
    """What programs call, imported where somebody asks for it."""
    if name in ("push", "study"):  # packages, which can be called
        return import_module(f"fanfold.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"fanfold.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
