"""FOLD packets at a node of a virtual aggregation tree (docs/wire/fold.md section 3).

``take_fold`` decides; what is to be sent stands in ``vats.todo`` afterwards, and the driver
sends it. Nothing is added that was not checked, nothing is added twice.
"""

from fanfold.kernels.absorb import (
    FLAG_OUT,
    FLAG_RETRY,
    TTL,
    TTL_AT,
    WHAT_ARM,
    WHAT_CLOSE,
    WHAT_HEARD,
    WHAT_REQUEST,
    cut_short,
    fold_at,
    has_room,
    is_fold_sound,
    is_hasty,
    pass_on,
    readdress,
    send_again,
    send_on,
    send_result,
    take_array,
)
from fanfold.kernels.codes import DROP_BAD_CHECKSUM, DROP_BAD_FOLD, DROP_TTL_EXPIRED
from fanfold.kernels.fold_source import check_fold
from fanfold.kernels.frame import is_sound_from, seal_inner
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.late import wait_of
from fanfold.kernels.layout import BITS_AT, FOLD_BYTES, KIND_SPREAD
from fanfold.kernels.octets import (
    ZERO,
    copy_octets,
    read_bits,
    read_u16,
    read_u32,
    write_bits,
    write_u16,
)
from fanfold.kernels.replicate import bit
from fanfold.kernels.shares import group_of
from fanfold.kernels.slots import NEVER_PS
from fanfold.kernels.state import I64, U8, U64, Ports, Rows
from fanfold.kernels.tables import Bifts
from fanfold.kernels.vat import (
    DO_REPLY,
    DO_SPREAD,
    DONE,
    FLUSHED_BM,
    FREE,
    HEARD_BM,
    NO_ROW,
    OPEN,
    VAT_ARMED,
    VAT_REQUEST,
    VAT_STALE,
    VAT_UNKNOWN,
    Vats,
    age_of,
    close_vat,
    copy_words,
    find_vat,
    is_inside,
    note,
    slot_of,
)
from fanfold.kernels.vat_rows import open_vat


@kernel
def take_fold(
    buf: U8,
    at: int,
    size: int,
    n_words: int,
    port: int,
    now_ps: int,
    node: Rows,
    bifts: Bifts,
    ports: Ports,
    vats: Vats,
    drops: I64,
    scratch: U64,
    is_near: bool,
) -> None:
    """Take in one FOLD packet that is not a result.

    Args:
        buf, at, size: the packet; a HEARD is changed. n_words: of its BitString. port: inlet.
        node, bifts, ports: this BFR. vats, drops: updated. scratch: (2, W). is_near: unsealed.
    """
    if not is_sound_from(buf, at, size, n_words, is_near):
        drops[DROP_BAD_CHECKSUM] += 1
        return
    fan = at + fold_at(n_words)
    if not is_fold_sound(buf, fan, size - (fan - at), n_words):
        drops[DROP_BAD_FOLD] += 1
        return
    bits = scratch[0]
    read_bits(buf, at + BITS_AT, n_words, bits)
    what = i64(buf[fan + 1])
    is_down = i64(buf[fan]) & 0xF == KIND_SPREAD
    refused = check_fold(buf, at, fan, n_words, port, now_ps, node, bifts, ports, vats, bits)
    if refused != 0:
        drops[refused] += 1
        return
    came = inlet_of(ports, port)
    if what == WHAT_ARM:
        take_arm(buf, at, size, n_words, port, now_ps, node, bifts, ports, vats, drops, bits)
        return
    vat = find_vat(vats, group_of(buf, at, fan), bits, n_words)
    if vat == NO_ROW and is_down:
        spread_small(buf, at, size, n_words, came, node, vats, drops)  # as plain BIER
    elif vat == NO_ROW:
        vats.events[VAT_UNKNOWN] += 1
    elif is_down or what == WHAT_CLOSE:
        if what == WHAT_HEARD and vat >= 0 and vats.rows[vat]["n_slots"] > 0:
            overhear(buf, at, n_words, now_ps, vats, vat, scratch[1])
        take_down(buf, at, size, n_words, came, node, vats, vat, drops)
    elif vat < 0 or vats.rows[vat]["n_slots"] == 0:
        r = vat if vat >= 0 else -2 - vat
        if what == WHAT_REQUEST and vats.rows[r]["is_root"] != 0:
            say_out(buf, at, n_words, port, node, vats, r)  # no longer one of the group
        pass_on(buf, at, size, came, vats, r, drops)
    elif what == WHAT_REQUEST:
        vats.rows[vat]["used_ps"] = now_ps
        take_request(buf, at, size, n_words, port, came, now_ps, node, vats, vat, drops, bits)
    else:
        vats.rows[vat]["used_ps"] = now_ps
        take_array(buf, at, size, n_words, came, now_ps, node, vats, vat, drops, bits)


