"""One collective operation over some hosts of a net.

``n_bytes`` as MPI and NCCL count it: broadcast, reduce, all_reduce: the whole vector at every
rank; all_gather, reduce_scatter: the whole vector, each rank's shard is n_bytes / ranks;
all_to_all: what one rank sends to all together. Sizes that do not divide are refused.
"""

from typing import Literal

import msgspec

Kind = Literal[
    "broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter", "all_to_all"
]


class Collective(msgspec.Struct, frozen=True):
    """Who takes part (host index by rank), what and how much; rank 0 is the root."""

    kind: Kind
    n_bytes: int
    hosts: tuple[int, ...]
