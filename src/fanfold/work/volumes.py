"""What a workload moves, as rows for a table: one function for each row of the catalog.

Values are integers and words; a column's name ends in its unit.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from fanfold.errors import ConfigError
from fanfold.streams import stream
from fanfold.work.gate import DEFAULT_SKEW_MILLI, GateKind, draw_choices, expert_loads
from fanfold.work.gate_trace import load_choices
from fanfold.work.inter_dc import PRICE_MICRO, RTT_PS
from fanfold.work.model import Dtype, Model, bytes_of, count_params, stored_bytes, total_params
from fanfold.work.moe import (
    Counts,
    Dispatch,
    build_dispatch,
    check_cells,
    count_copies,
    place_experts,
    place_tokens,
)
from fanfold.work.parallel import Degrees, Parallelism, Transfer, plan_iteration
from fanfold.work.push import (
    Region,
    cold_start_fan,
    cold_start_unicast,
    draw_arrivals,
    wan_egress,
)
from fanfold.work.token_bytes import token_bytes
from fanfold.work.weights import Weights

Row = dict[str, int | str]
Count = Annotated[int, Meta(ge=1, le=2**24)]


class WorkloadRequest(msgspec.Struct, frozen=True):
    """What may be asked for beside the model; each workload reads what concerns it.

    gate: None is node-limited where the model limits nodes, else uniform. trace: instead of a
    gate. n_ranks: that hold experts, 0: ``ep`` of the degrees, else all GPUs. tokens: of all
    ranks together, 0: 128 a rank. bitstring_bits: 0 is the shortest that holds all ranks.
    n_bytes: of what is pushed, 0: the model as stored. first_bytes: of the first layer, 0: an
    even share of the layers. weights: as stored, where an index says so. rounds, clusters,
    neighbours: of federated learning; 0 neighbours are all others. every_ps: between two syncs.
    latency_ps: of the network, one way. flops_per_s: that a GPU reaches. rtts_ps: of regions,
    in turn. price_micro: of a GB, millionths.
    """

    model: Model
    degrees: Degrees
    seed: int = 1
    gate: GateKind | None = None
    skew_milli: int = DEFAULT_SKEW_MILLI
    trace: Path | None = None
    n_ranks: int = 0
    tokens: int = 0
    ranks_per_node: Count = 8
    bitstring_bits: int = 0
    payload_bytes: int = 0
    n_bytes: int = 0
    first_bytes: int = 0
    weights: Weights | None = None
    regions: Count = 4
    replicas: Count = 8
    rate_bps: int = 400_000_000_000
    within_ps: int = 10_000_000_000_000
    rounds: Count = 1
    clusters: Count = 4
    neighbours: int = 2
    every_ps: int = 10_000_000_000
    latency_ps: int = 5_000_000
    flops_per_s: int = 400_000_000_000_000
    rtts_ps: tuple[int, ...] = RTT_PS
    price_micro: int = PRICE_MICRO


TOKENS_A_RANK = 128
"""Of a decoding step; the published benchmarks of DeepEP use it."""
MIN_BITS, MAX_BITS = 64, 4096
SHOWN: tuple[Dtype, ...] = ("fp32", "bf16", "fp8", "int4")


def parameters(ask: WorkloadRequest) -> list[Row]:
    """Parameters of each part, and bytes by data type."""
    parts = count_params(ask.model)
    rows: list[Row] = [_sized(part, n) for part, n in parts.items() if n]
    return [*rows, _sized("all", total_params(ask.model))]


def training(ask: WorkloadRequest) -> list[Row]:
    """One row for each kind of transfer: that of the stage that sends most by it."""
    most: dict[tuple[str, str], Transfer] = {}
    for transfer in plan_iteration(ask.model, ask.degrees):
        key = transfer.parallelism, transfer.name
        if key not in most or transfer.sent_bytes() > most[key].sent_bytes():
            most[key] = transfer
    return [
        {
            "parallelism": t.parallelism,
            "transfer": t.name,
            "kind": t.kind,
            "ranks": t.size,
            "groups": len(t.groups),
            "calls": t.calls,
            "call_bytes": t.n_bytes,
            "gpu_sends_bytes": t.sent_bytes(),
        }
        for t in most.values()
    ]


def sent_by_parallelism(transfers: Sequence[Transfer]) -> dict[Parallelism, int]:
    """Bytes that one GPU of the busiest stage sends; of PP those of one boundary, one way."""
    by_stage: dict[tuple[Parallelism, int], int] = {}
    for t in transfers:
        key = t.parallelism, t.stage
        so_far = by_stage.get(key, 0)
        sent = t.sent_bytes()
        by_stage[key] = max(so_far, sent) if t.parallelism == "PP" else so_far + sent
    most: dict[Parallelism, int] = {}
    for (parallelism, _), sent in by_stage.items():
        most[parallelism] = max(most.get(parallelism, 0), sent)
    return most


def dispatch_of(ask: WorkloadRequest) -> Dispatch:
    """Dispatch of one MoE layer.

    Raises:
        ConfigError: a model without experts, or numbers that do not fit, by name.
    """
    experts = ask.model.experts
    if experts is None:
        raise ConfigError("model", ask.model.name, "one with routed experts")
    degrees = ask.degrees
    n_ranks = ask.n_ranks or (degrees.ep if degrees.ep > 1 else degrees.gpus)
    if ask.trace is not None:
        choices = load_choices(ask.trace, experts.n_routed)
    else:
        limited: GateKind = "node-limited" if experts.n_groups > 1 else "uniform"
        n_tokens = ask.tokens or TOKENS_A_RANK * n_ranks
        check_cells(n_tokens, n_ranks)
        rng = stream(ask.seed, "moe/gate")
        choices = draw_choices(rng, ask.gate or limited, experts, n_tokens, ask.skew_milli)
    where = place_experts(experts.n_routed, n_ranks)
    tokens = place_tokens(len(choices), n_ranks)
    per_node = min(ask.ranks_per_node, n_ranks)
    return build_dispatch(choices, where, tokens, n_ranks, per_node)


def moe_counts(ask: WorkloadRequest, made: Dispatch) -> Counts:
    """Copies and bytes of a dispatch and its combine, with the data types of the degrees."""
    width = MIN_BITS
    while width < min(made.n_ranks, MAX_BITS):
        width *= 2
    return count_copies(
        made,
        token_bytes(ask.model.hidden, ask.degrees.dispatch_dtype),
        token_bytes(ask.model.hidden, ask.degrees.act_dtype),
        ask.bitstring_bits or width,
        ask.payload_bytes,
    )


def moe_dispatch(ask: WorkloadRequest) -> list[Row]:
    """One row for each way of dispatch and combine."""
    made = dispatch_of(ask)
    counts = moe_counts(ask, made)
    loads = expert_loads(made.choices, int(made.choices.max()) + 1)
    ways = (
        ("by expert", counts.copies_by_expert, counts.dispatch_bytes_by_expert),
        ("by rank", counts.copies_by_rank, counts.dispatch_bytes_by_rank),
        ("by node", counts.copies_by_node, counts.dispatch_bytes_by_node),
        ("multicast", counts.copies_multicast, counts.dispatch_bytes_multicast),
    )
    backs = (
        counts.combine_bytes_by_expert,
        counts.combine_bytes_by_rank,
        counts.combine_bytes_by_node,
        counts.combine_bytes_folded,
    )
    return [
        {
            "way": way,
            "copies": copies,
            "dispatch_bytes": n_bytes,
            "combine_bytes": back,
            "header_bytes": counts.header_bytes if way == "multicast" else 0,
            "header_share_ppb": counts.header_share_ppb if way == "multicast" else 0,
            "tokens": counts.n_tokens,
            "sets": counts.n_sets,
            "busiest_expert_tokens": int(loads.max()),
        }
        for (way, copies, n_bytes), back in zip(ways, backs, strict=True)
    ]


def model_push(ask: WorkloadRequest) -> list[Row]:
    """Bytes over the WAN for a model to regions with some replicas each."""
    n_bytes = pushed_bytes(ask)
    regions = tuple(Region(f"r{i}", ask.replicas) for i in range(ask.regions))
    egress = wan_egress(n_bytes, regions)
    return [
        {"scheme": name.replace("_", " "), "wan_bytes": sent, "copies": sent // n_bytes}
        for name, sent in egress._asdict().items()
    ]


def cold_start(ask: WorkloadRequest) -> list[Row]:
    """When replicas that join within some seconds have the first layer, and all."""
    n_bytes = pushed_bytes(ask)
    first = ask.first_bytes or max(n_bytes // ask.model.n_layers, 1)
    if ask.weights is not None and not (ask.n_bytes or ask.first_bytes):
        first = ask.weights.first_layer_bytes
    times = draw_arrivals(stream(ask.seed, "cold-start/arrivals"), ask.replicas, ask.within_ps)
    rows: list[Row] = []
    for scheme, start in (("unicast", cold_start_unicast), ("fan", cold_start_fan)):
        got = start(times, n_bytes, first, ask.rate_bps)
        rows.append(
            {
                "scheme": scheme,
                "source_bytes": got.source_bytes,
                "first_layer_median_ps": int(np.sort(got.first_layer_ps)[times.size // 2]),
                "first_layer_last_ps": int(got.first_layer_ps.max()),
                "all_median_ps": int(np.sort(got.all_ps)[times.size // 2]),
                "all_last_ps": int(got.all_ps.max()),
            }
        )
    return rows


def pushed_bytes(ask: WorkloadRequest) -> int:
    """Size given, else the weights as stored."""
    stored = ask.weights.n_bytes if ask.weights else 0
    return ask.n_bytes or stored or stored_bytes(ask.model)


def _sized(part: str, n: int) -> Row:
    row: Row = {"part": part, "parameters": n}
    for dtype in SHOWN:
        row[f"{dtype}_bytes"] = bytes_of(n, dtype)
    return row
