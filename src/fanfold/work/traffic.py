"""Rows of the workloads beside training, dispatch and pushes: one function for each.

As in work/volumes.py values are integers and words, and a column's name ends in its unit.
"""

from fanfold.units import PS_PER_SECOND
from fanfold.work.budgets import BUDGET_PS, judge
from fanfold.work.checkpoint import checkpoint_bytes, write_ways
from fanfold.work.federated import Way, centralised, decentralised, semi_decentralised
from fanfold.work.incast import direct, folded, tree
from fanfold.work.inter_dc import wan_pushes
from fanfold.work.model import bytes_of, stored_bytes, total_params
from fanfold.work.parallel import Transfer, plan_iteration
from fanfold.work.push import Region, send_ps
from fanfold.work.roles import traffic_by_role
from fanfold.work.serving import BLOCK_TOKENS, TOKEN_ID_BYTES, cache_bytes, sync_ways
from fanfold.work.steps import bursts_of, compute_ps
from fanfold.work.volumes import SHOWN, Row, WorkloadRequest, pushed_bytes
from fanfold.work.weights import weights_of

SIZES = (125_000_000, 1_300_000_000, 7_000_000_000, 70_000_000_000, 405_000_000_000)
"""Parameters; the ends are those of draft-ai-traffic-00, section 3.2."""
INTER_DC_BYTES = 500 * 10**9
BY_SIZE = ("model-push", "checkpoint", "federated", "state-sync", "inter-dc")
"""Workloads that look at no model where a size is given."""
WAYS: tuple[Way, ...] = ("unicast", "fan")


def given_bytes(name: str, ask: WorkloadRequest) -> int:
    """Bytes that a workload moves whatever the model is; 0 where the model decides."""
    if name == "inter-dc":
        return ask.n_bytes or INTER_DC_BYTES
    return ask.n_bytes if name in BY_SIZE else 0


def sizes(ask: WorkloadRequest) -> list[Row]:
    """Bytes by number of parameters and data type; the model asked for comes last."""
    counts = [(f"{n:,}", n) for n in SIZES]
    counts.append((ask.model.name, total_params(ask.model)))
    return [
        {"model": name, "parameters": n, **{f"{d}_bytes": bytes_of(n, d) for d in SHOWN}}
        for name, n in counts
    ]


def layers(ask: WorkloadRequest) -> list[Row]:
    """Weights in the order in which they are needed, then by file where there is an index."""
    held = ask.weights or weights_of(ask.model)
    parts = [("embeddings", held.first)]
    parts += [(f"layer {i}", n) for i, n in enumerate(held.layers)]
    parts.append(("rest", held.last))
    so_far = 0
    rows: list[Row] = []
    for part, n_bytes in parts:
        so_far += n_bytes
        rows.append(
            {
                "part": part,
                "own_bytes": n_bytes,
                "so_far_bytes": so_far,
                "there_ps": send_ps(so_far, ask.rate_bps),
            }
        )
    for shard in held.shards:
        told = f"{shard.name}, {shard.tensors} tensors"
        at = send_ps(shard.n_bytes, ask.rate_bps)
        size = shard.n_bytes
        rows.append({"part": told, "own_bytes": size, "so_far_bytes": size, "there_ps": at})
    return rows


def budgets(ask: WorkloadRequest) -> list[Row]:
    """Each parallelism: its limit, the latency given, and what one call takes on a link."""
    largest: dict[str, Transfer] = {}
    for transfer in plan_iteration(ask.model, ask.degrees):
        known = largest.get(transfer.parallelism, transfer)
        if transfer.n_bytes >= known.n_bytes:
            largest[transfer.parallelism] = transfer
    rows: list[Row] = []
    for parallelism in BUDGET_PS:
        verdict = judge(parallelism, ask.latency_ps)
        call = largest.get(parallelism)
        sent = call.sent_bytes() // call.calls if call else 0
        rows.append(
            {
                "parallelism": parallelism,
                "budget_ps": verdict.budget_ps,
                "latency_ps": verdict.latency_ps,
                "verdict": "pass" if verdict.passes else "fail",
                "call_sends_bytes": sent,
                "call_sends_ps": send_ps(sent, ask.rate_bps),
            }
        )
    return rows


def bursts(ask: WorkloadRequest) -> list[Row]:
    """On and off times of an iteration, by parallelism."""
    busy_ps = compute_ps(ask.model, ask.degrees, ask.flops_per_s)
    found = bursts_of(plan_iteration(ask.model, ask.degrees), busy_ps, ask.rate_bps)
    return [
        {
            "parallelism": b.parallelism,
            "bursts": b.n_bursts,
            "burst_bytes": b.burst_bytes,
            "gpus_at_once": b.senders,
            "on_ps": b.on_ps,
            "off_ps": b.off_ps,
            "computing_ps": busy_ps,
            "peak_to_mean_milli": b.factor_milli,
        }
        for b in found
    ]


