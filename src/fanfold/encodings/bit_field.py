"""Bits in a row, first bit first, as headers without byte boundaries have them."""

from typing import NamedTuple

from fanfold.errors import WireError, WireReason


class Bits(NamedTuple):
    """A row of n bits; the first is the most significant one of ``value``."""

    value: int
    n: int

    def then(self, value: int, n: int) -> "Bits":
        """These, then n bits more."""
        return Bits(self.value << n | value, self.n + n)

    def padded(self) -> bytes:
        """Whole bytes, zeros behind the last bit."""
        n_bytes = -(-self.n // 8)
        return (self.value << (n_bytes * 8 - self.n)).to_bytes(n_bytes)


NO_BITS = Bits(0, 0)


class BitReader:
    """Takes a row of bits apart."""

    def __init__(self, header: str, buf: bytes) -> None:
        self._header = header
        self._value = int.from_bytes(buf)
        self.left = 8 * len(buf)

    def take(self, n: int) -> int:
        """The next n bits.

        Raises:
            WireError: TRUNCATED.
        """
        if n > self.left:
            raise WireError(self._header, WireReason.TRUNCATED, self.left)
        self.left -= n
        return self._value >> self.left & ((1 << n) - 1)

    def rest(self) -> bytes:
        """What is left, moved to the front of whole bytes."""
        return Bits(self._value & ((1 << self.left) - 1), self.left).padded()
