"""Fields keep their width: a value too wide for its field never spills into the next one."""

from struct import Struct, error

from fanfold.errors import MisuseError


def within(header: str, field: str, value: int, low: int, high: int) -> int:
    """Return the value if it lies in low..high.

    Raises:
        MisuseError: our own caller gave a value outside the field.
    """
    if not low <= value <= high:
        raise MisuseError(f"{header}.{field}: got {value}, allowed: {low}..{high}")
    return value


def fits(header: str, field: str, value: int, n_bits: int) -> int:
    """Return the value if it fits a field of n bits.

    Raises:
        MisuseError: our own caller gave a value outside the field.
    """
    return within(header, field, value, 0, (1 << n_bits) - 1)


def pack(header: str, layout: Struct, *values: int | bytes) -> bytes:
    """Pack whole-byte fields.

    Raises:
        MisuseError: our own caller gave a value outside its field.
    """
    try:
        return layout.pack(*values)
    except error as cause:
        raise MisuseError(f"{header}: got {values}, allowed: {layout.format}") from cause