@kernel
def inlet_of(ports: Ports, port: int) -> int:
    """Port that nothing goes back to, 0 where a host is: the root may be the rank's own."""
    return 0 if ports.bfr_id[port] != 0 else port


@kernel
def take_request(
    buf: U8,
    at: int,
    size: int,
    n_words: int,
    port: int,
    came: int,
    now_ps: int,
    node: Rows,
    vats: Vats,
    vat: int,
    drops: I64,
    bits: U64,
) -> None:
    """Somebody lacks a result: send it again, or say who was heard; not the root: ask on."""
    vats.events[VAT_REQUEST] += 1
    fan = at + fold_at(n_words)
    block = read_u32(buf, fan + 8)
    row = vats.rows[vat]
    s = slot_of(row, block)
    slot = vats.slots[s]
    age = age_of(slot, block)
    is_here = slot["state"] != FREE and age == 0
    if slot["state"] != FREE and age < 0:
        vats.events[VAT_STALE] += 1
        if row["is_root"] != 0:
            say_out(buf, at, n_words, port, node, vats, vat)
    elif row["is_root"] != 0 and is_here and slot["state"] == DONE:
        send_result(vats, s, bits, n_words, now_ps)
        return
    elif row["is_root"] != 0 or not is_here or not is_heard(vats, s, bits, n_words):
        say_heard(buf, at, n_words, port, node, vats, s if is_here else NO_ROW)
    if row["is_root"] == 0:
        send_on(buf, at, size, came, vats, row["port"], drops)


@kernel
def is_heard(vats: Vats, s: int, bits: U64, n_words: int) -> bool:
    """All of the bits are in the slot or went up before."""
    for w in range(n_words):
        if bits[w] & ~(vats.words[s, HEARD_BM, w] | vats.words[s, FLUSHED_BM, w]) != ZERO:
            return False
    return True


@kernel
def say_heard(
    buf: U8, at: int, n_words: int, port: int, node: Rows, vats: Vats, s: int
) -> None:
    """Answer a REQUEST with the P-BM of a slot, or of none: NO_ROW."""
    n = start_heard(buf, at, n_words, port, node, vats)
    if n < 0:
        return
    bits = vats.todo_bits[n]
    for w in range(n_words):
        bits[w] = (
            ZERO if s == NO_ROW else vats.words[s, HEARD_BM, w] | vats.words[s, FLUSHED_BM, w]
        )
    end_heard(vats, n, n_words)


@kernel
def say_out(
    buf: U8, at: int, n_words: int, port: int, node: Rows, vats: Vats, vat: int
) -> None:
    """Answer a REQUEST for what is no longer kept, or of no member, with the A-BM."""
    n = start_heard(buf, at, n_words, port, node, vats)
    if n < 0:
        return
    vats.small[n][fold_at(n_words) + 2] |= FLAG_OUT
    copy_words(vats.todo_bits[n], vats.a_bm[vat], n_words)
    end_heard(vats, n, n_words)


@kernel
def start_heard(buf: U8, at: int, n_words: int, port: int, node: Rows, vats: Vats) -> int:
    """Note a HEARD that answers the REQUEST at ``at``; its row of ``todo``, or -1."""
    head = fold_at(n_words) + FOLD_BYTES
    n = note(vats, DO_REPLY, 0, port, head + 8 * n_words)
    if n < 0:
        return n
    vats.todo[n, 1] = n
    packet = vats.small[n]
    copy_octets(packet, 0, buf, at, head)
    readdress(packet, 0, KIND_SPREAD, node, n_words)
    packet[head - FOLD_BYTES + 1] = WHAT_HEARD
    return n


