"""What a scheme sends for one phase: each cast by the scheme's own plan, all in one program.

A cast is a broadcast of its source and receivers, or a reduce to its source; the catalog of
schemes plans either. A scheme that has no reduce (multicast of any kind) takes results back by
unicast.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.schemes.catalog import Scheme
from fanfold.schemes.draft import SchemePlan
from fanfold.schemes.options import SchemeOptions
from fanfold.schemes.program import Fan, Program, build_program, edges_of
from fanfold.schemes.tree_fans import Site
from fanfold.study.phases import Cast, Phase
from fanfold.work.collective import Collective, Kind

I64 = NDArray[np.int64]
BY_HOSTS = "unicast"
"""How sums come back where the network makes none."""
BY_SUMS = "fanfold"
MOST_SUMS = 64
"""Groups armed side by side for results that come back; more of them come by unicast."""
MOST_ITEMS = 400_000
"""Messages of a phase in pieces; pipelines are cut less finely where there would be more."""


NO_BEGIN = np.zeros(0, np.int64)


class Sent(NamedTuple):
    """A phase as a program, and a word on how, empty where it is the scheme's own way.

    begin: (I,) address of the first byte of each item of a phase of casts.
    """

    program: Program
    note: str = ""
    begin: I64 = NO_BEGIN


def lower(scheme: Scheme, phase: Phase, site: Site, *, compact: bool) -> Sent:
    """The program of a phase.

    Args:
        site: net that trees are set up on. compact: leave pipelines in the compact form.

    Raises:
        ConfigError: the scheme cannot do it, by field "workload".
    """
    most = phase.most_pieces
    if phase.way == "back":
        sent = _back(scheme, phase.casts, most, compact)
    elif phase.collectives:
        sent = _collective(scheme, phase.collectives, most, compact)
    else:
        sent = _casts(scheme, phase.casts, "broadcast", most, compact)
    program = sent.program
    if phase.ready_ps is not None:
        program = delay(program, phase.ready_ps)
    return sent._replace(program=scheme.placed(program, site))


def join(plans: Sequence[SchemePlan]) -> Sent:
    """Plans side by side, as one; all plain, or all with the same number of pieces."""
    programs = [plan.program for plan in plans]
    first = programs[0]
    if len(plans) == 1:
        return Sent(first, begin=plans[0].begin)
    n_messages = np.array([p.src.size for p in programs])
    n_fans = np.array([len(p.fans) for p in programs])
    n_sums = np.array([len(p.sums) for p in programs])
    at = np.cumsum(n_messages) - n_messages
    fan_at = int(n_messages.sum()) + np.cumsum(n_fans) - n_fans
    sum_at = int(n_messages.sum() + n_fans.sum()) + np.cumsum(n_sums) - n_sums
    edges = [np.zeros((0, 2), np.int64)]
    for program, *starts in zip(programs, at, fan_at, sum_at, strict=True):
        if program.dep.size:
            bounds = np.array([0, program.src.size, program.first_sum])
            one = edges_of(program)
            kind = np.searchsorted(bounds, one, side="right") - 1
            edges.append(one - bounds[kind] + np.array(starts)[kind])
    columns = ("src", "dst", "n_bytes", "start_ps")
    table = [np.concatenate([getattr(p, name) for p in programs]) for name in columns]
    whole = build_program(
        np.stack(table, axis=1),
        np.concatenate(edges),
        fans=tuple(fan for p in programs for fan in p.fans),
        folds=first.folds,
        on=first.on,
        chunks=first.chunks,
        sums=tuple(one for p in programs for one in p.sums),
    )
    parts = [
        np.split(plan.begin, [plan.program.src.size, plan.program.first_sum]) for plan in plans
    ]
    begin = np.concatenate([part[k] for k in range(3) for part in parts])
    return Sent(whole, begin=begin)


def delay(program: Program, ready_ps: I64) -> Program:
    """Nothing leaves or reaches a host before it is ready, (H,); of fans only the source.

    A sum begins when all its members are ready.
    """
    start = np.maximum(
        program.start_ps, np.maximum(ready_ps[program.src], ready_ps[program.dst])
    )
    fans = tuple(
        fan._replace(start_ps=max(fan.start_ps, int(ready_ps[fan.source])))
        for fan in program.fans
    )
    sums = tuple(
        one._replace(start_ps=max(one.start_ps, int(ready_ps[list(one.hosts)].max())))
        for one in program.sums
    )
    return program._replace(start_ps=start, fans=fans, sums=sums)


def merged(casts: Sequence[Cast]) -> tuple[Cast, ...]:
    """Casts of one source to the same receivers, from the same time and place on, as one."""
    sums: dict[Cast, int] = {}
    for cast in casts:
        key = cast._replace(n_bytes=0)
        sums[key] = sums.get(key, 0) + cast.n_bytes
    return tuple(cast._replace(n_bytes=n_bytes) for cast, n_bytes in sums.items())


def _pairs(casts: Sequence[Cast], *, is_back: bool) -> SchemePlan:
    """A message for each pair of hosts with all that goes between them."""
    sums: dict[tuple[int, int, int, int], int] = {}
    for cast in casts:
        for host in cast.receivers:
            pair = (host, cast.source) if is_back else (cast.source, host)
            key = (*pair, cast.start_ps, cast.begin)
            sums[key] = sums.get(key, 0) + cast.n_bytes
    rows = [(src, dst, size, start) for (src, dst, start, _), size in sums.items()]
    table = np.array(rows, np.int64).reshape(-1, 4)
    begin = np.array([key[3] for key in sums], np.int64)
    adds = np.full(begin.size, is_back)
    return SchemePlan(build_program(table, np.zeros((0, 2), np.int64)), begin, adds)


def _casts(scheme: Scheme, casts: Sequence[Cast], kind: Kind, most: int, compact: bool) -> Sent:
    if scheme.name == BY_HOSTS and len(casts) > 1:
        return join([_pairs(casts, is_back=kind == "reduce")])
    many = merged(casts)
    works = [Collective(kind, cast.n_bytes, (cast.source, *cast.receivers)) for cast in many]
    plans = _piped(scheme, works, most, compact)
    return join([_moved(plan, cast) for plan, cast in zip(plans, many, strict=True)])


def _piped(
    scheme: Scheme, works: Sequence[Collective], most: int, compact: bool
) -> list[SchemePlan]:
    """Plans of all, in the compact form with as many pieces each, or spelled out."""
    made = [scheme.explained(work, SchemeOptions(compact=True)) for work in works]
    chunks = [plan.program.chunks for plan in made]
    if compact and len(set(chunks)) == 1:
        return made
    n_items = sum(plan.program.n_items for plan in made)
    limit = min(chunks) if compact else max(MOST_ITEMS // max(n_items, 1), 1)
    if most:
        limit = min(limit, most)
    return [
        plan if n == 1 else scheme.explained(work, _cut(min(n, limit), compact=compact))
        for work, plan, n in zip(works, made, chunks, strict=True)
    ]


def _cut(chunks: int, *, compact: bool) -> SchemeOptions:
    return SchemeOptions(chunks=chunks, compact=compact)


def _moved(plan: SchemePlan, cast: Cast) -> SchemePlan:
    """The plan at the time and the place of its cast."""
    program, start_ps = plan.program, cast.start_ps
    if start_ps:
        fans: tuple[Fan, ...] = tuple(
            fan._replace(start_ps=fan.start_ps + start_ps) for fan in program.fans
        )
        sums = tuple(one._replace(start_ps=one.start_ps + start_ps) for one in program.sums)
        program = program._replace(start_ps=program.start_ps + start_ps, fans=fans, sums=sums)
    return SchemePlan(program, plan.begin + cast.begin, plan.adds)


def _back(scheme: Scheme, casts: Sequence[Cast], most: int, compact: bool) -> Sent:
    is_few = scheme.name != BY_SUMS or len(merged(casts)) <= MOST_SUMS
    if "reduce" in scheme.kinds and is_few:
        return _casts(scheme, casts, "reduce", most, compact)
    return join([_pairs(casts, is_back=True)])._replace(note="results come back by unicast")


def _collective(scheme: Scheme, works: Sequence[Collective], most: int, compact: bool) -> Sent:
    (kind,) = {work.kind for work in works}
    if kind not in scheme.kinds:
        allowed = f"{', '.join(scheme.kinds)} with {scheme.name}"
        raise ConfigError("workload.kind", kind, allowed)
    return join(_piped(scheme, works, most, compact))