def checkpoint(ask: WorkloadRequest) -> list[Row]:
    """Ways of writing one checkpoint."""
    n_bytes = ask.n_bytes or checkpoint_bytes(ask.model)
    return [
        {
            "scheme": w.scheme,
            "checkpoint_bytes": n_bytes,
            "gpu_sends_bytes": w.gpu_sends_bytes,
            "hosts_send_bytes": w.hosts_send_bytes,
            "stall_ps": w.stall_ps,
            "acks_a_gpu": w.acks,
        }
        for w in write_ways(n_bytes, ask.degrees.gpus, ask.replicas, ask.rate_bps)
    ]


def inter_dc(ask: WorkloadRequest) -> list[Row]:
    """500 GB to regions, or what is asked for."""
    regions = tuple(Region(f"r{i}", ask.replicas) for i in range(ask.regions))
    rtts = tuple(ask.rtts_ps[i % len(ask.rtts_ps)] for i in range(ask.regions))
    n_bytes = ask.n_bytes or INTER_DC_BYTES
    return [
        {
            "scheme": p.scheme,
            "wan_bytes": p.wan_bytes,
            "all_ps": p.all_ps,
            "window_bytes": p.window_bytes,
            "price_micro_usd": p.price_micro,
        }
        for p in wan_pushes(n_bytes, regions, rtts, ask.rate_bps, ask.price_micro)
    ]


def federated(ask: WorkloadRequest) -> list[Row]:
    """Three settings, two ways each; workers are the replicas."""
    n_bytes, n = pushed_bytes(ask), ask.replicas
    neighbours = ask.neighbours or n - 1
    rows: list[Row] = []
    for way in WAYS:
        for r in (
            centralised(n_bytes, n, way),
            semi_decentralised(n_bytes, n, ask.clusters, way),
            decentralised(n_bytes, n, neighbours, way),
        ):
            rows.append(
                {
                    "setting": r.setting,
                    "way": r.way,
                    "worker_sends_bytes": r.worker_sends_bytes,
                    "busiest_sends_bytes": r.busiest_sends_bytes,
                    "busiest_gets_bytes": r.busiest_gets_bytes,
                    "incast": r.incast,
                    "hops": r.hops_to_all,
                    "rounds": ask.rounds,
                    "total_bytes": ask.rounds * r.total_bytes,
                }
            )
    return rows


def incasts(ask: WorkloadRequest) -> list[Row]:
    """Updates to an aggregator; contexts, and prompts alone, to an inference engine."""
    n, rate = ask.replicas, ask.rate_bps
    window = -(-rate * 2 * ask.latency_ps // (8 * PS_PER_SECOND))
    update = pushed_bytes(ask)
    tokens = ask.degrees.seq * TOKEN_ID_BYTES
    context = cache_bytes(ask.model, ask.degrees.seq, ask.degrees.act_dtype)
    found = (
        ("aggregator", "an update", update, direct(n, update, window, rate)),
        ("aggregator", "an update", update, tree(n, update, window, rate)),
        ("aggregator", "an update", update, folded(update, rate)),
        ("engine", "context", context, direct(n, context, window, rate)),
        ("engine", "prompt", tokens, direct(n, tokens, window, rate)),
    )
    return [
        {
            "receiver": receiver,
            "of_each": what,
            "way": at.way,
            "each_bytes": each,
            "into_bytes": at.into_bytes,
            "queue_bytes": at.queue_bytes,
            "time_ps": at.time_ps,
        }
        for receiver, what, each, at in found
    ]


def state_sync(ask: WorkloadRequest) -> list[Row]:
    """A block of keys and values to all replicas, again and again."""
    n_bytes = ask.n_bytes or cache_bytes(ask.model, BLOCK_TOKENS, ask.degrees.act_dtype)
    return [
        {
            "scheme": s.scheme,
            "state_bytes": n_bytes,
            "every_ps": ask.every_ps,
            "messages_a_second": s.messages_per_s,
            "source_bps": s.source_bps,
            "acks_a_second": s.acks_per_s,
        }
        for s in sync_ways(n_bytes, ask.every_ps, ask.replicas)
    ]


def roles(ask: WorkloadRequest) -> list[Row]:
    """Traffic of one node of each role; workers are the GPUs, engines the replicas."""
    at = ask.degrees
    n_tokens = at.micro_batch * at.n_micro * at.seq * at.dp
    weights = stored_bytes(ask.model)
    found = traffic_by_role(weights, at.gpus, ask.replicas, n_tokens)
    return [
        {
            "role": t.role,
            "nodes": t.nodes,
            "gets_bytes": t.gets_bytes,
            "sends_bytes": t.sends_bytes,
            "fan_sends_bytes": t.fan_sends_bytes,
            "peers": t.peers,
        }
        for t in found
    ]
