"""Study: one MoE layer: attention, tokens to their experts, experts, results back.

A rank is a GPU. Where there are more GPUs than the experts can be shared out over, several
groups of ranks do the same at once, each with all experts. Each token has a set of ranks of its
own; schemes with a set in the packet send one packet for each, those that need a tree flood.

    way expert   a copy for each expert, also to one rank
    way rank     a copy for each rank
    way node     one to the GPU of the same place in each server, then on inside it
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.streams import stream
from fanfold.study.ask import MEMORY_RATE, TFLOPS, Setting
from fanfold.study.fabrics import GPUS_PER_SERVER
from fanfold.study.gpu_time import compute_ps, layer_params
from fanfold.study.keys import Key
from fanfold.study.model_push import topology_of
from fanfold.study.phases import Cast, Graph, Phase, Style
from fanfold.study.result import Default
from fanfold.work.gate import GATES, GateKind, draw_choices, expert_loads
from fanfold.work.gate_trace import load_choices
from fanfold.work.model import Experts
from fanfold.work.moe import place_experts, place_tokens
from fanfold.work.token_bytes import token_bytes

I64 = NDArray[np.int64]
MOST_TOKENS = 16_384
"""Of all ranks together, in one study."""
MOST_ROOTS = 32
"""Ranks that flood, each with the tokens of some more: what a receiver gets stays the same."""
FULL_PACKET = 4096

KEYS = (
    TFLOPS,
    MEMORY_RATE,
    Key("tokens", "count", "32", "of each rank: a quarter of a decoding batch of 128 (DeepEP)"),
    Key(
        "gate",
        "word",
        "",
        "node-limited where the model limits nodes, else uniform",
        words=GATES,
    ),
    Key("skew", "count", "1000", "of zipf, thousandths of the exponent", 0, 10_000),
    Key("trace", "text", "", "recorded experts of tokens, .npz or .parquet"),
    Key("way", "word", "rank", "one copy for each rank", words=("expert", "rank", "node")),
    Key("ep", "count", "", "ranks that share the experts: the most that divide both"),
    Key("node", "count", str(GPUS_PER_SERVER), "GPUs of a server"),
    Key("slots", "count", "4096", "of a router: a slot for each token under way", 1, 2**16),
    Key("bits", "count", "", "of a BitString: the shortest that suits all hosts", 64, 4096),
)
METRICS = (
    "time_all_ps",
    "step_ps",
    "utilisation_ppm",
    "idle_gpu_ps",
    "straggler_ps",
    "busiest_bytes",
    "fabric_bytes",
    "feedback_pkts",
    "setup_ps",
    "saved_bytes",
)


class Tokens(NamedTuple):
    """Who sends what to whom. source (T,): rank of each token; dest (T, k): of its experts."""

    source: I64
    dest: I64


def graph(setting: Setting, style: Style) -> Graph:
    """Four phases, or six where copies go by node.

    Raises:
        ConfigError: a model without experts, ranks that do not fit, a wrong trace.
    """
    experts = _experts(setting)
    ep = _ep(setting, experts)
    tokens, choices = _tokens(setting, experts, ep)
    phases = [_attention(setting)]
    there = token_bytes(setting.model.hidden, setting.degrees.dispatch_dtype)
    back = token_bytes(setting.model.hidden, setting.degrees.act_dtype)
    outs = _outs(setting, tokens, style)
    last = phases[0].name
    for name, casts in outs:
        phases.append(_moved(f"dispatch{name}", last, casts, there, style, setting.gpus))
        last = phases[-1].name
    phases.append(_expert_phase(setting, experts, choices, ep, last))
    last = "experts"
    for name, casts in reversed(outs):
        sums = tuple(cast._replace(n_bytes=back) for cast in casts)
        phases.append(
            Phase(f"combine{name}", (last,), casts=sums, way="back", payload_bytes=_cut(back))
        )
        last = phases[-1].name
    return Graph(
        topology=topology_of(setting, setting.gpus),
        n_hosts=setting.gpus,
        gpus=setting.gpus,
        phases=tuple(phases),
        defaults=_defaults(setting, tokens, there, back, ep),
        n_slots=setting.number("slots"),
        bitstring_bits=setting.number("bits"),
    )


def _experts(setting: Setting) -> Experts:
    if setting.model.experts is None:
        raise ConfigError("model", setting.model.name, "one with routed experts")
    return setting.model.experts


def _ep(setting: Setting, experts: Experts) -> int:
    """Ranks that share the experts."""
    gpus, n = setting.gpus, experts.n_routed
    ep = setting.number("ep")
    if ep:
        if n % ep or gpus % ep:
            raise ConfigError("ep", ep, f"a divisor of {n} experts and of {gpus} GPUs")
        return ep
    most = max(d for d in range(1, n + 1) if n % d == 0 and gpus % d == 0)
    if most == 1:
        raise ConfigError("--gpus", gpus, f"a number with a divisor in common with {n} experts")
    return most


def _tokens(setting: Setting, experts: Experts, ep: int) -> tuple[Tokens, I64]:
    """Tokens of all groups, and their experts (T, k)."""
    n_groups = setting.gpus // ep
    n_tokens = setting.number("tokens") * setting.gpus
    if n_tokens > MOST_TOKENS:
        most = MOST_TOKENS // setting.gpus
        raise ConfigError("tokens", setting.number("tokens"), f"1..{most} for each rank")
    if trace := setting.word("trace"):
        recorded = load_choices(Path(trace), experts.n_routed)
        take = np.arange(n_tokens) * len(recorded) // n_tokens
        choices = recorded[take]
    else:
        rng = stream(setting.seed, "moe/gate")
        choices = draw_choices(
            rng, _gate(setting, experts), experts, n_tokens, setting.number("skew")
        )
    source = place_tokens(n_tokens, setting.gpus)
    first = source // ep * ep
    dest = place_experts(experts.n_routed, ep)[choices] + first[:, None]
    assert n_groups * ep == setting.gpus
    return Tokens(source, dest), choices


def _gate(setting: Setting, experts: Experts) -> GateKind:
    asked = setting.word("gate")
    for gate in GATES:
        if gate == asked:
            return gate
    return "node-limited" if experts.n_groups > 1 else "uniform"


def _attention(setting: Setting) -> Phase:
    """What each rank computes on its own tokens before they leave."""
    n = layer_params(setting.model).dense
    tokens = np.full(setting.gpus, setting.number("tokens"), np.int64)
    return Phase("attention", compute_ps=compute_ps(setting, n, tokens, n))


def _expert_phase(
    setting: Setting, experts: Experts, choices: I64, ep: int, last: str
) -> Phase:
    """What each rank computes for the tokens that came to its experts."""
    n = layer_params(setting.model).expert
    per_rank = experts.n_routed // ep
    groups = choices.reshape(setting.gpus // ep, -1)
    loads = np.concatenate(
        [expert_loads(g, experts.n_routed).reshape(ep, -1).sum(axis=1) for g in groups]
    )
    return Phase("experts", (last,), compute_ps=compute_ps(setting, n, loads, n * per_rank))


def _outs(setting: Setting, tokens: Tokens, style: Style) -> list[tuple[str, tuple[Cast, ...]]]:
    """Casts of the way out by stage, without their bytes."""
    way = setting.word("way")
    if way == "node":
        return _by_node(setting, tokens)
    rows = zip(tokens.source.tolist(), tokens.dest.tolist(), strict=True)
    is_each = way == "expert" and style == "copies"
    casts = []
    for source, dest in rows:
        chosen = sorted(dest) if is_each else sorted(set(dest))
        receivers = tuple(rank for rank in chosen if rank != source)
        if receivers:
            casts.append(Cast(source, receivers, 1))
    return [("", tuple(casts))]


def _by_node(setting: Setting, tokens: Tokens) -> list[tuple[str, tuple[Cast, ...]]]:
    """Across: to the GPU of the same place in each other server. Inside: on from there."""
    size = setting.number("node")
    if setting.gpus % size:
        raise ConfigError("node", size, f"a divisor of {setting.gpus} GPUs")
    across, inside = [], []
    for source, dest in zip(tokens.source.tolist(), tokens.dest.tolist(), strict=True):
        place, home = source % size, source // size
        ranks = set(dest)
        nodes = sorted({rank // size for rank in ranks} - {home})
        if nodes:
            across.append(Cast(source, tuple(n * size + place for n in nodes), 1))
        for node in [home, *nodes]:
            proxy = node * size + place
            rest = sorted(r for r in ranks if r // size == node and r != proxy)
            if rest:
                inside.append(Cast(proxy, tuple(rest), 1))
    stages = [(" across", tuple(across)), (" inside", tuple(inside))]
    return [(name, casts) for name, casts in stages if casts]


def _moved(
    name: str, last: str, casts: tuple[Cast, ...], n_bytes: int, style: Style, gpus: int
) -> Phase:
    sized = tuple(cast._replace(n_bytes=n_bytes) for cast in casts)
    flood = _flood(sized, gpus) if style == "tree" else ()
    return Phase(name, (last,), casts=sized, flood=flood, payload_bytes=_cut(n_bytes))


def _flood(casts: tuple[Cast, ...], gpus: int) -> tuple[Cast, ...]:
    """All tokens to all ranks, from some of the ranks in the place of all."""
    step = -(-gpus // MOST_ROOTS)
    sums = dict.fromkeys(range(0, gpus, step), 0)
    for cast in casts:
        sums[cast.source // step * step] += cast.n_bytes
    ranks = tuple(range(gpus))
    return tuple(
        Cast(root, ranks[:root] + ranks[root + 1 :], n_bytes)
        for root, n_bytes in sums.items()
        if n_bytes
    )


def _cut(n_bytes: int) -> int:
    """Payload of a packet that cuts a token into equal ones, none larger than a full one."""
    return -(-n_bytes // -(-n_bytes // FULL_PACKET))


def _defaults(
    setting: Setting, tokens: Tokens, there: int, back: int, ep: int
) -> tuple[Default, ...]:
    n = len(tokens.source)
    trace = setting.word("trace")
    gate = f"trace {trace}, evenly sampled" if trace else _gate_name(setting)
    return (
        Default("tokens simulated", f"{n:,}, all of the step", "tokens of each rank x ranks"),
        Default("token", f"{there:,} bytes out, {back:,} back", "hidden size, data types"),
        Default("experts", f"shared out over {ep} ranks", "key ep"),
        Default("gate", gate, "key gate"),
        Default(
            "results", "summed at the token's rank", "not added up on the way in this study"
        ),
        Default("attention over the sequence", "left out", "weights only, gpu_time.py"),
    )


def _gate_name(setting: Setting) -> str:
    experts = setting.model.experts
    return _gate(setting, experts) if experts else ""
