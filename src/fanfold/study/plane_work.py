"""Messages of one step of many GPUs: a collective, or the dispatch of a mixture of experts.

Of all GPUs, or of groups of them side by side: member i of group g of N groups is GPU i N + g,
so GPUs of a group hang on leaves as far apart as can be, and their bytes cross the planes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fanfold.errors import ConfigError
from fanfold.schemes.catalog import scheme_of
from fanfold.schemes.options import SchemeOptions
from fanfold.schemes.program import Program, build_program, edges_of
from fanfold.streams import stream
from fanfold.work.collective import Collective, Kind
from fanfold.work.gate import draw_choices
from fanfold.work.moe import place_experts, place_tokens
from fanfold.work.presets import preset_of
from fanfold.work.token_bytes import token_bytes

MODEL = "deepseek-v3"
WORKLOADS = ("all_to_all", "all_reduce", "dispatch")


class How(NamedTuple):
    """Bytes of each GPU's array, tokens of each GPU, GPUs of a group (0: all), seed."""

    n_bytes: int
    n_tokens: int
    group: int
    seed: int


def program_of(workload: str, n_hosts: int, how: How) -> Program:
    """Messages of one step.

    Raises:
        ConfigError: no such workload, experts that so many GPUs do not share out, or GPUs that
            groups do not share out.
    """
    if workload not in WORKLOADS:
        raise ConfigError("workloads", workload, ", ".join(WORKLOADS))
    size = how.group or n_hosts
    if size < 2 or n_hosts % size:
        raise ConfigError("group", size, f"2 or more, a divisor of {n_hosts} GPUs")
    groups = range(n_hosts // size)
    return side_by_side([_of_group(workload, size, how, how.seed + g) for g in groups])


def side_by_side(programs: Sequence[Program]) -> Program:
    """Programs of messages and pauses, each of so many hosts as the others, as one.

    Host i of program g of N is host i N + g.
    """
    if len(programs) == 1:
        return programs[0]
    n_groups = len(programs)
    n_sent = sum(one.src.size for one in programs)
    tables, edges, pauses = [], [], []
    first, first_pause = 0, n_sent
    for g, one in enumerate(programs):
        ends = one.src * n_groups + g, one.dst * n_groups + g
        tables.append(np.column_stack([*ends, one.n_bytes, one.start_ps]))
        own, n = edges_of(one), one.src.size
        edges.append(np.where(own < n, own + first, own - n + first_pause))
        pauses.append(one.pauses_ps)
        first, first_pause = first + n, first_pause + one.pauses_ps.size
    return build_program(
        np.concatenate(tables),
        np.concatenate(edges).reshape(-1, 2),
        on=programs[0].on,
        pauses_ps=np.concatenate(pauses),
    )


def dispatch(n_hosts: int, n_tokens: int, seed: int) -> Program:
    """Tokens of one layer of DeepSeek-V3 to their experts: a message for each pair of GPUs."""
    model = preset_of(MODEL).model
    assert model.experts is not None
    rank_of = place_experts(model.experts.n_routed, n_hosts)
    n_all = n_tokens * n_hosts
    rng = stream(seed, "planes/gate")
    chosen = rank_of[draw_choices(rng, "node-limited", model.experts, n_all)]
    source = np.repeat(place_tokens(n_all, n_hosts), chosen.shape[1])
    token = np.repeat(np.arange(n_all), chosen.shape[1])
    goes = np.unique(np.stack([token, source, chosen.ravel()]), axis=1)  # one copy a GPU
    pairs, count = np.unique(goes[1:], axis=1, return_counts=True)
    is_away = pairs[0] != pairs[1]
    sizes = count[is_away] * token_bytes(model.hidden, "fp8")
    messages = np.column_stack([pairs[:, is_away].T, sizes, np.zeros_like(sizes)])
    return build_program(messages.astype(np.int64), np.zeros((0, 2), np.int64))


def _of_group(workload: str, size: int, how: How, seed: int) -> Program:
    if workload == "dispatch":
        return dispatch(size, how.n_tokens, seed)
    kinds: dict[str, Kind] = {"all_to_all": "all_to_all", "all_reduce": "all_reduce"}
    work = Collective(kinds[workload], how.n_bytes, tuple(range(size)))
    return scheme_of("direct").build(work, SchemeOptions())
