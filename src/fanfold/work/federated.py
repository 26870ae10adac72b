"""Rounds of federated learning by how centralised they are (draft-ai-traffic-00, figure 3).

In each round a worker gets a model, trains it on data of its own, and gives it away. Letters:
N = workers, C = clusters, d = neighbours, B = bytes of a model.

    centralised            a server sends B to each of N and gets B from each
    semi                   C heads do so for N / C workers each, then each head sends its own
                           model to the C - 1 others
    decentralised          each worker sends B to d neighbours on a ring, the nearest on either
                           side, or to all others

By unicast a copy is sent to each; by fan one copy leaves, whoever gets it. What comes back is a
model of each worker's own: no scheme saves bytes on it.
"""

from typing import Literal, NamedTuple

from fanfold.errors import ConfigError

Setting = Literal["centralised", "semi", "decentralised"]
Way = Literal["unicast", "fan"]


class Round(NamedTuple):
    """One round. ``busiest``: the server, a head, or any worker where all are alike.

    incast: nodes that send to the busiest at once. total_bytes: that all nodes send.
    hops_to_all: transfers, one after the other, until a worker's update is in every model.
    """

    setting: Setting
    way: Way
    worker_sends_bytes: int
    busiest_sends_bytes: int
    busiest_gets_bytes: int
    incast: int
    total_bytes: int
    hops_to_all: int


def centralised(n_bytes: int, workers: int, way: Way) -> Round:
    """One server for all."""
    _check_workers(workers)
    down = n_bytes * (1 if way == "fan" else workers)
    up = n_bytes * workers
    return Round("centralised", way, n_bytes, down, up, workers, down + up, 2)


def semi_decentralised(n_bytes: int, workers: int, clusters: int, way: Way) -> Round:
    """A head for each cluster, heads among themselves.

    Raises:
        ConfigError: clusters that do not divide the workers, or only one.
    """
    _check_workers(workers)
    if clusters < 2 or workers % clusters:
        raise ConfigError("clusters", clusters, f"a divisor of {workers} workers, 2 or more")
    each, others = workers // clusters, clusters - 1
    down = n_bytes * (1 if way == "fan" else each)
    across = n_bytes * (1 if way == "fan" else others)
    gets = n_bytes * max(each, others)
    total = clusters * (down + across) + workers * n_bytes
    return Round(
        "semi",
        way,
        n_bytes,
        down + across,
        n_bytes * (each + others),
        gets // n_bytes,
        total,
        3,
    )


def decentralised(n_bytes: int, workers: int, neighbours: int, way: Way) -> Round:
    """Everybody with neighbours.

    Raises:
        ConfigError: a number of neighbours that no such ring has.
    """
    _check_workers(workers)
    is_mesh = neighbours == workers - 1
    if not is_mesh and (neighbours % 2 or not 2 <= neighbours < workers):
        allowed = f"even, 2..{workers - 1}, or {workers - 1}, all others"
        raise ConfigError("neighbours", neighbours, allowed)
    sends = n_bytes * (1 if way == "fan" else neighbours)
    hops = 1 if is_mesh else -(-(workers // 2) // (neighbours // 2))
    gets = n_bytes * neighbours
    return Round("decentralised", way, sends, sends, gets, neighbours, sends * workers, hops)


def _check_workers(workers: int) -> None:
    if workers < 2:
        raise ConfigError("workers", workers, "2 or more")
