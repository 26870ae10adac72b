"""A checkpoint of a training job, written to R storage replicas by all GPUs at once.

Each GPU writes its own shard and waits until all R have it on disk. The state is what Adam in
mixed precision needs to go on: the weights as stored and, for each parameter, 12 bytes: a copy
of the weights and two moments, in 4 bytes each (Rajbhandari et al., ZeRO, 2020, section 3.1).

    unicast    a GPU sends its shard R times
    chain      it sends it once; replica i passes it on to replica i + 1 while it comes
    fan        it sends it once; the network makes the copies
"""

from typing import NamedTuple

from fanfold.work.model import Model, stored_bytes, total_params
from fanfold.work.push import send_ps

OPTIMIZER_BYTES = 12


class Write(NamedTuple):
    """One way of writing.

    gpu_sends_bytes: of one GPU; hosts_send_bytes: all of them, storage included. stall_ps: at
    the least that a GPU's link is busy. acks: that reach a GPU for one shard, each saying that
    it is on disk.
    """

    scheme: str
    gpu_sends_bytes: int
    hosts_send_bytes: int
    stall_ps: int
    acks: int


def checkpoint_bytes(model: Model) -> int:
    """Bytes of the whole state."""
    return stored_bytes(model) + OPTIMIZER_BYTES * total_params(model)


def write_ways(n_bytes: int, gpus: int, replicas: int, rate_bps: int) -> tuple[Write, ...]:
    """Every way of writing ``n_bytes`` from ``gpus`` to ``replicas``; shards rounded up."""
    shard = -(-n_bytes // gpus)
    one_ps = send_ps(shard, rate_bps)
    all_bytes = gpus * shard
    return (
        Write(
            "unicast",
            replicas * shard,
            replicas * all_bytes,
            send_ps(replicas * shard, rate_bps),
            replicas,
        ),
        Write("chain", shard, replicas * all_bytes, one_ps, 1),
        Write("fan", shard, all_bytes, one_ps, 1),
    )
