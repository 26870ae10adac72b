"""A requirements file with hashes: what it pins, and what is asked for that it does not."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


class Pin(NamedTuple):
    """One version of a package, how many files of it are allowed, and where it is for."""

    version: str
    n_hashes: int
    marker: str


def pins_of(text: str) -> dict[str, list[Pin]]:
    """Pins by package; a package may have several, each for some Pythons.

    Raises:
        ValueError: a line that is no pin with hashes.
    """
    found: dict[str, list[Pin]] = {}
    for line in text.replace("\\\n", " ").splitlines():
        wanted, *hashes = line.split(" --hash=")
        asked = Requirement(wanted)
        (pin,) = asked.specifier
        if pin.operator != "==" or len(HASH.findall(line)) != len(hashes):
            raise ValueError(line)
        one = Pin(pin.version, len(hashes), str(asked.marker or ""))
        found.setdefault(canonicalize_name(asked.name), []).append(one)
    return found


def faults(pins: dict[str, list[Pin]], wanted: Iterable[str], own: str = "") -> list[str]:
    """Requirements that no pin fulfils, and pins that any file would fulfil."""
    lacking = [
        str(asked)
        for asked in map(Requirement, wanted)
        if asked.name != own
        and (asked.marker is None or asked.marker.evaluate({"extra": ""}))
        and not any(
            asked.specifier.contains(pin.version, prereleases=True)
            for pin in pins.get(canonicalize_name(asked.name), [])
        )
    ]
    open_ = [name for name, each in pins.items() if any(not pin.n_hashes for pin in each)]
    return [*(f"{asked}: not pinned" for asked in lacking), *(f"{n}: no hash" for n in open_)]
