"""Rows of every table from what one run gave.

Letters: H = hosts, L = directed links, I = items.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.results.outcome import ACK, DATA, FEEDBACK, NOT_DONE, REPAIR, Outcome
from fanfold.results.schema import NONE
from fanfold.results.writer import Values

I64 = NDArray[np.int64]
Tables = dict[str, Mapping[str, Values]]
_CLASSES = {"data": DATA, "repair": REPAIR, "ack": ACK, "feedback": FEEDBACK}


class Place(NamedTuple):
    """Where it ran: src, dst, bps, prop_ps, plane (L,) of the links, names of the nodes."""

    n_hosts: int
    n_nodes: int
    src: I64
    dst: I64
    bps: I64
    prop_ps: I64
    plane: I64
    node_name: Callable[[int], str]


class Task(NamedTuple):
    """What was run. hosts: by rank. sources: hosts that the collective starts from.

    fans: source, number of receivers and bytes of each. setup: time, messages, bytes, entries
    and most entries of a router, of the trees that had to be there first. left_out: of the
    settings, by the rung that ran. error_ppm: of that rung at most.
    """

    scheme: str
    topology: str
    workload: str
    n_bytes: int
    hosts: tuple[int, ...]
    sources: tuple[int, ...]
    n_messages: int
    fans: tuple[tuple[int, int, int], ...]
    fidelity_why: str
    segment_pkts: int
    transport: str
    loss_ppb: int
    left_out: str = ""
    error_ppm: int = NONE
    planes: str = ""
    bitstring_bits: int = 0
    setup: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    busy_ps: int = 0
    stand_ins: str = ""
    n_sums: int = 0


def rows_of(place: Place, task: Task, outcome: Outcome) -> Tables:
    """Columns of every table, by the names of schema.py."""
    return {
        "runs": _runs(place, task, outcome),
        "receivers": _receivers(place, task, outcome),
        "links": _links(place, task, outcome),
        "drops": _drops(place, outcome),
        "fans": _fans(task, outcome),
        "stuck": {"number": range(len(outcome.stuck)), "what": outcome.stuck},
    }


def _runs(place: Place, task: Task, outcome: Outcome) -> Mapping[str, Values]:
    complete, partial, unfolded = outcome.n_folds
    setup_ps, control_msgs, control_bytes, state_entries, most_entries = task.setup
    row: dict[str, int | str] = {
        "scheme": task.scheme,
        "topology": task.topology,
        "workload": task.workload,
        "n_ranks": len(task.hosts),
        "n_bytes": task.n_bytes,
        "fidelity": outcome.fidelity,
        "fidelity_why": task.fidelity_why,
        "segment_pkts": task.segment_pkts,
        "error_ppm": task.error_ppm,
        "left_out": task.left_out,
        "bitstring_bits": task.bitstring_bits,
        "planes": task.planes,
        "transport": task.transport,
        "loss_ppb": task.loss_ppb,
        "n_hosts": place.n_hosts,
        "n_nodes": place.n_nodes,
        "n_links": place.src.size,
        "n_messages": task.n_messages,
        "n_fans": len(task.fans),
        "end_ps": outcome.end_ps,
        "due_bytes": int(outcome.due_bytes.sum()),
        "got_bytes": int(outcome.got_bytes.sum()),
        "feedback_pkts": int(outcome.feedback_at_source.sum()),
        "repair_pkts": outcome.repairs[0],
        "repair_bytes": outcome.repairs[1],
        "n_folds_complete": complete,
        "n_folds_partial": partial,
        "n_folds_unfolded": unfolded,
        "n_sums": task.n_sums,
        "n_arrays_joined": outcome.arrays[0],
        "n_arrays_passed": outcome.arrays[1],
        "n_arrays_partial": outcome.arrays[2],
        "n_hops": outcome.n_hops,
        "n_events": outcome.n_events,
        "setup_ps": setup_ps,
        "control_msgs": control_msgs,
        "control_bytes": control_bytes,
        "state_entries": state_entries,
        "most_entries": most_entries,
        "busy_ps": task.busy_ps,
        "stand_ins": task.stand_ins,
        "n_stuck": len(outcome.stuck),
        "reason": outcome.reason,
    }
    return {name: _one(value) for name, value in row.items()}


def _one(value: int | str) -> Values:
    return [value] if isinstance(value, str) else np.array([value], np.int64)


def _receivers(place: Place, task: Task, outcome: Outcome) -> Mapping[str, Values]:
    (at,) = np.nonzero(outcome.due_bytes > 0)
    rank = np.full(place.n_hosts, NONE)
    rank[list(task.hosts)] = np.arange(len(task.hosts))
    done = outcome.host_ps[at]
    return {
        "host": at,
        "name": _names(place, at),
        "rank": rank[at],
        "done_ps": np.where(done == NOT_DONE, NONE, done),
        "due_bytes": outcome.due_bytes[at],
        "got_bytes": outcome.got_bytes[at],
    }


def _links(place: Place, task: Task, outcome: Outcome) -> Mapping[str, Values]:
    seen = outcome.link_pkts.sum(axis=1) + outcome.link_drops + outcome.link_trims
    (at,) = np.nonzero(seen)
    is_source = np.isin(place.src, np.array(task.sources, np.int64)).astype(np.int64)
    columns: dict[str, Values] = {
        **_ends(place, at),
        "src_node": place.src[at],
        "dst_node": place.dst[at],
        "is_source": is_source[at],
        "plane": place.plane[at],
        "rate_bps": place.bps[at],
        "prop_ps": place.prop_ps[at],
        "peak_queue_bytes": outcome.link_peak_bytes[at],
    }
    for name, number in _CLASSES.items():
        columns[f"{name}_pkts"] = outcome.link_pkts[at, number]
        columns[f"{name}_bytes"] = outcome.link_bytes[at, number]
    return columns


def _drops(place: Place, outcome: Outcome) -> Mapping[str, Values]:
    (lost,), (trimmed,) = np.nonzero(outcome.link_drops), np.nonzero(outcome.link_trims)
    at = np.concatenate([lost, trimmed])
    return {
        **_ends(place, at),
        "cause": ["lost"] * lost.size + ["trimmed"] * trimmed.size,
        "pkts": np.concatenate([outcome.link_drops[lost], outcome.link_trims[trimmed]]),
    }


def _ends(place: Place, at: I64) -> dict[str, Values]:
    return {
        "link": at,
        "src": _names(place, place.src[at]),
        "dst": _names(place, place.dst[at]),
    }


def _names(place: Place, nodes: I64) -> Values:
    """Names of nodes, each made once."""
    is_named = np.zeros(place.n_nodes, bool)
    is_named[nodes] = True
    (some,) = np.nonzero(is_named)
    names = np.empty(place.n_nodes, object)
    names[some] = [place.node_name(n) for n in some.tolist()]
    return np.asarray(names[nodes])


def _fans(task: Task, outcome: Outcome) -> Mapping[str, Values]:
    source, n_receivers, n_bytes = np.array(task.fans, np.int64).reshape(-1, 3).T
    items = np.arange(task.n_messages, task.n_messages + len(task.fans))
    done = outcome.item_ps[items]
    return {
        "item": items,
        "source": source,
        "n_receivers": n_receivers,
        "n_bytes": n_bytes,
        "done_ps": np.where(done == NOT_DONE, NONE, done),
        "feedback_pkts": outcome.feedback_at_source[items],
    }
