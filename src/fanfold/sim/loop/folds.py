"""FOLD packets at BFRs: the kernels of a live BFR decide, here what they note is sent.

live/arrays.py does the same on sockets; a body's array stands for that of a whole block.
"""

from fanfold.kernels.absorb import (
    FLAG_EMPTY,
    SCOPE_ALL,
    SCOPE_ONLY,
    TTL_AT,
    fold_at,
)
from fanfold.kernels.frame import is_for_slots, seal_inner
from fanfold.kernels.jit import kernel
from fanfold.kernels.layout import BITS_AT, FOLD_BYTES
from fanfold.kernels.octets import ZERO, copy_octets, read_bits, read_u16, read_u32, write_bits
from fanfold.kernels.replicate import bit, replicate
from fanfold.kernels.slots import NEVER_PS
from fanfold.kernels.state import I64, U8, Rows
from fanfold.kernels.vat import (
    DO_PASS,
    DO_REPLY,
    DO_RESULT,
    DO_UP,
    OPEN,
    Vats,
    copy_words,
    flush_slot,
)
from fanfold.kernels.vat_packet import expire_arrays, take_fold
from fanfold.sim.loop.blocks import fold_pkt
from fanfold.sim.loop.events import push
from fanfold.sim.loop.fans import Bier, hold_once
from fanfold.sim.loop.ports import follow, free_pkt, pass_on, send_made
from fanfold.sim.loop.rows import (
    EV_ARRAYS,
    N_DEALT,
    N_HOSTS,
    N_KINDS,
    N_OPEN,
    N_WORDS,
    NONE,
    NOW,
    PFC_HIGH,
    World,
)
from fanfold.sim.loop.sum_rows import Sums, clock_of, ports_of, time_of, vats_of
from fanfold.sim.loop.tables import look_up
from fanfold.sim.loop.words import SIZE, take_body

REST_PS = 1_000_000_000
"""Between two looks at all slots of a BFR."""


@kernel
def on_fold(
    q: I64, world: World, bier: Bier, sums: Sums, rows: Rows, p: int, node: int
) -> None:
    """A FOLD packet at a BFR: into its slot, on toward the root, or down with a result.

    Args:
        rows: SUM_ROW of all sums.
    """
    pkts, links = world.pkts, world.links
    pkt = pkts[p]
    r = node - q[N_HOSTS]
    n_words = q[N_WORDS]
    body = bier.bodies[pkt["path"]]
    one = rows[pkt["stream"]]
    sums.bifts.ids[0] = one["bift_id"]
    sums.bifts.first[0] = look_up(q, bier.tables, r, one["si"], 0)
    for e in range(1, q[N_DEALT]):
        look_up(q, bier.tables, r, one["si"], e)
    if not is_for_slots(body, fold_at(n_words)):
        walk(q, world, bier, sums, rows, p, node)
        return
    vats = vats_of(q, sums, r)
    take_fold(
        body,
        0,
        pkt["si"],
        n_words,
        links[pkt["link"]]["reverse"] - world.nodes[node]["first_out"] + 1,
        clock_of(q),
        bier.bfrs[r : r + 1],
        sums.bifts,
        ports_of(sums, r),
        vats,
        bier.drops,
        sums.scratch,
        True,
    )
    if not do_all(q, world, bier, sums, rows, vats, p, node):
        free_pkt(q, pkts, p)
    watch_arrays(q, world.nodes, vats, node)


@kernel
def watch_arrays(q: I64, nodes: Rows, vats: Vats, node: int) -> None:
    """See to it that a BFR's next deadline of arrays is looked at, while a sum is open."""
    if vats.clock[0] == NEVER_PS or q[N_OPEN] == 0:
        return
    when = max(time_of(q, vats.clock[0]), q[NOW] + 1)
    if when < nodes[node]["arrays_ps"]:
        nodes[node]["arrays_ps"] = when
        push(q, when, node * N_KINDS + EV_ARRAYS)


@kernel
def on_arrays(q: I64, world: World, bier: Bier, sums: Sums, rows: Rows, node: int) -> None:
    """A BFR's deadline: arrays that have waited too long go up as they are."""
    if q[NOW] != world.nodes[node]["arrays_ps"]:
        return
    world.nodes[node]["arrays_ps"] = NEVER_PS
    r = node - q[N_HOSTS]
    vats = vats_of(q, sums, r)
    when = clock_of(q)
    vats.clock[0] = max(expire_arrays(vats, bier.bfrs[r : r + 1], when), when + REST_PS)
    do_all(q, world, bier, sums, rows, vats, -1, node)
    watch_arrays(q, world.nodes, vats, node)


