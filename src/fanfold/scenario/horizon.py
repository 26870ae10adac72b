"""What a run could last at worst: more picoseconds than 64 bits hold are refused at once."""

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Program
from fanfold.topo.byte_time import LEAST_RATE_BPS
from fanfold.topo.net import Net
from fanfold.units import PS_PER_SECOND, format_duration, format_rate

MAX_PS = 2**62
"""Some 53 days: half of what a time can say, the rest is for what is lost and sent again."""
MAX_DELAY_PS = 2**50
"""Of a link: some 18 minutes."""
MAX_RATE_BPS = 8 * PS_PER_SECOND
"""A byte a picosecond; above it a byte would take no time."""
HOPS = 32
_LOW = 2**20
_DAY_PS = 86_400 * PS_PER_SECOND


def check_links(net: Net) -> None:
    """Refuse links that no whole number of picoseconds describes.

    Raises:
        ConfigError: one that is too fast or too long.
    """
    fastest, longest = int(net.bps.max(initial=1)), int(net.prop_ps.max(initial=0))
    if fastest > MAX_RATE_BPS:
        allowed = f"links of up to {format_rate(MAX_RATE_BPS)}"
        raise ConfigError("topology", format_rate(fastest), allowed)
    slowest = int(net.bps.min(initial=LEAST_RATE_BPS))
    if slowest < LEAST_RATE_BPS:
        allowed = f"links of at least {format_rate(LEAST_RATE_BPS)}"
        raise ConfigError("topology", format_rate(slowest), allowed)
    if longest > MAX_DELAY_PS:
        allowed = f"links of up to {format_duration(MAX_DELAY_PS)}"
        raise ConfigError("topology", format_duration(longest), allowed)


def check_horizon(net: Net, program: Program, settings: Settings) -> None:
    """Refuse what might not end in time: all items one after the other over the slowest link.

    Raises:
        ConfigError: too many bytes for the links.
    """
    n_bytes = _total(program.n_bytes)
    n_bytes += sum(one.n_bytes for one in program.many)
    n_pkts = n_bytes // settings.payload_bytes + program.n_sent * program.chunks
    wire_bytes = n_bytes + n_pkts * settings.header_bytes
    slowest = int(net.bps.min(initial=MAX_RATE_BPS))
    hop_ps = int(net.prop_ps.max(initial=0)) + settings.switch_ps
    worst_ps = wire_bytes * 8 * PS_PER_SECOND // slowest + program.n_items * HOPS * hop_ps
    worst_ps += _total(program.pauses_ps) + int(program.start_ps.max(initial=0))
    if worst_ps > MAX_PS:
        got = f"what may take {worst_ps // _DAY_PS:,} days"
        raise ConfigError("workload.n_bytes", got, f"{MAX_PS // _DAY_PS} days at the worst")


def _total(values: NDArray[np.int64]) -> int:
    """Sum that does not overflow."""
    return int((values // _LOW).sum()) * _LOW + int((values % _LOW).sum())
