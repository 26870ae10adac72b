"""The fabric of a study where nobody names one: by the number of hosts."""

from fanfold.errors import ConfigError

GPUS_PER_SERVER = 8
LEAST_RAIL = 16
MOST_UNIT = 32
"""Servers on one leaf of a rail: a leaf of 64 ports has as many towards spines."""
LEAST_UNIT = 8


def default_topology(n_hosts: int, rate_bps: int) -> str:
    """A rail fabric where servers of 8 fill it evenly, else the smallest fat tree."""
    servers, left = divmod(n_hosts, GPUS_PER_SERVER)
    unit = max((u for u in range(1, MOST_UNIT + 1) if servers % u == 0), default=1)
    if left or n_hosts < LEAST_RAIL or unit < min(servers, LEAST_UNIT):
        return fat_tree_of(n_hosts, rate_bps)
    shape = f"servers={servers},gpus={GPUS_PER_SERVER},spines={unit},unit={unit}"
    return f"rail:{shape},rate={rate_text(rate_bps)}"


def fat_tree_of(n_hosts: int, rate_bps: int) -> str:
    """The smallest fat tree with so many hosts.

    Raises:
        ConfigError: more than the largest holds.
    """
    for k in range(2, 66, 2):
        if k**3 // 4 >= n_hosts:
            return f"fat-tree:k={k},rate={rate_text(rate_bps)}"
    raise ConfigError("--gpus", n_hosts, "at most 65536 hosts; or name a topology")


def rate_text(rate_bps: int) -> str:
    """A rate as short as it can be said exactly."""
    for name, unit in (("Gbps", 10**9), ("Mbps", 10**6), ("kbps", 10**3)):
        if rate_bps % unit == 0:
            return f"{rate_bps // unit}{name}"
    return f"{rate_bps}bps"


def check_size(topology: str, n_hosts: int, needed: int) -> None:
    """Raise ConfigError where a fabric has fewer hosts than a study needs."""
    if n_hosts < needed:
        raise ConfigError(
            "--topology", f"{topology} with {n_hosts} hosts", f"{needed} hosts or more"
        )
