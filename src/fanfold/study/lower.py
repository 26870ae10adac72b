"""What a scheme sends for one phase: each cast by the scheme's own plan, all in one program.

A cast is a broadcast of its source and receivers, or a reduce to its source; the catalog of
schemes plans either. A scheme that has no reduce (multicast of any kind) takes sums back by
unicast, and does an all_reduce as a reduce along a binary tree of hosts, then a broadcast.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.schemes.catalog import Scheme, scheme_of
from fanfold.schemes.options import SchemeOptions
from fanfold.schemes.program import Fan, Program, build_program, edges_of
from fanfold.schemes.tree_fans import Site, lay
from fanfold.study.phases import Cast, Phase
from fanfold.work.collective import Collective, Kind

I64 = NDArray[np.int64]
BY_HOSTS = "unicast"
"""How sums come back where the network makes none."""
MOST_ITEMS = 400_000
"""Messages of a phase in pieces; pipelines are cut less finely where there would be more."""


class Sent(NamedTuple):
    """A phase as a program, and a word on how, empty where it is the scheme's own way."""

    program: Program
    note: str = ""


def lower(scheme: Scheme, phase: Phase, site: Site, *, compact: bool) -> Sent:
    """The program of a phase.

    Args:
        site: net that trees are set up on. compact: leave pipelines in the compact form.

    Raises:
        ConfigError: the scheme cannot do it, by field "workload".
    """
    if phase.way == "back":
        sent = _back(scheme, phase.casts, compact)
    elif phase.collectives:
        sent = _collective(scheme, phase.collectives, compact)
    else:
        sent = Sent(_casts(scheme, phase.casts, "broadcast", compact))
    program = sent.program
    if phase.ready_ps is not None:
        program = delay(program, phase.ready_ps)
    if scheme.protocol and program.fans:
        program = lay(program, scheme.protocol, site)
    return sent._replace(program=program)


def join(programs: Sequence[Program]) -> Program:
    """Programs side by side, as one; all plain, or all with the same number of pieces."""
    first = programs[0]
    if len(programs) == 1:
        return first
    n_messages = np.array([p.src.size for p in programs])
    n_fans = np.array([len(p.fans) for p in programs])
    at = np.cumsum(n_messages) - n_messages
    fan_at = int(n_messages.sum()) + np.cumsum(n_fans) - n_fans
    edges = []
    for i, program in enumerate(programs):
        if program.dep.size:
            one = edges_of(program)
            edges.append(
                np.where(
                    one < program.src.size, one + at[i], one - program.src.size + fan_at[i]
                )
            )
    table = [
        np.concatenate([getattr(p, name) for p in programs])
        for name in ("src", "dst", "n_bytes", "start_ps")
    ]
    return build_program(
        np.stack(table, axis=1),
        np.concatenate([np.zeros((0, 2), np.int64), *edges]),
        fans=tuple(fan for p in programs for fan in p.fans),
        folds=first.folds,
        on=first.on,
        chunks=first.chunks,
    )


def delay(program: Program, ready_ps: I64) -> Program:
    """Nothing leaves or reaches a host before it is ready: (H,) times."""
    start = np.maximum(
        program.start_ps, np.maximum(ready_ps[program.src], ready_ps[program.dst])
    )
    fans = tuple(
        fan._replace(start_ps=max(fan.start_ps, int(ready_ps[[fan.source]].max())))
        for fan in program.fans
    )
    return program._replace(start_ps=start, fans=fans)


def merged(casts: Sequence[Cast]) -> tuple[Cast, ...]:
    """Casts of one source to the same receivers, from the same time on, as one."""
    sums: dict[tuple[int, tuple[int, ...], int], int] = {}
    for cast in casts:
        key = cast.source, cast.receivers, cast.start_ps
        sums[key] = sums.get(key, 0) + cast.n_bytes
    return tuple(
        Cast(source, receivers, n_bytes, start_ps)
        for (source, receivers, start_ps), n_bytes in sums.items()
    )


