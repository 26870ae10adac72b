"""What a group does about ranks that are late, how its floats are added, and what it says."""

from collections.abc import Sequence
from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.topo.vat_laid import LaidTree
from fanfold.units import PS_PER_SECOND

WAIT, PARTIAL, EXCLUDE = "wait", "partial", "exclude"
POLICIES = (WAIT, PARTIAL, EXCLUDE)
BY_VALUE, BY_BLOCK = "value", "block"
NUMBERS = (BY_VALUE, BY_BLOCK)
"""What has an exponent of its own where floats are added."""
_BLOCK_BIT, _CHECK_BIT = 1 << 20, 1 << 21
PS_PER_MS = PS_PER_SECOND // 1000
PATIENCE_PS = PS_PER_SECOND
MAX_PATIENCE_MS = 0xFFFF
SHORTENED = ("all_reduce", "reduce")
"""Operations that may end without a rank that is late; all others wait for everybody."""


class Rules(NamedTuple):
    """Rules of a group, the same on all its ranks.

    stragglers: ``wait`` until the deadline; ``partial``: hand out what there is; ``exclude``:
    and go on without that rank from then on. patience_ps: from the first array of a block on.
    numbers: in sums of float32, bfloat16 and float16 each ``value`` has an exponent, or each
    ``block``: a fifth fewer bytes, and what is too small beside the largest becomes 0.
    is_checked: sums have check words (kernels/check.py).
    """

    stragglers: str = WAIT
    patience_ps: int = PATIENCE_PS
    numbers: str = BY_VALUE
    is_checked: bool = False

    @property
    def is_by_block(self) -> bool:
        """A block of floats has one exponent."""
        return self.numbers == BY_BLOCK

    def patience_ms(self, name: str, *, is_joined: bool) -> int:
        """As blocks of an operation carry it, 0: wait."""
        if self.stragglers == WAIT or name not in SHORTENED or not is_joined:
            return 0
        return self.patience_ps // PS_PER_MS

    def number(self) -> int:
        """The same for equal rules only; below 2**31."""
        how = (_BLOCK_BIT * self.is_by_block) | (_CHECK_BIT * self.is_checked)
        if self.stragglers == WAIT:
            return how
        late = POLICIES.index(self.stragglers) << 16 | self.patience_ps // PS_PER_MS
        return how | late


class Inside(NamedTuple):
    """Whose arrays are in the result of an operation; the same on all ranks.

    least: arrays in the block that has fewest. missing: ranks that some block lacks.
    n_partial: blocks that lack somebody.
    """

    least: int
    missing: tuple[int, ...] = ()
    n_partial: int = 0


def check_rules(
    rules: Rules, members: Sequence[str] = (), laid: LaidTree | None = None
) -> Rules:
    """The rules themselves.

    Args:
        laid: a tree that was installed for the members.

    Raises:
        ConfigError: no such policy or number format, or a patience that packets cannot say; a
            tree of other ranks, or one that would change by the rules.
    """
    if laid and tuple(members) != laid.members:
        raise ConfigError("members", ", ".join(members), f"{', '.join(laid.members)}, as laid")
    if laid and rules.stragglers == EXCLUDE:
        raise ConfigError("stragglers", EXCLUDE, f"{WAIT}, {PARTIAL}: the tree is installed")
    if rules.stragglers not in POLICIES:
        raise ConfigError("stragglers", rules.stragglers, ", ".join(POLICIES))
    if rules.numbers not in NUMBERS:
        raise ConfigError("numbers", rules.numbers, ", ".join(NUMBERS))
    if rules.is_checked and rules.stragglers != WAIT:
        raise ConfigError("stragglers", rules.stragglers, f"{WAIT}: sums are checked")
    if not 1 <= rules.patience_ps // PS_PER_MS <= MAX_PATIENCE_MS:
        raise ConfigError("patience_ps", rules.patience_ps, "1 ms to 65535 ms")
    return rules


def said_rules(number: int) -> str:
    """Rules in words, by their number."""
    said = ["an exponent a block"] if number & _BLOCK_BIT else []
    said += ["checked sums"] if number & _CHECK_BIT else []
    late = number & ~(_BLOCK_BIT | _CHECK_BIT)
    if late:
        policy = POLICIES[late >> 16]
        said.append(f"stragglers {policy}, patience {late & MAX_PATIENCE_MS} ms")
    return ", ".join(said)
