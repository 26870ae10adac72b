"""What items weigh on the wire, and how long the last packet of one is under way.

Letters: I = items (messages, fans, then sums and pauses, of no size here), F = messages,
L = links.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Program
from fanfold.sim.fan_sizes import fan_head_bytes, feedback_bytes
from fanfold.sim.fluid_flows import Tree, Wires
from fanfold.sim.loop.tally import FULL, N_SORTS, SHORT, SHORT_BYTES
from fanfold.topo.byte_time import byte_times
from fanfold.topo.net import Net

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
Flags = NDArray[np.bool_]

WINDOW = 16
"""Blocks that a sender has under way, about, where nothing was lost."""


class Sizes(NamedTuple):
    """What one copy of each item is.

    payload, pkts, wire: (I,) bytes, packets, bytes with headers. blocks: (I,) of packets that
    BFRs fold the feedback of. words: (I,) of each receiver of a fan. sorts: (I, N_SORTS) full
    packets, short ones, bytes of those with headers.
    """

    payload: I64
    pkts: I64
    wire: I64
    blocks: I64
    words: I64
    sorts: I64


def build_sizes(program: Program, settings: Settings) -> Sizes:
    """Sizes of all items; in the compact form of all their pieces together."""
    n, c = program.src.size, program.chunks
    fan_bytes = [fan.n_bytes for fan in program.fans]
    none = np.zeros(program.n_items - program.first_sum, np.int64)
    payload = np.concatenate([program.n_bytes, np.array(fan_bytes, np.int64), none])
    header = np.full(payload.size, settings.header_bytes)
    header[n:] = fan_head_bytes(settings, is_tree=bool(program.trees))
    sorts = np.zeros((payload.size, N_SORTS), np.int64)
    blocks = np.zeros_like(payload)
    small = payload // c
    for size, times in ((small + 1, payload % c), (small, c - payload % c)):
        full, rest = np.divmod(size, settings.payload_bytes)
        sorts[:, FULL] += times * full
        blocks += times * -(-(full + (rest > 0)) // settings.block_psns)
        sorts[:, SHORT] += times * (rest > 0)
        sorts[:, SHORT_BYTES] += times * (rest > 0) * (rest + header)
    pkts = sorts[:, FULL] + sorts[:, SHORT]
    words = blocks
    if settings.feedback == "packet" and not program.folds:
        words = pkts
    elif settings.feedback == "nack" and not program.folds:
        words = np.ones_like(blocks)
    return Sizes(payload, pkts, payload + pkts * header, blocks, words, sorts)


def last_packet_ps(net: Net, settings: Settings, path: I32, sizes: I64, head: int) -> I64:
    """From a packet's last bit out of the slowest link to its last bit at the receiver.

    Store and forward: each link but the slowest adds a packet's time, as does each router's
    delay; with cut-through a link adds the header's time only.

    Args:
        path: (F, links), -1 beyond the last. sizes: (F,) bytes of a packet. head: bytes of its
            header.
    """
    used = path >= 0
    waits = head if settings.cut_through else sizes[:, None]
    send = np.where(used, byte_times(net).at(path, waits), 0)
    slowest = send.max(axis=1)
    fly = np.where(used, net.prop_ps[path] + settings.switch_ps, 0).sum(axis=1)
    return np.asarray(send.sum(axis=1) - slowest + fly - settings.switch_ps, np.int64)


def control_ps(net: Net, settings: Settings, path: I32, n_bytes: int) -> I64:
    """Time of a control packet along the reverse of each path."""
    back = net.reverse[np.maximum(path, 0)]
    each = byte_times(net).at(back, n_bytes) + net.prop_ps[back] + settings.switch_ps
    total = np.where(path >= 0, each, 0).sum(axis=1)
    return np.asarray(total - settings.switch_ps, np.int64)


def message_spans(
    net: Net, settings: Settings, program: Program, wires: Wires, sizes: Sizes
) -> tuple[I64, I64]:
    """rest_ps and back_ps of each message."""
    full = settings.payload_bytes + settings.header_bytes
    first = np.full(wires.src.size, full)
    rest = last_packet_ps(net, settings, wires.path, first, settings.header_bytes)[wires.of]
    n = program.src.size
    is_short = sizes.sorts[:n, FULL] == 0
    if is_short.any():
        path = wires.path[wires.of[is_short]]
        one = sizes.wire[:n][is_short] // np.maximum(sizes.pkts[:n][is_short], 1)
        rest[is_short] = last_packet_ps(net, settings, path, one, settings.header_bytes)
    back = control_ps(net, settings, wires.path, settings.ack_bytes)[wires.of]
    return rest, back


def fan_spans(
    net: Net, settings: Settings, tree: Tree, sizes: Sizes, item: int, *, folds: bool
) -> tuple[I64, int]:
    """From the last copy sent to each receiver of a fan, and from the last of them back.

    Folded, the last word of the deepest branch comes home alone. Unfolded, the last words of
    all receivers queue up at the source's link.
    """
    sorts = sizes.sorts[item]
    head = fan_head_bytes(settings, is_tree=tree.is_tree)
    size = settings.payload_bytes + head
    if sorts[FULL] == 0:
        size = int(sorts[SHORT_BYTES] // max(sorts[SHORT], 1))
    each = np.full(tree.hosts.size, size)
    rest = last_packet_ps(net, settings, tree.path, each, head)
    word = feedback_bytes(settings, is_tree=tree.is_tree)
    last = int(np.argmax(rest))
    back = int(control_ps(net, settings, tree.path[last : last + 1], word)[0])
    if not folds:
        one = int(byte_times(net).at(net.reverse[tree.path[0, 0]], word))
        waits = (tree.hosts.size - 1) * one
        gone = max(
            implosion_ps(net, settings, tree, sizes, item), _sent_ps(net, tree, sizes, item)
        )
        total = tree.hosts.size * int(sizes.words[item]) * one
        back += max(waits, total - gone)
    return rest, back


def speak_once(sizes: Sizes, fans: slice) -> Flags:
    """(M,) fans whose receivers have one word each: it comes when all data have come."""
    return np.asarray(sizes.words[fans] <= 1)


def last_words_ps(
    net: Net, settings: Settings, trees: list[Tree], sizes: Sizes, first: int
) -> I64:
    """How much longer the words of fans whose receivers speak once take for each other, (M,).

    All of them go home together while data still come: beyond the time that data take their
    busiest link, and that its own words take its source's.

    Args:
        first: item of the first fan.
    """
    is_once = speak_once(sizes, slice(first, first + len(trees)))
    times, load = byte_times(net), np.zeros((2, net.n_links), np.int64)
    for m in np.flatnonzero(is_once):
        load[0] += trees[m].copies * sizes.wire[first + m]
        load[1] += trees[m].words * feedback_bytes(settings, is_tree=trees[m].is_tree)
    data_ps, busy_ps = int(times.all(load[0]).max()), times.all(load[1])
    longer = np.zeros(len(trees), np.int64)
    for m in np.flatnonzero(is_once):
        tree = trees[m]
        home = net.reverse[tree.path[0, 0]]
        own = tree.words[home] * feedback_bytes(settings, is_tree=tree.is_tree)
        longer[m] = busy_ps[tree.words > 0].max() - int(times.at(home, own)) - data_ps
    return np.maximum(longer, 0)


def implosion_ps(net: Net, settings: Settings, tree: Tree, sizes: Sizes, item: int) -> int:
    """How long a fan takes at least that waits for its words at its source's link.

    The words of the last WINDOW blocks may still be on their way when all is sent.
    """
    word = feedback_bytes(settings, is_tree=tree.is_tree)
    one = int(byte_times(net).at(net.reverse[tree.path[0, 0]], word))
    n_words = max(int(sizes.words[item]) - WINDOW * settings.block_psns, 0)
    return tree.hosts.size * n_words * one


def _sent_ps(net: Net, tree: Tree, sizes: Sizes, item: int) -> int:
    return int(byte_times(net).at(tree.path[0, 0], sizes.wire[item]))
