"""Results as plain values."""

from typing import Any

import msgspec


def as_json(result: Any) -> Any:
    """A result as dicts, lists, numbers and text: what ``--json`` prints of it.

    >>> fanfold.as_json(fanfold.Comparison(runs=(), refused=(), notes=("none",)))
    {'runs': [], 'refused': [], 'notes': ['none']}
    """
    return msgspec.json.decode(msgspec.json.encode(result))
