"""Collectives of one training iteration: who, what, how much, how often.

A rank is (stage, replica, shard), the shard counting fastest. Letters: b = sequences of a
micro-batch, s = tokens of a sequence, h = hidden size, m = micro-batches of an iteration, k =
experts of a token; t, p, d = degrees of tensor, pipeline and data parallelism.

    TP  an all-reduce of b s h after attention and one after each MLP, forward and backward, and
        forward again where activations are recomputed; one for the embedding forward (first
        stage), one for the head backward (last stage). With sequence parallelism each is an
        all-gather and a reduce-scatter of the same bytes.
    PP  b s h to the next stage forward, to the one before backward, by each shard; b s h / t
        with sequence parallelism.
    DP  gradients of a rank's share: all-reduce (zero 0); reduce-scatter, and all-gather of the
        weights (zero 1, 2); for zero 3 all-gather forward, all-gather backward, reduce-scatter,
        each for every micro-batch.
    EP  tokens to experts and back, an all-to-all each, in every layer that routes: twice
        forward, twice backward, twice again where recomputed. A rank has b s / t tokens of a
        micro-batch; all k copies of each are counted, as without de-duplication.

Assumptions: layers are dealt to stages in order, the first stages take those left over.
Parameters are shared out evenly over p t (dense) and p times the expert degree (experts); in
truth the first stage has the embeddings on top. Without expert parallelism experts are split by
t, as a dense MLP is. Sizes that groups must divide are rounded up. Left out: the three numbers
a token of a vocabulary-parallel loss, norms of gradients, and the copy of a tied head.

How gpt-3b-32 was fitted. Known: 32 GPUs, 85 GB of TP, 1 GB of PP, 741 MB of DP, messages of 125
MB for TP and PP. 36 layers of 2560 with GPT-2's vocabulary and 2048 places are 2,966,259,200
parameters, and an eighth of them in 2 bytes, or a sixteenth in 4, are 741.6 MB; 12 sequences of
2048 x 2560 x 2 bytes are a message of 125.8 MB; 8 of those are 1.007 GB. Volumes here are what
one GPU sends in a ring: with d = 2 that is the buffer itself, so p t = 16 and gradients of 4
bytes; t = 4, p = 4, m = 8 and recomputation give 83.0 GB of TP on the first and the last stage
(81.5 inside), 2.3 % below. 1 GB of PP is one direction of one boundary; a stage inside sends
twice that. Shape, micro-batch and message are fitted to the figures; t, p, m and recomputation
are the one set found that counts all three alike, not one that the source was seen to give.
p = 2, d = 4, m = 4 fits as well where DP is counted as a buffer and TP as sent.
"""

from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.work.collective import Collective, Kind
from fanfold.work.model import Dtype, Model, bytes_of, count_params
from fanfold.work.token_bytes import token_bytes

I64 = NDArray[np.int64]
Parallelism = Literal["TP", "PP", "DP", "EP"]
Move = Kind | Literal["point_to_point"]
Degree = Annotated[int, Meta(ge=1, le=2**20)]
MAX_GPUS = 2**20


