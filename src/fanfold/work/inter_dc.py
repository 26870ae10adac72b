"""A model from one data center to regions behind a WAN: bytes, time, window, money.

All copies leave by one link of the source. A region has everything half a round trip after its
last byte left. Money is per byte that leaves, in millionths of a USD for a GB.
"""

from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.units import PS_PER_SECOND
from fanfold.work.push import Region, send_ps, wan_egress

GB = 10**9
RTT_PS = tuple(ms * PS_PER_SECOND // 1000 for ms in (20, 60, 100, 150))
"""Round trips of four regions; McBride's ChiNOG 2025 slides: 20 to 150 ms."""
PRICE_MICRO = 20_000
"""0.02 USD a GB between regions: a public price of the large clouds within one continent."""


class WanPush(NamedTuple):
    """One scheme. window_bytes: in flight to the farthest region at the full rate."""

    scheme: str
    wan_bytes: int
    all_ps: int
    window_bytes: int
    price_micro: int


def wan_pushes(
    n_bytes: int,
    regions: tuple[Region, ...],
    rtts_ps: tuple[int, ...],
    rate_bps: int,
    price_micro: int = PRICE_MICRO,
) -> tuple[WanPush, ...]:
    """Every way of pushing ``n_bytes``.

    Raises:
        ConfigError: another number of round trips than of regions, or no region.
    """
    if len(rtts_ps) != len(regions):
        raise ConfigError("rtts", len(rtts_ps), f"{len(regions)}, one for each region")
    egress = wan_egress(n_bytes, regions)
    far = max(rtts_ps)
    window = -(-rate_bps * far // (8 * PS_PER_SECOND))
    return tuple(
        WanPush(
            name.replace("_", " "),
            sent,
            send_ps(sent, rate_bps) + far // 2,
            window,
            -(-sent * price_micro // GB),
        )
        for name, sent in egress._asdict().items()
    )
