"""fanfold: one message to many, many folded into one.

BIER point-to-multipoint forwarding (RFC 8279, RFC 8296) in software BFRs, with feedback
folded on the way back by the same BitString.
"""

from typing import Any

__version__ = "0.1.0"
__all__ = ["__version__", "study"]


def study(kind: str, **given: Any) -> Any:
    """Run one study of an AI workload by every scheme; ``fanfold.study.api`` says how.

    Returns:
        A ``fanfold.study.result.Study``.

    Raises:
        ConfigError: the first wrong value, by its name.
    """
    from fanfold.study.api import study as run  # noqa: PLC0415 - half a second of imports

    return run(kind, **given)
