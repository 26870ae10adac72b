"""Flow fidelity: a program as fluid over paths and trees, for what packets are too many for.

Connections, fans and sums share links max-min fairly; rates change when one starts or ends.
Counts are whole packets. What is not in it: queues, and so limits, marks, trims and pauses of
queues; loss and failures; a sender that does not slow down when its packets wait farther on. A
program in the compact form runs in its steady state (loop/pipeline.py).

Letters: I = items, F = messages, K = flows, L = links, H = hosts.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.results.outcome import (
    NOT_DONE,
    Outcome,
)
from fanfold.scenario.settings import Settings
from fanfold.scenario.width import with_width
from fanfold.schemes.program import ACKED, Program, with_entropy
from fanfold.schemes.program_rules import check_program
from fanfold.sim.fan_sizes import feedback_bytes
from fanfold.sim.fluid_counts import count_links, outcome_of_flow
from fanfold.sim.fluid_flows import (
    Tree,
    Wires,
    build_entries,
    build_tree,
    build_wires,
)
from fanfold.sim.fluid_sizes import (
    Sizes,
    build_sizes,
    control_ps,
    fan_spans,
    implosion_ps,
    last_packet_ps,
    last_words_ps,
    message_spans,
    speak_once,
)
from fanfold.sim.fluid_slots import grant
from fanfold.sim.fluid_sums import (
    SumTimes,
    SumTree,
    count_arrays,
    count_sum,
    sum_entries,
    sum_times,
)
from fanfold.sim.loop.drain import ITEM_ROW, WAITS, drain
from fanfold.sim.loop.maxmin import (
    FLOW_ROW,
    H_FIELDS,
    LINK_ROW,
    N_LISTS,
    N_SOLVES,
    NONE,
    ON_ACKED,
)
from fanfold.sim.loop.pipeline import fill_all, flow_through, go_round
from fanfold.topo.birt import build_birt
from fanfold.topo.byte_time import byte_times
from fanfold.topo.net import Net
from fanfold.topo.placement import Placement, place_hosts
from fanfold.topo.routes import Routes

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
Rows = NDArray[np.void]
WINDOW_SHARE = 8
"""A window is at most this part of the smallest item (loop/drain.py)."""
ACK_TURNS = 3
"""In the steady state: rates, with their ACKs, with the ACKs of those."""


class FluidRun(NamedTuple):
    """Everything a run needs: what is sent, by which flows, over which links."""

    net: Net
    program: Program
    settings: Settings
    sizes: Sizes
    wires: Wires
    trees: list[Tree]
    rest_of: list[I64]
    sums: list[SumTree]
    times: list[SumTimes]
    items: Rows
    flows: Rows
    entries: Rows
    links: Rows


def run_fluid(
    net: Net,
    routes: Routes,
    program: Program,
    settings: Settings,
    *,
    seed: int,
    placement: Placement | None = None,
) -> Outcome:
    """Run a program, plain or compact, at flow fidelity.

    Args:
        seed: of paths, where each message has one. placement: who is in which set, in the order
            of hosts where none is given.

    Raises:
        ConfigError: no path to a receiver, or a program that cannot end.
    """
    check_program(program, net.n_hosts)
    settings = with_width(settings, net.n_hosts)
    ways = build_birt(net, routes, settings.n_ecmp)
    if placement is None:
        placement = place_hosts(net, "naive", settings.bitstring_bits)
    set_of = placement.set_of
    wires = build_wires(net, routes, ways, program, settings, seed)
    trees = [
        build_tree(net, routes, ways, program, fan, set_of, settings.n_ecmp)
        for fan in with_entropy(program.fans, seed)
    ]
    sums = grant(net, routes, ways, program, settings)
    taken = [sum_entries(net, tree, settings.ack_bytes) for tree in sums]
    first, entries = build_entries(net, routes, ways, wires, trees, taken, settings)
    sizes = build_sizes(program, settings)
    times = [sum_times(net, settings, tree) for tree in sums]
    items, rest_of = _build_items(net, program, settings, sizes, wires, trees)
    _fill_sums(program, items, wires.src.size + len(trees), sums, times)
    flows = _build_flows(net, program, settings, sizes, wires, trees, first)
    at = wires.src.size + len(trees)
    flows["limit"][at:] = [one.limit for one in times]
    flows["ack"][at:] = [one.ack for one in taken]
    stage = FluidRun(
        net,
        program,
        settings,
        sizes,
        wires,
        trees,
        rest_of,
        sums,
        times,
        items,
        flows,
        entries,
        _build_links(net),
    )
    h = _run(stage)
    tally = count_links(net, routes, ways, program, settings, sizes, wires, trees)
    for tree in sums:
        count_sum(net, settings, tree, tally)
    return _outcome(stage, tally, int(h[N_SOLVES]))


def _build_links(net: Net) -> Rows:
    rows = np.zeros(net.n_links, LINK_ROW)
    rows["cap"] = byte_times(net).bytes_a_ps()
    rows["reverse"], rows["head"] = net.reverse, NONE
    return rows


def _build_items(
    net: Net,
    program: Program,
    settings: Settings,
    sizes: Sizes,
    wires: Wires,
    trees: list[Tree],
) -> tuple[Rows, list[I64]]:
    """ITEM_ROW of each item; from a fan's last copy to each of its receivers."""
    n = program.src.size
    rows = np.zeros(program.n_items, ITEM_ROW)
    rows["flow"][:n] = wires.of
    first_sum, n_sent = program.first_sum, program.n_sent
    rows["flow"][n:first_sum] = wires.src.size + np.arange(len(trees))
    rows["flow"][n_sent:], rows["pause_ps"][n_sent:] = NONE, program.pauses_ps
    rows["bytes"] = sizes.wire
    rows["rest_ps"][:n], rows["back_ps"][:n] = message_spans(
        net, settings, program, wires, sizes
    )
    rest_of = []
    longer = last_words_ps(net, settings, trees, sizes, n)
    for m, tree in enumerate(trees):
        rest, back = fan_spans(net, settings, tree, sizes, n + m, folds=program.folds)
        rows["rest_ps"][n + m], rows["back_ps"][n + m] = rest.max(), back + longer[m]
        rest_of.append(rest)
    rows["start_ps"][:n] = program.start_ps
    rows["start_ps"][n:first_sum] = [fan.start_ps for fan in program.fans]
    rows["needs"] = program.n_needs
    rows["first_dep"], rows["end_dep"] = program.first_dep[:-1], program.first_dep[1:]
    rows["following"], rows["sent_ps"], rows["state"] = NONE, NOT_DONE, WAITS
    return rows, rest_of