class Degrees(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a model is laid out on GPUs; the data-parallel degree is what is left.

    zero: 0 none, 1..3 as ZeRO, 3 is FSDP. micro_batch: sequences. n_micro: micro-batches of an
    iteration. seq: tokens of a sequence. recompute: layers run forward again in the backward
    pass. act_dtype: of activations, also of combined tokens; dispatch_dtype: of tokens on the
    way to experts.
    """

    gpus: Annotated[int, Meta(ge=1, le=MAX_GPUS)]
    tp: Degree = 1
    pp: Degree = 1
    ep: Degree = 1
    zero: Annotated[int, Meta(ge=0, le=3)] = 0
    micro_batch: Degree = 1
    n_micro: Degree = 1
    seq: Degree = 4096
    recompute: bool = False
    sequence_parallel: bool = False
    act_dtype: Dtype = "bf16"
    grad_dtype: Dtype = "bf16"
    param_dtype: Dtype = "bf16"
    dispatch_dtype: Dtype = "bf16"

    @property
    def dp(self) -> int:
        """Replicas of the model."""
        return self.gpus // (self.tp * self.pp)


class Transfer(NamedTuple):
    """One collective that every group does ``calls`` times an iteration.

    n_bytes: as work/collective.py counts them; for point_to_point what the first sends the
    second. groups: (G, n) ranks; of point_to_point (G, 2) sender and receiver.
    """

    parallelism: Parallelism
    name: str
    stage: int
    kind: Move
    n_bytes: int
    calls: int
    groups: I64

    @property
    def size(self) -> int:
        """Ranks of a group."""
        return int(self.groups.shape[1])

    def sent_bytes(self) -> int:
        """Bytes that one member sends in an iteration, by the ring; rounded up."""
        return self.calls * wire_bytes(self.kind, self.n_bytes, self.size)

    def collective(self, group: int) -> Collective:
        """One group's operation, ranks as hosts; a point_to_point is a broadcast to one."""
        kind = "broadcast" if self.kind == "point_to_point" else self.kind
        return Collective(kind, self.n_bytes, tuple(self.groups[group].tolist()))


def wire_bytes(kind: Move, n_bytes: int, n: int) -> int:
    """Bytes that one of n ranks sends: what the ring, or one copy to each, needs at least."""
    match kind:
        case "point_to_point":
            return n_bytes
        case "all_reduce":
            return -(-2 * (n - 1) * n_bytes // n)
        case "all_gather" | "reduce_scatter" | "all_to_all":
            return -(-(n - 1) * n_bytes // n)
        case "broadcast" | "reduce":
            return n_bytes if n > 1 else 0


def check_degrees(model: Model, degrees: Degrees) -> None:
    """What no single field shows.

    Raises:
        ConfigError: degrees that do not divide what they share out, by name.
    """
    at = degrees
    if at.gpus % (at.tp * at.pp):
        raise ConfigError("gpus", at.gpus, f"a multiple of tp x pp, {at.tp * at.pp}")
    if at.pp > model.n_layers:
        raise ConfigError("pp", at.pp, f"1..{model.n_layers}, the layers")
    if model.attention.n_heads % at.tp:
        raise ConfigError("tp", at.tp, f"a divisor of {model.attention.n_heads} heads")
    if at.zero == 3 and at.pp > 1:
        raise ConfigError("zero", at.zero, "0..2 beside pipeline parallelism")
    if at.ep > 1:
        n = model.experts.n_routed if model.experts else 1
        if n % at.ep or (at.dp * at.tp) % at.ep:
            allowed = f"a divisor of {n} experts and of {at.dp * at.tp} ranks of a stage"
            raise ConfigError("ep", at.ep, allowed)


def layers_of(model: Model, degrees: Degrees) -> tuple[range, ...]:
    """Layers of each stage."""
    each, left = divmod(model.n_layers, degrees.pp)
    ends = [0]
    for stage in range(degrees.pp):
        ends.append(ends[-1] + each + int(stage < left))
    return tuple(range(a, b) for a, b in pairwise(ends))


def plan_iteration(model: Model, degrees: Degrees) -> tuple[Transfer, ...]:
    """All transfers of one iteration, those of groups of one left out.

    Raises:
        ConfigError: degrees that do not fit the model, by name.
    """
    check_degrees(model, degrees)
    ranks = np.arange(degrees.gpus, dtype=np.int64)
    grid = ranks.reshape(degrees.pp, degrees.dp, degrees.tp)
    found = [
        *_tensor(model, degrees, grid),
        *_pipeline(model, degrees, grid),
        *_experts(model, degrees, grid),
        *_data(model, degrees, grid),
    ]
    return tuple(t for t in found if t.size > 1 and t.calls and t.n_bytes)


def _activation_bytes(model: Model, degrees: Degrees) -> int:
    n_tokens = degrees.micro_batch * degrees.seq
    return bytes_of(n_tokens * model.hidden, degrees.act_dtype)


def _up(n_bytes: int, n: int) -> int:
    """Rounded up to what n ranks can share."""
    return -(-n_bytes // n) * n


def _tensor(model: Model, degrees: Degrees, grid: I64) -> list[Transfer]:
    m = degrees.n_micro
    passes = 3 if degrees.recompute else 2
    n_bytes = _activation_bytes(model, degrees)
    found = []
    for stage, layers in enumerate(layers_of(model, degrees)):
        alone = [i for i in layers if i in model.moe_layers and not _is_split(model, degrees)]
        n_calls = m * passes * (2 * len(layers) - len(alone))
        parts = [("layers", n_calls)]
        if stage == 0:
            parts.append(("embedding", m))
        if stage == degrees.pp - 1:
            parts.append(("head", m))
        for name, calls in parts:
            found += _reduced(degrees, name, stage, n_bytes, calls, grid[stage])
    return found


def _is_split(model: Model, degrees: Degrees) -> bool:
    """Layers that route have something that is split by tensor parallelism."""
    e = model.experts
    return degrees.ep == 1 or (e is not None and e.shared_inner > 0)


def _reduced(
    degrees: Degrees, name: str, stage: int, n_bytes: int, calls: int, groups: I64
) -> list[Transfer]:
    if not degrees.sequence_parallel:
        return [Transfer("TP", name, stage, "all_reduce", n_bytes, calls, groups)]
    n_bytes = _up(n_bytes, degrees.tp)
    return [
        Transfer("TP", f"{name}, gather", stage, "all_gather", n_bytes, calls, groups),
        Transfer("TP", f"{name}, scatter", stage, "reduce_scatter", n_bytes, calls, groups),
    ]


def _pipeline(model: Model, degrees: Degrees, grid: I64) -> list[Transfer]:
    n_bytes = _activation_bytes(model, degrees)
    if degrees.sequence_parallel:
        n_bytes = -(-n_bytes // degrees.tp)
    flat = grid.reshape(degrees.pp, -1)
    found = []
    for stage in range(degrees.pp - 1):
        on = np.stack((flat[stage], flat[stage + 1]), axis=1)
        for name, at, pairs in (
            ("activations", stage, on),
            ("gradients", stage + 1, on[:, ::-1]),
        ):
            found.append(
                Transfer("PP", name, at, "point_to_point", n_bytes, degrees.n_micro, pairs)
            )
    return found


def _experts(model: Model, degrees: Degrees, grid: I64) -> list[Transfer]:
    e = model.experts
    if e is None:
        return []
    n_tokens = -(-degrees.micro_batch * degrees.seq // degrees.tp)
    there = n_tokens * e.top_k * token_bytes(model.hidden, degrees.dispatch_dtype)
    back = n_tokens * e.top_k * token_bytes(model.hidden, degrees.act_dtype)
    again = int(degrees.recompute)
    found = []
    for stage, layers in enumerate(layers_of(model, degrees)):
        calls = degrees.n_micro * sum(i in e.layers for i in layers)
        groups = grid[stage].reshape(-1, degrees.ep)
        # Backward, the gradient of what came back goes the way of a dispatch in full precision.
        for name, n_bytes, times in (
            ("dispatch", there, 1 + again),
            ("combine", back, 1 + again),
            ("gradients", back, 2),
        ):
            size = _up(n_bytes, degrees.ep)
            found.append(Transfer("EP", name, stage, "all_to_all", size, times * calls, groups))
    return found


def _data(model: Model, degrees: Degrees, grid: I64) -> list[Transfer]:
    parts = count_params(model)
    n_experts = parts["experts"] if degrees.ep > 1 else 0
    dense = -(-(sum(parts.values()) - n_experts) // (degrees.pp * degrees.tp))
    replicas = grid.transpose(0, 2, 1).reshape(-1, degrees.dp)
    found = _synced(degrees, "dense", dense, replicas)
    if n_experts:
        share = -(-n_experts // (degrees.pp * degrees.ep))
        alike = grid.reshape(degrees.pp, -1, degrees.ep).transpose(0, 2, 1)
        found += _synced(degrees, "experts", share, alike.reshape(-1, alike.shape[2]))
    return found


def _synced(degrees: Degrees, name: str, n_params: int, groups: I64) -> list[Transfer]:
    n = groups.shape[1]
    grads = bytes_of(n_params, degrees.grad_dtype)
    if degrees.zero == 0:
        return [Transfer("DP", f"{name} gradients", -1, "all_reduce", grads, 1, groups)]
    weights = _up(bytes_of(n_params, degrees.param_dtype), n)
    times, gathers = (degrees.n_micro, 2) if degrees.zero == 3 else (1, 1)
    return [
        Transfer("DP", f"{name} gradients", -1, "reduce_scatter", _up(grads, n), times, groups),
        Transfer("DP", f"{name} weights", -1, "all_gather", weights, gathers * times, groups),
    ]
