"""Operations of single ranks, as trace files hold them, joined into phases.

The k-th send from a to b with a tag meets the k-th recv there. The k-th collective of a group
at one member meets the k-th at every other: libraries demand one order of all members.
Computations of one lane of a rank, a GPU stream or a core, follow one another, in the order in
which they could begin if no link were shared.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, cast

from fanfold.errors import ConfigError
from fanfold.work.trace import (
    ROOTED,
    GroupKind,
    Phase,
    PhaseKind,
    Trace,
    check_trace,
    closed_form,
    times_of,
)

NONE = -1
GUESS_BPS, GUESS_PS = 400 * 10**9, 5 * 10**6
"""Links that order the computations of a lane: 400 Gbit/s and 5 us."""
Part = tuple[int, int]
"""A rank, and one of its operations."""


class Op(NamedTuple):
    """One operation of a rank.

    needs: operations of the same rank. lane: of a computation. peer, tag: of send and recv.
    group, members, root: of a collective; root NONE: nobody says.
    """

    kind: Literal["compute", "send", "recv"] | GroupKind
    where: str
    needs: tuple[int, ...]
    n_bytes: int = 0
    duration_ps: int = 0
    lane: int = 0
    peer: int = NONE
    tag: int = 0
    group: str = ""
    members: tuple[int, ...] = ()
    root: int = NONE


class _Draft(NamedTuple):
    """A phase whose needs are not known yet: parts by rank of the phase."""

    kind: PhaseKind
    parts: tuple[Part, ...]
    n_bytes: int
    duration_ps: int


def join_ops(
    ops: Sequence[Sequence[Op]],
    skipped: Mapping[str, int] | None = None,
    notes: Sequence[str] = (),
) -> Trace:
    """The trace of all ranks.

    Raises:
        ConfigError: by rank and operation: a send without recv, a collective that a member
            lacks or does otherwise, a circle.
    """
    assumed = dict.fromkeys(notes)
    drafts = [*_computations(ops), *_messages(ops), *_collectives(ops, assumed)]
    drafts.sort(key=lambda draft: (draft.parts[0][1], draft.parts[0][0]))
    phase_of = {part: i for i, draft in enumerate(drafts) for part in draft.parts}
    phases = tuple(_phase(draft, ops, phase_of) for draft in drafts)
    trace = Trace(len(ops), phases, dict(skipped or {}), tuple(assumed))
    check_trace(trace)
    return _in_lanes(trace, drafts, ops)


def _phase(draft: _Draft, ops: Sequence[Sequence[Op]], phase_of: Mapping[Part, int]) -> Phase:
    needs = []
    for rank, i in draft.parts:
        needs.append(tuple(sorted({phase_of[rank, n] for n in ops[rank][i].needs})))
    ranks = tuple(rank for rank, _ in draft.parts)
    first_rank, first = draft.parts[0]
    where = ops[first_rank][first].where
    return Phase(draft.kind, ranks, draft.n_bytes, draft.duration_ps, tuple(needs), where)


def _computations(ops: Sequence[Sequence[Op]]) -> Iterator[_Draft]:
    for rank, mine in enumerate(ops):
        for i, op in enumerate(mine):
            if op.kind == "compute":
                yield _Draft("compute", ((rank, i),), 0, op.duration_ps)


def _messages(ops: Sequence[Sequence[Op]]) -> Iterator[_Draft]:
    sends = _by_channel(ops, "send")
    recvs = _by_channel(ops, "recv")
    for channel in sorted(sends.keys() | recvs.keys()):
        there, here = sends.get(channel, []), recvs.get(channel, [])
        if len(there) != len(here):
            raise _unmatched(ops, channel, there, here)
        for send, recv in zip(there, here, strict=True):
            n_bytes, room = (ops[p[0]][p[1]].n_bytes for p in (send, recv))
            if room < n_bytes:
                field = ops[recv[0]][recv[1]].where
                raise ConfigError(field, f"recv of {room} bytes", f"{n_bytes}, as sent")
            if channel[0] == channel[1]:
                raise ConfigError(ops[send[0]][send[1]].where, "send to itself", "another rank")
            yield _Draft("message", (send, recv), max(n_bytes, 1), 0)


def _by_channel(
    ops: Sequence[Sequence[Op]], kind: str
) -> dict[tuple[int, int, int], list[Part]]:
    """Parts by sender, receiver and tag."""
    found: dict[tuple[int, int, int], list[Part]] = {}
    for rank, mine in enumerate(ops):
        for i, op in enumerate(mine):
            if op.kind == kind:
                if not 0 <= op.peer < len(ops):
                    raise ConfigError(op.where, f"peer {op.peer}", f"ranks 0..{len(ops) - 1}")
                ends = (rank, op.peer) if kind == "send" else (op.peer, rank)
                found.setdefault((*ends, op.tag), []).append((rank, i))
    return found


def _unmatched(
    ops: Sequence[Sequence[Op]],
    channel: tuple[int, int, int],
    sends: list[Part],
    recvs: list[Part],
) -> ConfigError:
    src, dst, tag = channel
    k = min(len(sends), len(recvs))
    rank, i = (sends if len(sends) > k else recvs)[k]
    op = ops[rank][i]
    other = "recv" if op.kind == "send" else "send"
    got = f"{op.kind} {k} from rank {src} to rank {dst}, tag {tag}, without a {other}"
    return ConfigError(op.where, got, f"a {other} at the other end for each {op.kind}")


def _collectives(ops: Sequence[Sequence[Op]], assumed: dict[str, None]) -> Iterator[_Draft]:
    groups: dict[tuple[str, tuple[int, ...]], dict[int, list[int]]] = {}
    for rank, mine in enumerate(ops):
        for i, op in enumerate(mine):
            if op.members:
                _check_member(op, rank, len(ops))
                group = groups.setdefault((op.group, op.members), {})
                group.setdefault(rank, []).append(i)
    for (name, members), of_rank in groups.items():
        longest = max(of_rank, key=lambda rank: len(of_rank[rank]))
        for rank in members:
            n, most = len(of_rank.get(rank, [])), len(of_rank[longest])
            if n < most:
                op = ops[longest][of_rank[longest][n]]
                got = f"{op.kind} {n} of group {name or 'of all'}, which rank {rank} lacks"
                raise ConfigError(op.where, got, "each collective at every member")
        for parts in zip(*(of_rank[rank] for rank in members), strict=True):
            yield _collective(ops, tuple(zip(members, parts, strict=True)), assumed)


def _check_member(op: Op, rank: int, n_ranks: int) -> None:
    if rank not in op.members:
        raise ConfigError(op.where, f"rank {rank} outside group {op.group}", "a member of it")
    if not all(0 <= m < n_ranks for m in op.members) or len(set(op.members)) < len(op.members):
        got = f"group {op.group} of ranks {op.members[:8]}"
        raise ConfigError(op.where, got, f"ranks 0..{n_ranks - 1}, each once")


def _collective(
    ops: Sequence[Sequence[Op]], parts: tuple[Part, ...], assumed: dict[str, None]
) -> _Draft:
    of = [ops[rank][i] for rank, i in parts]
    first = of[0]
    for op in of[1:]:
        for name in ("kind", "n_bytes", "root"):
            if getattr(op, name) != getattr(first, name):
                got = f"{name} {getattr(op, name)}, at {first.where} {getattr(first, name)}"
                raise ConfigError(op.where, got, "the same at every member")
    if len(parts) == 1:
        return _Draft("compute", parts, 0, 0)
    if first.kind in ROOTED:
        parts = _root_first(first, parts, assumed)
    return _Draft(cast("PhaseKind", first.kind), parts, first.n_bytes, 0)


def _root_first(op: Op, parts: tuple[Part, ...], assumed: dict[str, None]) -> tuple[Part, ...]:
    if op.root == NONE:
        assumed[f"{op.kind} without a root: the first member of the group is it"] = None
        return parts
    if op.root not in op.members:
        raise ConfigError(op.where, f"root {op.root}", f"a member of group {op.group}")
    at = op.members.index(op.root)
    return (parts[at], *parts[:at], *parts[at + 1 :])


def _in_lanes(trace: Trace, drafts: Sequence[_Draft], ops: Sequence[Sequence[Op]]) -> Trace:
    """One computation of a lane at a time.

    The order is one of times that never fall along a dependency, so none of the new
    dependencies closes a circle.
    """
    times = times_of(trace, closed_form(GUESS_BPS, GUESS_PS))
    place = {part: n for n, part in enumerate(times.order)}
    phases = list(trace.phases)
    computing = [i for i, p in enumerate(phases) if p.kind == "compute" and p.duration_ps]
    computing.sort(key=lambda i: (times.begin_ps[i][0], place[i, 0]))
    last: dict[tuple[int, int], int] = {}
    for i in computing:
        rank, n = drafts[i].parts[0]
        lane = rank, ops[rank][n].lane
        if lane in last:
            needs = tuple(sorted({*phases[i].needs[0], last[lane]}))
            phases[i] = phases[i]._replace(needs=(needs,))
        last[lane] = i
    return trace._replace(phases=tuple(phases))