def _fill_sums(
    program: Program, items: Rows, flow: int, sums: list[SumTree], times: list[SumTimes]
) -> None:
    """ITEM_ROW of each sum; it sends when it has been armed."""
    rows = items[program.first_sum : program.n_sent]
    rows["flow"] = flow + np.arange(len(sums))
    rows["bytes"] = [tree.sizes.flow for tree in sums]
    rows["start_ps"] = [one.start_ps for one in program.sums]
    rows["pause_ps"] = [one.ready_ps for one in times]
    rows["rest_ps"] = [one.rest_ps.max() for one in times]


def _build_flows(
    net: Net,
    program: Program,
    settings: Settings,
    sizes: Sizes,
    wires: Wires,
    trees: list[Tree],
    first: I64,
) -> Rows:
    """FLOW_ROW of each connection and fan, idle."""
    n_wires = wires.src.size
    rows = np.zeros(first.size - 1, FLOW_ROW)
    rows["first"], rows["end"] = first[:-1], first[1:]
    rows["item"] = rows["last"] = rows["at"] = NONE
    rows["limit"] = np.inf
    n = program.src.size
    acks = np.bincount(wires.of, sizes.pkts[:n], minlength=n_wires) * settings.ack_bytes
    rows["ack"][:n_wires] = acks / np.bincount(wires.of, sizes.wire[:n], minlength=n_wires)
    fans, own = slice(n, program.first_sum), slice(n_wires, n_wires + len(trees))
    words = sizes.words[fans] * feedback_bytes(settings, is_tree=bool(program.trees))
    rows["ack"][own] = np.where(speak_once(sizes, fans), 0, words / sizes.wire[fans])
    if settings.feedback == "packet" and not program.folds:
        rows["limit"][own] = [
            sizes.wire[n + m] / max(implosion_ps(net, settings, tree, sizes, n + m), 1)
            for m, tree in enumerate(trees)
        ]
    if settings.window_pkts and n_wires:
        full = np.full(n_wires, settings.payload_bytes + settings.header_bytes)
        there = last_packet_ps(net, settings, wires.path, full, settings.header_bytes)
        there += byte_times(net).at(wires.path[:, 0], full)
        back = control_ps(net, settings, wires.path, settings.ack_bytes)
        rows["limit"][:n_wires] = settings.window_pkts * full / (there + back)
    return rows


