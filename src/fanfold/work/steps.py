"""One training iteration as time: computing, sending, and how bursty the sending is.

A token costs 6 floating-point operations for each parameter that it meets, 2 forward and 4
backward (Kaplan et al., 2020, section 2.1), 8 where the forward pass is done again. Attention
over the sequence is left out: with a causal mask 2 x layers x seq x hidden more on the way
forward, 4 % at 4096 tokens of a model of 70 billion parameters. Nothing overlaps here:
computing and sending take turns, the on-off pattern of draft-ai-traffic-00, section 3.2, at
its strongest.
"""

from collections.abc import Sequence
from typing import NamedTuple

from fanfold.units import PS_PER_SECOND
from fanfold.work.model import Model, active_params
from fanfold.work.parallel import Degrees, Parallelism, Transfer
from fanfold.work.push import send_ps
from fanfold.work.volumes import sent_by_parallelism

FLOPS_A_PARAM, FLOPS_RECOMPUTED = 6, 8
MILLI = 1000


class Burst(NamedTuple):
    """One kind of transfers in an iteration, of one GPU and of all.

    n_bursts: calls. burst_bytes: that one GPU sends in each. senders: GPUs that do so at once.
    on_ps: that its link sends for it; off_ps: the rest of the iteration. factor_milli: highest
    over mean rate, in thousandths.
    """

    parallelism: Parallelism
    n_bursts: int
    burst_bytes: int
    senders: int
    on_ps: int
    off_ps: int
    factor_milli: int


def compute_ps(model: Model, degrees: Degrees, flops_per_s: int) -> int:
    """Time that each GPU computes in an iteration, at what it reaches; rounded up."""
    n_tokens = degrees.micro_batch * degrees.n_micro * degrees.seq
    each = FLOPS_RECOMPUTED if degrees.recompute else FLOPS_A_PARAM
    total = each * active_params(model) * n_tokens
    return -(-total * PS_PER_SECOND // (flops_per_s * degrees.tp * degrees.pp))


def bursts_of(transfers: Sequence[Transfer], busy_ps: int, rate_bps: int) -> list[Burst]:
    """A row for each parallelism that sends.

    Args:
        transfers: of one iteration. busy_ps: that a GPU computes in it. rate_bps: of its link.
    """
    sent = sent_by_parallelism(transfers)
    on = {kind: send_ps(n_bytes, rate_bps) for kind, n_bytes in sent.items()}
    period_ps = busy_ps + sum(on.values())
    rows = []
    for kind, on_ps in on.items():
        largest = max(
            (t for t in transfers if t.parallelism == kind), key=lambda t: t.sent_bytes()
        )
        n_groups, size = largest.groups.shape
        rows.append(
            Burst(
                kind,
                largest.calls,
                largest.sent_bytes() // largest.calls,
                int(n_groups if largest.kind == "point_to_point" else n_groups * size),
                on_ps,
                period_ps - on_ps,
                MILLI * period_ps // max(on_ps, 1),
            )
        )
    return rows