@kernel
def end_heard(vats: Vats, n: int, n_words: int) -> None:
    """Finish a HEARD with the BitString of its row of ``todo``."""
    head = fold_at(n_words) + FOLD_BYTES
    write_bits(vats.small[n], head, n_words, vats.todo_bits[n])
    seal_inner(vats.small[n], 0, head + 8 * n_words, n_words)


@kernel
def overhear(
    buf: U8, at: int, n_words: int, now_ps: int, vats: Vats, vat: int, above: U64
) -> None:
    """A HEARD on its way down: send an array again that did not arrive, add what is here."""
    head = fold_at(n_words) + FOLD_BYTES
    fan = at + head - FOLD_BYTES
    row = vats.rows[vat]
    s = slot_of(row, read_u32(buf, fan + 8))
    slot = vats.slots[s]
    if (
        row["is_root"] != 0
        or slot["state"] == FREE
        or buf[fan + 2] & FLAG_OUT != 0
        or age_of(slot, read_u32(buf, fan + 8)) != 0
    ):
        return
    read_bits(buf, at + head, n_words, above)
    mine = vats.words[s, HEARD_BM]
    if slot["state"] == DONE and not is_inside(mine, above, n_words):
        send_again(vats, s, now_ps)
    for w in range(n_words):
        above[w] |= mine[w]
    write_bits(buf, at + head, n_words, above)
    seal_inner(buf, at, head + 8 * n_words, n_words)


@kernel
def take_down(
    buf: U8,
    at: int,
    size: int,
    n_words: int,
    port: int,
    node: Rows,
    vats: Vats,
    vat: int,
    drops: I64,
) -> None:
    """HEARD and CLOSE go on: down to their bits, or up to the root, where CLOSE turns."""
    r = vat if vat >= 0 else -2 - vat
    row = vats.rows[r]
    fan = at + fold_at(n_words)
    what, is_down = i64(buf[fan + 1]), i64(buf[fan]) & 0xF == KIND_SPREAD
    if not is_down and row["is_root"] == 0:
        send_on(buf, at, size, port, vats, row["port"], drops)
        return
    n = spread_small(buf, at, size, n_words, port, node, vats, drops)
    if what == WHAT_CLOSE and n >= 0:
        if not is_down:
            copy_words(vats.todo_bits[n], vats.a_bm[r], n_words)
        close_vat(vats, r)


@kernel
def spread_small(
    buf: U8, at: int, size: int, n_words: int, port: int, node: Rows, vats: Vats, drops: I64
) -> int:
    """Note a packet without an array for fanning out; its row of ``todo``, or -1.

    What is on its way down already does not go back out of ``port``; 0: it may.
    """
    fan = at + fold_at(n_words)
    is_down = i64(buf[fan]) & 0xF == KIND_SPREAD
    ttl = min(i64(buf[at + TTL_AT]), TTL)
    if size > vats.small.shape[1]:
        drops[DROP_BAD_FOLD] += 1
        return -1
    if is_down and ttl <= 1:
        drops[DROP_TTL_EXPIRED] += 1
        return -1
    n = note(vats, DO_SPREAD, 0, port if is_down else 0, size)
    if n < 0:
        return n
    vats.todo[n, 1] = n
    packet = vats.small[n]
    copy_octets(packet, 0, buf, at, size)
    read_bits(buf, at + BITS_AT, n_words, vats.todo_bits[n])
    readdress(packet, 0, KIND_SPREAD, node, n_words)
    if is_down:
        packet[TTL_AT] = ttl - 1
    seal_inner(packet, 0, size, n_words)
    return n


