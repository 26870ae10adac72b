"""fanfold: one message to many, many folded into one.

BIER point-to-multipoint forwarding (RFC 8279, RFC 8296) in software BFRs, with feedback
folded on the way back by the same BitString. ``fanfold.study("moe-dispatch", gpus=256)`` runs a
study from a program or a notebook (``fanfold/study/api.py``).
"""

import importlib

TYPE_CHECKING = False  # typing is imported a good while after Ctrl-C can be met
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> "Any":
    """Studies, imported where somebody asks for them."""
    if name == "study":
        return importlib.import_module("fanfold.study")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
