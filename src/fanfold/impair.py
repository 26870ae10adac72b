"""Impairments of links: what befalls packets on arrival, from a seed.

One value for each link; sim links and live ports apply the same. Chances are parts per billion.
"""

import msgspec
import numpy as np

from fanfold.errors import ConfigError
from fanfold.kernels.impairment import Impairments
from fanfold.nearest import ASKS, nearest
from fanfold.streams import stream_key
from fanfold.units import PPB_ONE, PS_PER_SECOND, parse_duration, parse_probability, parse_rate

REORDER_PS = 3_000_000_000
QUEUE_PS = 20_000_000_000
QUEUE_BYTES = 128 << 10
"""So much waits for a limited link, or 20 ms of its rate; the rest is dropped."""
_KEYS = ("drop", "duplicate", "corrupt", "reorder", "delay", "hold", "rate")
KEYS = "drop, duplicate, corrupt (chances), reorder (chance), delay, hold (durations), rate"


class Impairment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a link does to packets; zero everywhere is a good link.

    hold_ps: how long a reordered packet is held back. rate_bps: 0 = no limit.
    """

    drop_ppb: int = 0
    duplicate_ppb: int = 0
    reorder_ppb: int = 0
    corrupt_ppb: int = 0
    delay_ps: int = 0
    hold_ps: int = REORDER_PS
    rate_bps: int = 0

    def needs_times(self) -> bool:
        """Whether it matters when packets came."""
        return self.delay_ps + self.rate_bps > 0

    def is_active(self) -> bool:
        """Whether anything can happen at all."""
        chances = self.drop_ppb + self.duplicate_ppb + self.reorder_ppb + self.corrupt_ppb
        return chances + self.delay_ps + self.rate_bps > 0


class LinkImpairment(msgspec.Struct, frozen=True):
    """An impairment and where: both directions of ``a``-``b``, or of every link."""

    impairment: Impairment
    a: str = ""
    b: str = ""

    def hits(self, a: str, b: str) -> bool:
        """Whether it applies to the link between two nodes."""
        return not self.a or {a, b} == {self.a, self.b}


def apply(
    impairments: Impairments, port: int, impairment: Impairment, seed: int, stream: str
) -> None:
    """Set what happens to packets that arrive at a port; ``stream`` names its random stream."""
    row = impairments.ports[port]
    row["active"] = int(impairment.is_active())
    row["drop"] = _chance(impairment.drop_ppb)
    row["duplicate"] = _chance(impairment.duplicate_ppb)
    row["reorder"] = _chance(impairment.reorder_ppb)
    row["corrupt"] = _chance(impairment.corrupt_ppb)
    row["delay_ps"], row["reorder_ps"] = impairment.delay_ps, impairment.hold_ps
    queue_ps = QUEUE_BYTES * 8 * PS_PER_SECOND // max(impairment.rate_bps, 1)
    row["rate_bps"], row["free_ps"] = impairment.rate_bps, 0
    row["queue_ps"] = max(QUEUE_PS, queue_ps)
    row["rng"] = np.uint64(stream_key(seed, stream) & 0xFFFFFFFFFFFFFFFF)


def parse_loss(text: str, links: set[frozenset[str]], field: str) -> LinkImpairment:
    """``0.01@leaf1-h3`` or ``1%`` (every link)."""
    chance, _, where = text.partition("@")
    return _placed(Impairment(drop_ppb=parse_probability(chance, field)), where, links, field)


def parse_impairment(text: str, links: set[frozenset[str]], field: str) -> LinkImpairment:
    """``drop=1%,reorder=30%,hold=5ms,rate=100Mbps@leaf1-h3``; without ``@``: every link."""
    body, _, where = text.partition("@")
    values: dict[str, int] = {}
    named: set[str] = set()
    for part in body.split(","):
        key, _, value = part.partition("=")
        if key.strip() in named:
            raise ConfigError(field, text, f"each key once, not {key.strip()} again")
        named.add(key.strip())
        match key.strip():
            case "drop" | "duplicate" | "reorder" | "corrupt":
                values[f"{key.strip()}_ppb"] = parse_probability(value, f"{field} {key}")
            case "delay" | "hold":
                values[f"{key.strip()}_ps"] = parse_duration(value, f"{field} {key}")
            case "rate":
                values["rate_bps"] = parse_rate(value, f"{field} rate")
            case _:
                near = nearest(key, _KEYS)
                meant = f"{ASKS}{near}={value}?" if near else f"KEY=VALUE with {KEYS}"
                raise ConfigError(field, part, meant)
    return _placed(Impairment(**values), where, links, field)


def _placed(
    impairment: Impairment, where: str, links: set[frozenset[str]], field: str
) -> LinkImpairment:
    if where in ("", "all"):
        return LinkImpairment(impairment)
    for a, b in (sorted(link) for link in links):
        if where in (f"{a}-{b}", f"{b}-{a}"):
            return LinkImpairment(impairment, a, b)
    known = ", ".join(sorted("-".join(sorted(link)) for link in links))
    raise ConfigError(f"{field} link", where, f"all, {known}")


def _chance(ppb: int) -> int:
    return ppb * 2**32 // PPB_ONE