@kernel
def take_arm(
    buf: U8,
    at: int,
    size: int,
    n_words: int,
    port: int,
    now_ps: int,
    node: Rows,
    bifts: Bifts,
    ports: Ports,
    vats: Vats,
    drops: I64,
    bits: U64,
) -> None:
    """Keep the BitString as the A-BM, and where it came from as the way to the root."""
    fan = at + fold_at(n_words)
    group, n_slots = group_of(buf, at, fan), read_u16(buf, fan + 20)
    n_least = read_u16(buf, fan + 22)
    bift_id, came = read_u32(buf, at) >> 12, inlet_of(ports, port)
    is_down = i64(buf[fan]) & 0xF == KIND_SPREAD
    root_id = read_u16(buf, fan + 16)
    if not is_down and root_id != 0 and root_id != node[0]["bfr_id"]:
        way = way_to(buf, at, n_words, bifts, root_id)
        if way > 0:
            send_on(buf, at, size, came, vats, way, drops)
        return
    known = find_vat(vats, group, bits, n_words)
    if not is_down and buf[fan + 2] & FLAG_RETRY != 0 and known != NO_ROW:
        r = known if known >= 0 else -2 - known
        if vats.rows[r]["is_root"] == 0:
            send_on(buf, at, size, came, vats, vats.rows[r]["port"], drops)  # the root stays
            return
    if not is_down and buf[fan + 19] > 0:
        way = way_on(buf, at, n_words, port, bifts, ports, bits)
        if way > 0:
            buf[fan + 19] -= 1
            seal_inner(buf, at, size, n_words)
            send_on(buf, at, size, came, vats, way, drops)
            return
    way, is_root = (port, 0) if is_down else (0, 1)
    n_armed = vats.events[VAT_ARMED]
    armer = read_u16(buf, at + 10)
    vat = open_vat(vats, group, way, is_root, bits, n_words, bift_id, n_slots, n_least, now_ps)
    if vat != NO_ROW:
        vats.rows[vat]["armer"] = armer
    if vats.events[VAT_ARMED] != n_armed and buf[fan + 2] & FLAG_RETRY != 0:
        vats.rows[vat]["is_anew"] = 1
    n = spread_small(buf, at, size, n_words, came, node, vats, drops)
    if n >= 0 and not is_down:
        # Ranks, and BFRs on the way to them, hear how many slots the root has: 0 is no room.
        granted = 0 if vat == NO_ROW else vats.rows[vat]["n_slots"]
        write_u16(vats.small[n], fan - at + 20, granted)
        write_u16(vats.small[n], fan - at + 22, 0)
        seal_inner(vats.small[n], 0, size, n_words)


@kernel
def way_to(buf: U8, at: int, n_words: int, bifts: Bifts, bfr_id: int) -> int:
    """Port toward a BFER, 0 when none is."""
    bift_id = read_u32(buf, at) >> 12
    for t in range(bifts.ids.shape[0]):
        if bifts.ids[t] == bift_id:
            which = bifts.first[t] + (read_u32(buf, at + 4) & 0xFFFFF) % bifts.n_ecmp[t]
            return max(bifts.nbr_of[which, (bfr_id - 1) % (64 * n_words)], 0)
    return 0


@kernel
def way_on(
    buf: U8, at: int, n_words: int, port: int, bifts: Bifts, ports: Ports, bits: U64
) -> int:
    """Port toward the last rank that is behind another BFR than ``port``'s; 0 when none is."""
    bift_id = read_u32(buf, at) >> 12
    for t in range(bifts.ids.shape[0]):
        if bifts.ids[t] != bift_id:
            continue
        which = bifts.first[t] + (read_u32(buf, at + 4) & 0xFFFFF) % bifts.n_ecmp[t]
        for i in range(64 * n_words):
            k = 64 * n_words - 1 - i
            if bits[k // 64] & bit(k % 64) == ZERO:
                continue
            nbr = bifts.nbr_of[which, k]
            if nbr > 0 and nbr != port and (ports.bfr_id[nbr] - 1) % (64 * n_words) != k:
                return nbr
    return 0


@kernel
def expire_arrays(vats: Vats, node: Rows, now_ps: int) -> int:
    """Send up, partial, what has waited too long; the root waits on where it has no patience.

    Returns:
        Earliest deadline still ahead, NEVER_PS when nothing waits.
    """
    nearest = NEVER_PS
    for s in range(vats.slots.shape[0]):
        slot = vats.slots[s]
        if slot["state"] != OPEN:
            continue
        if vats.rows[slot["vat"]]["is_root"] != 0:
            if not is_hasty(vats, s) or slot["n_merged"] == 0:
                continue
            due = slot["began_ps"] + slot["patience_ps"]
        else:
            due = slot["deadline_ps"]
        if due > now_ps or not has_room(vats):
            nearest = min(nearest, max(due, now_ps + 1))
            continue
        if vats.rows[slot["vat"]]["is_root"] == 0:
            slot["deadline_ps"] = now_ps + wait_of(vats, s)
            nearest = min(nearest, slot["deadline_ps"])
        if slot["n_merged"] > 0:
            cut_short(vats, s, node, now_ps, vats.rows[slot["vat"]]["n_words"])
    return nearest
