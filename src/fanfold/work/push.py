"""A model to many replicas: pushed to regions, or drawn by replicas that start cold.

Bytes and earliest times at the source alone: whatever lies behind its link costs more, never
less. Times are ps. Letters: n = replicas, B = bytes of the model, T = B at the rate of a link.

    unicast      the source serves joiners whole, one after the other, in order of arrival: as
                 much in all as when they share, and sooner for most
    fan          the source sends the model round and round while anybody lacks some of it; a
                 joiner takes what comes by from its arrival on, and has all after T. Parts come
                 in order, so the first layer comes at the next start of a round
"""

from typing import Annotated, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.streams import Generator
from fanfold.units import PS_PER_SECOND

I64 = NDArray[np.int64]
MAX_REPLICAS = 2**20
MAX_PS = 2**62


class Region(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A data center behind the WAN, and the replicas in it."""

    name: str
    replicas: Annotated[int, Meta(ge=1, le=MAX_REPLICAS)]


class Egress(NamedTuple):
    """Bytes that leave the source, by scheme."""

    copy_per_replica: int
    copy_per_region: int
    multicast: int


class ColdStart(NamedTuple):
    """When each joiner, by arrival, has the first layer and all; what the source sent."""

    first_layer_ps: I64
    all_ps: I64
    source_bytes: int


def wan_egress(n_bytes: int, regions: tuple[Region, ...]) -> Egress:
    """Bytes over the WAN for one model: N copies, one a region, or one in all.

    Raises:
        ConfigError: no region, or one name twice.
    """
    names = [region.name for region in regions]
    if not names or len(set(names)) < len(names):
        raise ConfigError("regions", names, "at least one, each name once")
    n_replicas = sum(region.replicas for region in regions)
    return Egress(n_bytes * n_replicas, n_bytes * len(regions), n_bytes)


def draw_arrivals(rng: Generator, n: int, within_ps: int) -> I64:
    """Times of n joiners of a burst, rising: each alike anywhere in it, the first at 0.

    Raises:
        ConfigError: a number of joiners or a time out of range.
    """
    if not 1 <= n <= MAX_REPLICAS:
        raise ConfigError("replicas", n, f"1..{MAX_REPLICAS}")
    if not 0 <= within_ps < MAX_PS:
        raise ConfigError("within", within_ps, f"0..{MAX_PS - 1} ps")
    times: I64 = np.sort(rng.integers(0, within_ps + 1, size=n))
    times -= times[0]
    return times


def send_ps(n_bytes: int, rate_bps: int) -> int:
    """Time of so many bytes on a link, rounded up."""
    return -(-n_bytes * 8 * PS_PER_SECOND // rate_bps)


def cold_start_unicast(
    arrivals: I64, n_bytes: int, first_bytes: int, rate_bps: int
) -> ColdStart:
    """One whole copy after the other.

    Raises:
        ConfigError: a first layer larger than the model, or times past what 64 bits hold.
    """
    whole, first = _times(arrivals, n_bytes, first_bytes, rate_bps)
    n = arrivals.size
    turns = np.arange(n, dtype=np.int64) * whole
    # The start of i: the latest, over j <= i, of arrival j and the i - j copies since.
    starts = np.maximum.accumulate(arrivals - turns) + turns
    return ColdStart(starts + first - arrivals, starts + whole - arrivals, n * n_bytes)


def cold_start_fan(arrivals: I64, n_bytes: int, first_bytes: int, rate_bps: int) -> ColdStart:
    """One stream that all take part in; it stops when nobody lacks anything.

    Raises:
        ConfigError: a first layer larger than the model, or times past what 64 bits hold.
    """
    whole, first = _times(arrivals, n_bytes, first_bytes, rate_bps)
    begins = np.empty_like(arrivals)
    sent_ps, began, ends = 0, 0, -1
    for i, at in enumerate(arrivals.tolist()):
        if at >= ends:
            began = at
            sent_ps += whole
        else:
            sent_ps += at + whole - ends
        ends = at + whole
        begins[i] = began
    into = (arrivals - begins) % whole
    wait = np.where(into > 0, whole - into, 0)
    all_ps = np.full(arrivals.size, whole, np.int64)
    # As time is rounded up to a ps, so bytes come back rounded down, and never below one model.
    sent = max(sent_ps * rate_bps // (8 * PS_PER_SECOND), n_bytes)
    return ColdStart(wait + first, all_ps, sent)


def _times(arrivals: I64, n_bytes: int, first_bytes: int, rate_bps: int) -> tuple[int, int]:
    if not 1 <= first_bytes <= n_bytes:
        raise ConfigError("first_layer", first_bytes, f"1..{n_bytes} bytes, the model")
    whole = send_ps(n_bytes, rate_bps)
    if arrivals.size * whole + int(arrivals[-1]) >= MAX_PS:
        raise ConfigError("rate", rate_bps, "one that ends within 53 days")
    return whole, send_ps(first_bytes, rate_bps)