@kernel
def do_all(
    q: I64, world: World, bier: Bier, sums: Sums, rows: Rows, vats: Vats, p: int, node: int
) -> bool:
    """Send all that is noted; True when packet ``p`` itself went on."""
    out = world.nodes[node]["first_out"] - 1
    went_on = False
    for k in range(vats.n_todo[0]):
        what, which = vats.todo[k, 0], vats.todo[k, 1]
        port, size = vats.todo[k, 2], vats.todo[k, 3]
        if what == DO_PASS:
            went_on = True
            pass_on(q, world.links, world.pkts, p, out + port)
        elif what == DO_UP:
            copy = copy_of(q, world.pkts, bier, rows, vats.room[which], size)
            send_made(q, world.links, world.pkts, copy, out + port, p)
            if vats.slots[which]["state"] == OPEN:
                flush_slot(vats, which)
        elif what == DO_RESULT:
            fan_result(q, world, bier, sums, rows, vats, k, node, p)
        elif what == DO_REPLY:
            copy = copy_of(q, world.pkts, bier, rows, vats.small[which], size)
            send_made(q, world.links, world.pkts, copy, out + port, p)
        else:
            copy_words(sums.scratch[0], vats.todo_bits[k], q[N_WORDS])
            fan_out(q, world, bier, sums, rows, vats.small[which], size, node, p, NONE)
    vats.n_todo[0] = 0
    return went_on


@kernel
def copy_of(q: I64, pkts: Rows, bier: Bier, rows: Rows, packet: U8, size: int) -> int:
    """A packet of these bytes."""
    row = take_body(q)
    body = bier.bodies[row]
    copy_octets(body, 0, packet, 0, size)
    return fold_pkt(q, pkts, rows, row, body, size)


@kernel
def walk(q: I64, world: World, bier: Bier, sums: Sums, rows: Rows, p: int, node: int) -> None:
    """A result on its way down, as plain BIER."""
    pkt = world.pkts[p]
    body = bier.bodies[pkt["path"]]
    n_words = q[N_WORDS]
    body[TTL_AT] -= 1
    read_bits(body, BITS_AT, n_words, sums.scratch[0])
    fan_out(q, world, bier, sums, rows, body, pkt["si"], node, p, pkt["link"])
    free_pkt(q, world.pkts, p)


@kernel
def fan_out(
    q: I64,
    world: World,
    bier: Bier,
    sums: Sums,
    rows: Rows,
    packet: U8,
    size: int,
    node: int,
    of: int,
    came: int,
) -> None:
    """Copies of a packet to ``sums.scratch[0]``, consumed, along the BFR's table.

    Args:
        of: record that it was made of, NONE for none. came: link that PFC counts it for, NONE
            where this BFR made it.
    """
    n_words = q[N_WORDS]
    entropy = read_u32(packet, 4) & 0xFFFFF
    table = sums.bifts.first[0] + entropy % sums.bifts.n_ecmp[0]
    n = replicate(
        sums.scratch[0],
        n_words,
        bier.tables.nbr_of[table],
        bier.tables.f_bm[table],
        bier.copy_nbr,
        bier.copy_bits,
    )
    out = world.nodes[node]["first_out"] - 1
    for c in range(n):
        nbr = bier.copy_nbr[c]
        if nbr <= 0:
            world.nodes[node]["n_dead"] += 1
            continue
        row = take_body(q)
        body = bier.bodies[row]
        copy_octets(body, 0, packet, 0, size)
        write_bits(body, BITS_AT, n_words, bier.copy_bits[c])
        copy = fold_pkt(q, world.pkts, rows, row, body, size)
        follow(q, world.pkts, copy, of)
        if q[PFC_HIGH] > 0:
            world.pkts[copy]["link"] = came
        bier.copy_nbr[c] = copy * SIZE + nbr
    if q[PFC_HIGH] > 0:
        hold_once(world.links, world.pkts, bier.copy_nbr, n, out)
    for c in range(n):
        if bier.copy_nbr[c] > 0:
            copy = bier.copy_nbr[c] // SIZE
            pass_on(q, world.links, world.pkts, copy, out + bier.copy_nbr[c] % SIZE)


@kernel
def fan_result(
    q: I64,
    world: World,
    bier: Bier,
    sums: Sums,
    rows: Rows,
    vats: Vats,
    k: int,
    node: int,
    of: int,
) -> None:
    """A result: its array to whom it is meant for, to others its headers."""
    which = vats.todo[k, 1]
    packet = vats.room[which]
    n_words = q[N_WORDS]
    fan = fold_at(n_words)
    scope, only = packet[fan + 18], read_u16(packet, fan + 16)
    if scope == SCOPE_ALL or vats.slots[which]["n_bytes"] == 0:
        copy_words(sums.scratch[0], vats.todo_bits[k], n_words)
        fan_out(q, world, bier, sums, rows, packet, vats.todo[k, 3], node, of, NONE)
        return
    rest = sums.scratch[1]
    at = (only - 1) % (64 * n_words)
    for part in range(2):
        some = ZERO
        for w in range(n_words):
            named = bit(at % 64) if at // 64 == w else ZERO
            if (scope == SCOPE_ONLY) != (part == 0):
                named = ~named
            rest[w] = vats.todo_bits[k, w] & named
            some |= rest[w]
        if some == ZERO:
            continue
        copy_words(sums.scratch[0], rest, n_words)
        if part == 0:
            fan_out(q, world, bier, sums, rows, packet, vats.todo[k, 3], node, of, NONE)
            continue
        head = fan + FOLD_BYTES
        empty = vats.small[k]  # not in use beside a result
        copy_octets(empty, 0, packet, 0, head)
        empty[fan + 2] |= FLAG_EMPTY
        seal_inner(empty, 0, head, n_words)
        fan_out(q, world, bier, sums, rows, empty, head, node, of, NONE)
