"""What the words of a push's receivers must carry to count."""

from collections.abc import Callable

import msgspec

from fanfold.wire.report import Report


def _any(report: Report) -> bool:
    del report
    return True


class Proof(msgspec.Struct, frozen=True):
    """What a sender believes.

    nonce: in every word. digest: in DONE, ``manifest.whole_digest``, as the wire has it.
    n_files: for how long a disk may be looked at. shown: that digest as people see it, empty
    where both are one. is_from: whether a word is of the receiver that it names, by its MAC.
    """

    nonce: int
    digest: bytes
    n_files: int = 1
    shown: bytes = b""
    is_from: Callable[[Report], bool] = _any