def _pairs(casts: Sequence[Cast], *, is_back: bool) -> Program:
    """A message for each pair of hosts with all that goes between them."""
    sums: dict[tuple[int, int, int], int] = {}
    for cast in casts:
        for host in cast.receivers:
            pair = (host, cast.source) if is_back else (cast.source, host)
            key = (*pair, cast.start_ps)
            sums[key] = sums.get(key, 0) + cast.n_bytes
    table = np.array(
        [(src, dst, n_bytes, start) for (src, dst, start), n_bytes in sums.items()], np.int64
    ).reshape(-1, 4)
    return build_program(table, np.zeros((0, 2), np.int64))


def _casts(scheme: Scheme, casts: Sequence[Cast], kind: Kind, compact: bool) -> Program:
    if scheme.name == BY_HOSTS and len(casts) > 1:
        return _pairs(casts, is_back=kind == "reduce")
    many = merged(casts)
    works = [Collective(kind, cast.n_bytes, (cast.source, *cast.receivers)) for cast in many]
    programs = _piped(scheme, works, compact)
    return join([_later(p, cast.start_ps) for p, cast in zip(programs, many, strict=True)])


def _piped(scheme: Scheme, works: Sequence[Collective], compact: bool) -> list[Program]:
    """Plans of all, in the compact form with as many pieces each, or spelled out."""
    made = [scheme.explained(work, SchemeOptions(compact=True)).program for work in works]
    chunks = [program.chunks for program in made]
    if compact and len(set(chunks)) == 1:
        return made
    n_items = sum(program.n_items for program in made)
    most = min(chunks) if compact else max(MOST_ITEMS // max(n_items, 1), 1)
    return [
        program
        if program.chunks == 1
        else scheme.explained(
            work, SchemeOptions(chunks=min(program.chunks, most), compact=compact)
        ).program
        for work, program in zip(works, made, strict=True)
    ]


def _later(program: Program, start_ps: int) -> Program:
    if start_ps == 0:
        return program
    fans: tuple[Fan, ...] = tuple(
        fan._replace(start_ps=fan.start_ps + start_ps) for fan in program.fans
    )
    return program._replace(start_ps=program.start_ps + start_ps, fans=fans)


def _back(scheme: Scheme, casts: Sequence[Cast], compact: bool) -> Sent:
    if "reduce" in scheme.kinds:
        return Sent(_casts(scheme, casts, "reduce", compact))
    return Sent(_pairs(casts, is_back=True), "results come back by unicast")


def _collective(scheme: Scheme, works: Sequence[Collective], compact: bool) -> Sent:
    (kind,) = {work.kind for work in works}
    if kind in scheme.kinds:
        return Sent(join(_piped(scheme, works, compact)))
    if kind == "all_reduce" and "broadcast" in scheme.kinds:
        return _reduce_and_cast(scheme, works)
    raise ConfigError("workload.kind", kind, f"{', '.join(scheme.kinds)} with {scheme.name}")


def _reduce_and_cast(scheme: Scheme, works: Sequence[Collective]) -> Sent:
    """Sums up a binary tree of hosts, then out: the second waits for all of the first."""
    up_scheme = scheme_of("binary-tree")
    parts = []
    for work in works:
        up = up_scheme.build(
            Collective("reduce", work.n_bytes, work.hosts), SchemeOptions(chunks=1)
        )
        down = scheme.explained(
            Collective("broadcast", work.n_bytes, work.hosts), SchemeOptions(chunks=1)
        ).program
        parts.append(_one_after(up, down, work.hosts[0]))
    return Sent(join(parts), "sums by a binary tree of hosts, then multicast")


def _one_after(up: Program, down: Program, root: int) -> Program:
    both = join([up._replace(folds=down.folds), down])
    n_up, n_down = up.src.size, down.src.size
    last = np.nonzero(up.dst == root)[0]
    first = np.nonzero(down.src == root)[0] + n_up
    fans = n_up + n_down + np.arange(len(down.fans))
    waits = np.concatenate([first[down.n_needs[first - n_up] == 0], fans])
    edges = np.stack(np.meshgrid(last, waits, indexing="ij"), axis=-1).reshape(-1, 2)
    table = np.stack([both.src, both.dst, both.n_bytes, both.start_ps], axis=1)
    return build_program(
        table,
        np.concatenate([edges_of(both), edges]),
        fans=both.fans,
        folds=down.folds,
        on=both.on,
    )
