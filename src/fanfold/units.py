"""Sizes, rates, durations and probabilities as text, and as integers inside.

Bytes, bits per second, picoseconds (ADR 0002) and parts per billion. Exact arithmetic only: a
value that is no whole number of its unit is refused, never rounded. ``b`` is a bit and ``B`` a
byte, so "512Mb" is no size. ``format_*`` round to three decimals and are for people; a whole
multiple of a unit comes back exactly.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import NewType

from fanfold.errors import ConfigError
from fanfold.nearest import ASKS

Ps = NewType("Ps", int)
Bps = NewType("Bps", int)
Bytes = NewType("Bytes", int)
Ppb = NewType("Ppb", int)

NEVER = Ps(2**63 - 1)
"""Later than every instant; also the largest value a kernel can hold."""
PPB_ONE = Ppb(10**9)
"""Probability one."""

MAX_SEED = 2**63 - 1
"""As wide as the column that results keep seeds in."""
PS_PER_SECOND = 10**12
PS_PER_MS = 10**9
PS_PER_US = 10**6

_DECIMAL_SIZES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
_BINARY_SIZES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
_SIZES = _DECIMAL_SIZES | _BINARY_SIZES | {"KB": 10**3, "": 1}
_RATES = {"bit/s": 1, "kbit/s": 10**3, "Mbit/s": 10**6, "Gbit/s": 10**9, "Tbit/s": 10**12}
_RATE_NAMES = {
    name.replace("bit/s", suffix): value
    for name, value in (_RATES | {"Kbit/s": 10**3}).items()
    for suffix in ("bit/s", "b/s", "bps")
}
_DURATIONS = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": PS_PER_SECOND}
_DURATION_NAMES = _DURATIONS | {
    "µs": 10**6,
    "min": 60 * PS_PER_SECOND,
    "h": 3600 * PS_PER_SECOND,
}
_PARTS = {"": int(PPB_ONE), "%": int(PPB_ONE) // 100, "ppm": 1000, "ppb": 1}

_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµ/%]*)\s*", re.ASCII)
_LOOSE = re.compile(r"\s*([0-9]+(?:[.,][0-9]+)?)\s*([A-Za-zµ/%]*)\s*", re.ASCII)
_MAX_TEXT = 40


def parse_size(text: str, field: str) -> Bytes:
    """Bytes of "512MB", "1GiB", "4 KiB" or a bare "1500"."""
    return Bytes(
        _parse(text, field, _SIZES, 'whole bytes below 2**63, such as "512MB", "4 KiB"')
    )


def parse_rate(text: str, field: str) -> Bps:
    """Bits per second of "5Gbps", "400 Gbit/s"; zero is refused."""
    allowed = 'whole bits per second in 1..2**63-1, such as "5Gbps", "400 Gbit/s"'
    rate = _parse(text, field, _RATE_NAMES, allowed)
    if rate == 0:
        raise ConfigError(field, text, allowed)
    return Bps(rate)


def parse_duration(text: str, field: str) -> Ps:
    """Picoseconds of "5us", "2s"; the unit is never left out."""
    allowed = 'a time with its unit, whole picoseconds below 2**63, such as "5us", "2s"'
    return Ps(_parse(text, field, _DURATION_NAMES, allowed))


def parse_probability(text: str, field: str) -> Ppb:
    """Parts per billion of "0.01", "1%", "50 ppm"."""
    allowed = 'zero to one in steps of 1e-9, such as "0.01", "1%", "50 ppm"'
    parts = _parse(text, field, _PARTS, allowed)
    if parts > PPB_ONE:
        raise ConfigError(field, text, allowed)
    return Ppb(parts)


def format_size(n_bytes: int) -> str:
    """Bytes for people: "1.5 GB", or "512 MiB" where that is the whole truth."""
    unit = max((u for u in _BINARY_SIZES.values() if u <= n_bytes), default=0)
    is_round = n_bytes % max(u for u in _DECIMAL_SIZES.values() if u <= max(n_bytes, 1)) == 0
    if unit and n_bytes % unit == 0 and not is_round:
        return _format(n_bytes, _BINARY_SIZES)
    return _format(n_bytes, _DECIMAL_SIZES)


def format_rate(rate_bps: int) -> str:
    """Bits per second for people: "400 Gbit/s"."""
    return _format(rate_bps, _RATES)


def format_duration(duration_ps: int) -> str:
    """Picoseconds for people: "5 us", "1.234 s"."""
    return _format(duration_ps, _DURATIONS)


def _parse(text: str, field: str, units: Mapping[str, int], allowed: str) -> int:
    value = _value(text, units)
    if value is None:
        near = _near(text, units)
        raise ConfigError(field, text, f"{ASKS}{' or '.join(near)}?" if near else allowed)
    return value


def _value(text: str, units: Mapping[str, int]) -> int | None:
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None or match[2] not in units:
        return None
    value = Fraction(match[1]) * units[match[2]]
    return int(value) if value.denominator == 1 and value <= NEVER else None


def _near(text: str, units: Mapping[str, int]) -> list[str]:
    """What was meant by "1M", "5 sec" or "1,5GB": quantities with a unit that there is."""
    match = _LOOSE.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None:
        return []
    number, unit = match[1].replace(",", "."), match[2].casefold()
    if "B" in match[2] and "bit/s" in units:  # bytes a second: eight times as many
        return []
    plain = {name: name.casefold() for name in units if name}
    found = [name for name in plain if unit and plain[name].startswith(unit)]
    if not found:
        found = sorted((n for n in plain if unit.startswith(plain[n])), key=len)[-1:]
    best: dict[int, str] = {}
    for name in sorted(found, key=lambda name: (len(name), "/" in name)):
        best.setdefault(units[name], name)
    near = (number + name for name in best.values())
    return [each for each in near if _value(each, units) is not None]


def _format(value: int, units: Mapping[str, int]) -> str:
    """Value in its largest unit, three decimals, half rounds up; units in rising order."""
    sign, value = ("-", -value) if value < 0 else ("", value)
    text, best = "", ""
    for name, unit in units.items():
        thousandths = (value * 1000 + unit // 2) // unit
        if best and thousandths < 1000:
            break
        whole = f"{thousandths // 1000}.{thousandths % 1000:03}"
        text, best = whole.rstrip("0").rstrip("."), name
    return f"{sign}{text} {best}"
