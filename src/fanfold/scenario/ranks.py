"""Which hosts the ranks of a workload are."""

from collections.abc import Sequence

from fanfold.errors import ConfigError
from fanfold.scenario.scenario import Order, Workload
from fanfold.streams import stream
from fanfold.work.collective import Collective


def place_ranks(workload: Workload, n_hosts: int, seed: int) -> Collective:
    """The collective of a workload on a net with ``n_hosts`` hosts.

    Raises:
        ConfigError: more ranks than hosts, or one host.
    """
    if n_hosts < 2:
        raise ConfigError("topology", f"{n_hosts} host", "two hosts or more")
    n = n_hosts if workload.ranks == "all" else workload.ranks
    if not 2 <= n <= n_hosts:
        raise ConfigError("workload.ranks", n, f"2..{n_hosts}, the hosts of the topology")
    hosts = _hosts(workload.order, n, n_hosts, seed)
    return Collective(workload.kind, workload.n_bytes, tuple(hosts))


def place_trace(order: Order, n_ranks: int, n_hosts: int, seed: int) -> tuple[int, ...]:
    """Host of each rank of a trace.

    Raises:
        ConfigError: more ranks than hosts.
    """
    if n_ranks > n_hosts:
        got = f"{n_ranks} ranks"
        raise ConfigError("trace.path", got, f"up to {n_hosts}, the hosts of the topology")
    return tuple(_hosts(order, n_ranks, n_hosts, seed))


def _hosts(order: Order, n: int, n_hosts: int, seed: int) -> Sequence[int]:
    match order:
        case "packed":
            return range(n)
        case "spread":
            return [i * n_hosts // n for i in range(n)]
        case "shuffled":
            drawn: list[int] = stream(seed, "ranks").permutation(n_hosts)[:n].tolist()
            return drawn


def sources_of(work: Collective) -> tuple[int, ...]:
    """Hosts that have something to send before anything has arrived."""
    match work.kind:
        case "broadcast":
            return work.hosts[:1]
        case "reduce":
            return work.hosts[1:]
        case _:
            return work.hosts