def _run(stage: FluidRun) -> I64:
    """Let the items run; the counters."""
    program, items = stage.program, stage.items
    size = max(stage.links.size, stage.flows.size)
    h = np.zeros(H_FIELDS, np.int64)
    h[ON_ACKED] = program.on == ACKED
    if h[ON_ACKED] and program.chunks > 1:
        items["rest_ps"] += items["back_ps"]
    lists = np.zeros((N_LISTS, size), np.int64)
    has_limits = bool(np.isfinite(stage.flows["limit"]).any())
    room = np.zeros((3, items.size), np.int64)
    world = (h, lists, stage.links, stage.flows, stage.entries)
    if program.chunks > 1:
        fill_all(*world, ACK_TURNS, has_limits)
        if program.shift:
            _go_round(stage)
        else:
            args = (program.dep, room[0], room[1], room[2], program.chunks)
            flow_through(stage.flows, items, *args)
    else:
        full = stage.settings.payload_bytes + stage.settings.header_bytes
        sent = items["bytes"][: program.n_sent]
        smallest = int(sent.min()) if sent.size else 0
        least = max(full, smallest // WINDOW_SHARE)
        window_ps = int(byte_times(stage.net).all(least).min())
        drain(*world, items, program.dep, room[:2], window_ps, has_limits)
    if h[ON_ACKED] and program.chunks > 1:
        items["rest_ps"] -= items["back_ps"]
    return h


def _go_round(stage: FluidRun) -> None:
    """Steps of a ring; its items stand in their order (schemes/ring.py)."""
    program, items = stage.program, stage.items
    n = items.size
    assert (program.dep == (np.arange(n) + 1) % n).all()
    rate = stage.flows["rate"][items["flow"]]
    one_ps = np.rint(items["bytes"] / rate / program.chunks).astype(np.int64)
    items["sent_ps"] = ring_ps(
        items["start_ps"].copy(), one_ps, items["rest_ps"].copy(), program.chunks
    )


def ring_ps(start_ps: I64, one_ps: I64, rest_ps: I64, pieces: int) -> I64:
    """When the last byte of each item of a ring leaves its sender, (I,).

    With pieces of one time no piece waits for the one before it, and the last has come by the
    last ``pieces`` - 1 ways. Args as of ``go_round``.
    """
    if (one_ps == one_ps[0]).all() and (start_ps == start_ps[0]).all():
        rounds, steps = divmod(pieces - 1, rest_ps.size)
        came = np.concatenate([[0], np.cumsum(np.tile(rest_ps, 2))])
        at = np.arange(rest_ps.size) + rest_ps.size
        ways = rounds * rest_ps.sum() + came[at] - came[at - steps]
        return np.asarray(start_ps + pieces * one_ps + ways, np.int64)
    go_round(start_ps, np.empty_like(start_ps), one_ps, rest_ps, pieces)
    return start_ps


def _outcome(stage: FluidRun, tally: I64, n_solves: int) -> Outcome:
    """Times of hosts and items, and the counts."""
    net, program, sizes, items = stage.net, stage.program, stage.sizes, stage.items
    n = program.src.size
    assert (items["sent_ps"] != NOT_DONE).all()  # check_order saw to that
    got = items["sent_ps"] + items["rest_ps"]
    acked = got + items["back_ps"]
    host_ps, due = np.zeros(net.n_hosts, np.int64), np.zeros(net.n_hosts, np.int64)
    np.maximum.at(host_ps, program.dst, got[:n])
    np.add.at(due, program.dst, sizes.payload[:n])
    heard = sizes.pkts.copy()
    n_slots = 0
    for m, tree in enumerate(stage.trees):
        blocks = int(sizes.blocks[n + m])
        due[tree.hosts] += sizes.payload[n + m]
        at = items["sent_ps"][n + m] + stage.rest_of[m]
        host_ps[tree.hosts] = np.maximum(host_ps[tree.hosts], at)
        heard[n + m] = blocks * tree.n_sets
        if not program.folds:
            heard[n + m] = int(sizes.words[n + m]) * tree.hosts.size
        if program.folds:
            n_slots += blocks * int(tree.copies[net.dst >= net.n_hosts].sum())
    joined, passed = 0, 0
    for a, (one, span) in enumerate(zip(stage.sums, stage.times, strict=True)):
        hosts = one.hosts if one.to_all else one.hosts[:1]
        due[hosts] += program.sums[a].n_bytes
        some = count_arrays(net, one)
        joined, passed = joined + some[0], passed + some[1]
        at = items["sent_ps"][program.first_sum + a] + span.rest_ps[: hosts.size]
        host_ps[hosts] = np.maximum(host_ps[hosts], at)
    end_ps, n_events = int(acked.max(initial=0)), n_solves + 2 * items.size
    reason = _reason(program, stage.settings)
    return outcome_of_flow(tally, due, host_ps, end_ps, n_events, reason)._replace(
        item_ps=acked,
        feedback_at_source=heard,
        n_folds=(n_slots, 0, 0),
        arrays=(joined, passed, 0),
        sum_slots=tuple(tree.window * (1 if tree.is_installed else 2) for tree in stage.sums),
    )


def _reason(program: Program, settings: Settings) -> str:
    """Why it stopped, and what the numbers leave out."""
    notes = ["every item is done"]
    if program.chunks > 1:
        notes.append(f"pipelines of {program.chunks} pieces in their steady state")
    if settings.loss_ppb or settings.failures:
        notes.append("loss and failures left out")
    if settings.queue_bytes or settings.pfc_pkts[0] or settings.transport == "ndp":
        notes.append("limits of queues left out")
    return "; ".join(notes)
