"""Costs in people's terms: from the phases of one scheme to integers by name of a metric."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.results.outcome import Outcome
from fanfold.study.phases import Graph, Span, busy_ps, schedule
from fanfold.topo.net import Net

I64 = NDArray[np.int64]
PPM = 10**6
GB = 10**9
PJ_PER_MJ = 10**9
"""Also: watts times ps, in mJ."""


class Prices(NamedTuple):
    """Given by people; 0 where nobody did.

    micro_usd_per_gb: for bytes that leave. pj_per_bit: on a link. gpu_watts: of a GPU that
    waits.
    """

    micro_usd_per_gb: int = 0
    pj_per_bit: int = 0
    gpu_watts: int = 0


def step_costs(
    graph: Graph, lasts_ps: Mapping[str, int], moves: Mapping[str, Outcome]
) -> dict[str, int]:
    """Times of receivers and of the step.

    Args:
        lasts_ps: of every phase. moves: what came out of those that move bytes, by name.
    """
    spans = schedule(graph.phases, lasts_ps)
    step = max(span.end_ps for span in spans.values())
    times = _receivers(graph, moves, spans)
    busy = busy_ps(graph.phases, graph.gpus)
    values = {
        "time_all_ps": int(times.max(initial=0)),
        "time_p50_ps": _quantile(times, 50),
        "time_p99_ps": _quantile(times, 99),
        "straggler_ps": int(times.max(initial=0)) - _quantile(times, 50),
    }
    if busy.any():
        values |= {
            "step_ps": step,
            "utilisation_ppm": total_ps(busy) * PPM // max(step * graph.gpus, 1),
            "idle_gpu_ps": step * graph.gpus - total_ps(busy),
        }
    elif graph.waits == "gpus":
        values["idle_gpu_ps"] = step * graph.gpus
    else:
        values["idle_gpu_ps"] = total_ps(times)
    if graph.durable:
        values["durable_ps"] = spans[graph.durable].end_ps
    return values


def total_ps(times: I64) -> int:
    """Sum of times, in Python's integers: 107 days of one GPU are 2**63 ps."""
    return sum(times.tolist())


def _receivers(graph: Graph, moves: Mapping[str, Outcome], spans: Mapping[str, Span]) -> I64:
    """When each receiver has all, without the computing in between.

    A phase that another one follows counts as long as its last receiver, for each of them;
    the last one that gives a host anything counts as long as that host.
    """
    ready = {p.name: p.ready_ps for p in graph.phases}
    total: dict[int, int] = {}
    waited = 0
    for phase in graph.phases:
        if phase.name not in moves:
            continue
        outcome = moves[phase.name]
        (at,) = np.nonzero(outcome.due_bytes > 0)
        since = ready[phase.name]
        for host in at.tolist():
            came = 0 if since is None else int(since[host])
            total[host] = waited + int(outcome.host_ps[host]) - came
        waited += spans[phase.name].end_ps - spans[phase.name].start_ps
    return np.array(sorted(total.values()), np.int64)


def link_costs(
    net: Net, sources: tuple[int, ...], moves: Sequence[Outcome], *, has_exit: bool
) -> dict[str, int]:
    """Bytes and packets on links, all phases together.

    Args:
        sources: hosts that data comes from. has_exit: what the site of the first of them sends
            to its border router counts as egress.
    """
    total = np.sum([o.link_bytes.sum(axis=1) for o in moves], axis=0)
    values = {
        "source_bytes": int(total[np.isin(net.src, sources)].max(initial=0)),
        "busiest_bytes": int(total.max(initial=0)),
        "fabric_bytes": int(total.sum()),
        "feedback_pkts": int(sum(o.feedback_at_source.sum() for o in moves)),
        "drops": int(sum(o.link_drops.sum() for o in moves)),
        "repair_bytes": int(sum(o.repairs[1] for o in moves)),
    }
    if all(o.fidelity != "flow" for o in moves):
        values["queue_bytes"] = int(max(o.link_peak_bytes.max(initial=0) for o in moves))
    if has_exit:
        tier = net.tier
        leaves = (tier[net.src] == 1) & (tier[net.dst] == 2)
        home = np.isin(net.src, net.dst[net.src == sources[0]])
        values["egress_bytes"] = int(total[leaves & home].sum())
        values["wan_bytes"] = int(total[(tier[net.src] == 2) & (tier[net.dst] == 2)].sum())
    return values


def priced(values: Mapping[str, int], prices: Prices) -> dict[str, int]:
    """Money and energy, where somebody gave a price."""
    more = {}
    if prices.micro_usd_per_gb:
        left = values.get("egress_bytes", values["source_bytes"])
        more["egress_micro_usd"] = -(-left * prices.micro_usd_per_gb // GB)
    if prices.pj_per_bit:
        more["energy_mj"] = values["fabric_bytes"] * 8 * prices.pj_per_bit // PJ_PER_MJ
    if prices.gpu_watts and "idle_gpu_ps" in values:
        more["idle_energy_mj"] = values["idle_gpu_ps"] * prices.gpu_watts // PJ_PER_MJ
    return more


def _quantile(times: I64, percent: int) -> int:
    """The least time that so many of a hundred do not exceed."""
    if not times.size:
        return 0
    return int(times[max(-(-times.size * percent // 100) - 1, 0)])
