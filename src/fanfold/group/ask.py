"""What a rank was asked for, as all ranks compare it, and in words."""

from collections.abc import Sequence
from typing import NamedTuple

from fanfold.group.rules import said_rules
from fanfold.group.values import KINDS, MOVED, WIDENED, Form

NAMES = (
    "all_reduce",
    "reduce",
    "broadcast",
    "all_gather",
    "gather",
    "scatter",
    "reduce_scatter",
    "all_to_all",
    "send",
    "barrier",
)
KIND_NAMES = ("float32", "float64", "bfloat16", "float16", "int32", "int64", "bytes")
AS_WIDER = tuple(f"{kind} as {wide}" for kind, wide in WIDENED.items())
"""Kinds whose words are those of another: told apart only while ranks agree."""
OP_NAMES = ("sum", "product", "min", "max", "move", "avg")
ROOTED = ("reduce", "broadcast", "gather", "scatter")
LEAVING = 1
"""Root of the barrier that a rank leaves by: it is no barrier of a program, which has 0."""
N_FIELDS = 8


class Ask(NamedTuple):
    """What a rank was asked for, as it is compared: all of it must be the same on all ranks.

    moved_kind: what the bytes are that are moved, as far as it has a name. rules: for ranks
    that are late, as a number. given: kind as it was asked for. is_mean: a sum, then a share.
    root: the tag of a message.
    """

    name: str
    form: Form
    root: int = 0
    n_bytes: int = 0
    sizes: int = 0
    moved_kind: int = MOVED.kind
    rules: int = 0
    given: str = ""
    is_mean: bool = False

    def words(self) -> list[int]:
        """Eight numbers below 2**31."""
        kind = self.moved_kind if self.form == MOVED else self.form.kind
        kind = KINDS.get(self.given, kind)
        if self.given in WIDENED:
            kind = len(KIND_NAMES) + list(WIDENED).index(self.given)
        return [
            NAMES.index(self.name),
            kind,
            OP_NAMES.index("avg") if self.is_mean else self.form.op,
            self.root,
            self.n_bytes & 0x7FFFFFFF,
            self.n_bytes >> 31,
            self.sizes & 0x7FFFFFFF,
            self.rules,
        ]


def text_of(words: Sequence[int]) -> str:
    """What a rank was asked for, in words."""
    name, kind, op, root, low, high, _, rules = words
    if NAMES[name] == "barrier":
        return "the end of the group" if root else "a barrier, or a call that it refused"
    how = f", {OP_NAMES[op]}" if OP_NAMES[op] != "move" else ""
    whose = f", root {root}" if NAMES[name] in ROOTED else ""
    whose += f", tag {root}" if NAMES[name] == "send" else ""
    late = f", {said_rules(rules)}" if rules else ""
    what = f"{NAMES[name]} of {low + (high << 31)} bytes of {(*KIND_NAMES, *AS_WIDER)[kind]}"
    return f"{what}{how}{whose}{late}"
