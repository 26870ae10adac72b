"""A count of parameters as people write it: 70000000000, 70e9, 70B, 1.5T."""

from decimal import Decimal, InvalidOperation

from fanfold.errors import ConfigError

MAX_PARAMETERS = 10**15
_UNITS = {"K": 3, "M": 6, "B": 9, "T": 12}


def parse_count(text: str | None) -> int:
    """A whole number of parameters; 0 where nothing is said.

    Raises:
        ConfigError: no whole number from 1 on, or a larger one than models have.
    """
    if text is None or text == "":
        return 0
    allowed = f"a whole number in 1..{MAX_PARAMETERS}, such as 70e9 or 70B"
    digits = text.strip()
    power = _UNITS.get(digits[-1:].upper(), 0)
    digits = digits[:-1] if power else digits
    is_plain = digits.isascii() and len(digits) <= 24 and set(digits) <= set("0123456789.eE+")
    try:
        value = Decimal(digits) if is_plain else Decimal(0)
    except InvalidOperation:
        value = Decimal(0)
    if value.adjusted() > 15:
        raise ConfigError("parameters", text, allowed)
    value = value.scaleb(power)
    if value != value.to_integral_value() or not 1 <= value <= MAX_PARAMETERS:
        raise ConfigError("parameters", text, allowed)
    return int(value)
