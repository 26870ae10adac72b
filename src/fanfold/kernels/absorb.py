"""Arrays at a node of a virtual aggregation tree: each rank's joined once, and sent on.

``vats.todo`` tells the driver what to send (docs/wire/fold.md section 3, rules 2 to 6).
"""

from fanfold.kernels.codes import DROP_TTL_EXPIRED, DROP_TURNED_BACK
from fanfold.kernels.frame import frame_inner
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.late import (
    be_patient,
    is_whole_but_late,
    lacks_some,
    leave_out,
    note_here,
    note_late,
)
from fanfold.kernels.layout import (
    BITS_AT,
    FANFOLD_PORT,
    FOLD_BYTES,
    INNER_BYTES,
    IP_BYTES,
    KIND_FOLD,
    KIND_SPREAD,
    VERSION,
)
from fanfold.kernels.octets import (
    copy_octets,
    fetch,
    read_u16,
    read_u32,
    write_bits,
    write_u16,
    write_u32,
)
from fanfold.kernels.reduce import (
    OP_MOVE,
    OP_SUM,
    WORD_BYTES,
    WORD_FIX32,
    WORD_FIX64,
    WORD_I16,
    WORD_I64,
    join,
    join_codes,
)
from fanfold.kernels.state import I64, U8, U64, Rows
from fanfold.kernels.vat import (
    DO_PASS,
    DO_RESULT,
    DO_UP,
    DONE,
    FLUSHED_BM,
    FREE,
    HEARD_BM,
    MAX_TODO,
    VAT_ABSORBED,
    VAT_COMPLETE,
    VAT_DUPLICATE,
    VAT_OVERFLOW,
    VAT_OVERLAP,
    VAT_PARTIAL,
    VAT_PASSED,
    VAT_RESENT,
    VAT_STALE,
    VAT_UNLIKE,
    Vats,
    age_of,
    copy_words,
    hurry_slot,
    is_inside,
    is_whole,
    meets,
    note,
    slot_of,
    start_slot,
)

WHAT_ARRAY = 0
WHAT_REQUEST = 1
WHAT_HEARD = 2
WHAT_ARM = 3
WHAT_CLOSE = 4

FLAG_EMPTY = 1
FLAG_RETRY = 2
FLAG_PARTIAL = 4
FLAG_OVERFLOW = 8
FLAG_NOT_FINITE = 16
FLAG_OUT = 32

SCOPE_ALL = 0
SCOPE_ONLY = 1
SCOPE_BUT = 2

TTL = 64
TTL_AT = 3
HOLD_PS = 1_000_000_000
"""An array that is asked for by many is sent again once in so long."""
PS_PER_MS = 1_000_000_000
TODO_EACH = 3
"""Things to do that one packet makes at most."""


@kernel
def fold_at(n_words: int) -> int:
    """Offset of the FOLD header from the packet's start."""
    return BITS_AT + 8 * n_words + INNER_BYTES


@kernel
def is_fold_sound(buf: U8, fan: int, n: int, n_words: int) -> bool:
    """A FOLD message at ``fan`` of ``n`` bytes is one that docs/wire/fold.md allows."""
    kind, what = i64(buf[fan]) & 0xF, i64(buf[fan + 1])
    op, word = i64(buf[fan + 3]) >> 4, i64(buf[fan + 3]) & 0xF
    scope = i64(buf[fan + 18])
    if op > OP_MOVE or word > WORD_FIX64 or scope > SCOPE_BUT:
        return False
    if word >= WORD_FIX32 and op != OP_SUM:
        return False
    if what > WHAT_CLOSE or what == (WHAT_HEARD if kind == KIND_FOLD else WHAT_REQUEST):
        return False
    if (scope != SCOPE_ALL) != (read_u16(buf, fan + 16) != 0):
        return False
    n_bytes = n - FOLD_BYTES
    if what == WHAT_HEARD:
        return n_bytes == 8 * n_words
    if what == WHAT_ARRAY and kind == KIND_SPREAD and buf[fan + 2] & FLAG_PARTIAL != 0:
        n_bytes -= 8 * n_words  # the P-BM
    n_codes = codes_before(buf, fan)
    if what == WHAT_ARRAY:
        n_bytes -= n_codes
    if what != WHAT_ARRAY or buf[fan + 2] & FLAG_EMPTY != 0:
        return n_bytes == 0
    if word == WORD_FIX64 and n_codes % 2 != 0:
        return False
    width = 8 if word == WORD_I64 or word == WORD_FIX64 else 4
    if word == WORD_BYTES or word == WORD_I16:
        width = 1 if word == WORD_BYTES else 2
    return n_bytes > 0 and n_bytes % width == 0


@kernel
def codes_before(buf: U8, fan: int) -> int:
    """Bytes of exponents before the words of an array."""
    return read_u16(buf, fan + 12) if i64(buf[fan + 3]) & 0xF >= WORD_FIX32 else 0


@kernel
def has_room(vats: Vats) -> bool:
    """One packet more can be taken before things are done."""
    return vats.n_todo[0] + TODO_EACH <= MAX_TODO


@kernel
def pass_on(buf: U8, at: int, size: int, port: int, vats: Vats, vat: int, drops: I64) -> None:
    """Send a packet on toward the root as it is; a root without slots has no way to send it."""
    vats.events[VAT_PASSED] += 1
    if vats.rows[vat]["is_root"] == 0:
        send_on(buf, at, size, port, vats, vats.rows[vat]["port"], drops)


@kernel
def send_on(buf: U8, at: int, size: int, port: int, vats: Vats, way: int, drops: I64) -> None:
    """Note a packet of the block in hand for ``way``, one hop older; not back to ``port``."""
    ttl = min(i64(buf[at + TTL_AT]), TTL)
    if ttl <= 1:
        drops[DROP_TTL_EXPIRED] += 1
    elif way == port:
        drops[DROP_TURNED_BACK] += 1
    else:
        buf[at + TTL_AT] = ttl - 1
        note(vats, DO_PASS, at, way, size)


@kernel
def take_array(
    buf: U8,
    at: int,
    size: int,
    n_words: int,
    port: int,
    now_ps: int,
    node: Rows,
    vats: Vats,
    vat: int,
    drops: I64,
    bits: U64,
) -> None:
    """Join an array into its slot, once for each rank."""
    fan = at + fold_at(n_words)
    block = read_u32(buf, fan + 8)
    s = slot_of(vats.rows[vat], block)
    slot = vats.slots[s]
    age = age_of(slot, block)
    if slot["state"] == FREE or age > 0:
        start_slot(vats, s, vat, block, now_ps)
    elif age < 0:
        vats.events[VAT_STALE] += 1
        return
    heard, flushed = vats.words[s, HEARD_BM], vats.words[s, FLUSHED_BM]
    note_here(vats, vat, bits, n_words)
    if not is_inside(bits, vats.a_bm[vat], n_words):
        vats.events[VAT_OVERLAP] += 1
    elif meets(bits, heard, n_words) or meets(bits, flushed, n_words):
        take_again(buf, at, size, n_words, port, now_ps, vats, s, drops, bits)
    elif buf[fan + 2] & FLAG_OUT != 0:
        for w in range(n_words):
            flushed[w] |= bits[w]
        note_ahead(buf, fan, n_words, vats, s)
        pass_on(buf, at, size, port, vats, vat, drops)
        settle(vats, s, node, now_ps, n_words)
    elif add(buf, fan, size - (fan - at), n_words, vats, s):
        for w in range(n_words):
            heard[w] |= bits[w]
        if buf[fan + 2] & FLAG_PARTIAL != 0:
            hurry_slot(vats, s, now_ps)
        settle(vats, s, node, now_ps, n_words)


@kernel
def settle(vats: Vats, s: int, node: Rows, now_ps: int, n_words: int) -> None:
    """Send a slot's array if everyone is there, or everyone who is waited for."""
    slot = vats.slots[s]
    if slot["n_merged"] == 0:
        return
    row = vats.rows[slot["vat"]]
    if is_whole(vats, s, n_words):
        slot["state"] = DONE
        vats.events[VAT_COMPLETE] += 1
        if row["is_root"] != 0 and lacks_some(vats, s, n_words):
            slot["flags"] |= FLAG_PARTIAL
        send_slot(vats, s, node, now_ps, n_words)
    elif is_hasty(vats, s) and is_whole_but_late(vats, s, n_words):
        cut_short(vats, s, node, now_ps, n_words)


@kernel
def is_hasty(vats: Vats, s: int) -> bool:
    """Arrays of a slot may go without those that are late."""
    slot = vats.slots[s]
    row = vats.rows[slot["vat"]]
    return slot["patience_ps"] > 0 and (row["is_root"] == 0 or row["is_anew"] == 0)


@kernel
def cut_short(vats: Vats, s: int, node: Rows, now_ps: int, n_words: int) -> None:
    """Send what there is: below the root a part, at the root the result for good."""
    slot = vats.slots[s]
    slot["flags"] |= FLAG_PARTIAL
    vats.events[VAT_PARTIAL] += 1
    if slot["patience_ps"] > 0:
        note_late(vats, s, n_words)
    if vats.rows[slot["vat"]]["is_root"] != 0:
        slot["state"] = DONE
        leave_out(vats, s, n_words)
    send_slot(vats, s, node, now_ps, n_words)


@kernel
def take_again(
    buf: U8,
    at: int,
    size: int,
    n_words: int,
    port: int,
    now_ps: int,
    vats: Vats,
    s: int,
    drops: I64,
    bits: U64,
) -> None:
    """An array of which some rank was heard before: never added, however it got here."""
    slot = vats.slots[s]
    row = vats.rows[slot["vat"]]
    fan = at + fold_at(n_words)
    if is_inside(bits, vats.words[s, FLUSHED_BM], n_words):
        if row["is_root"] != 0 and slot["state"] == DONE:
            vats.events[VAT_STALE] += 1  # decided without it
            send_result(vats, s, bits, n_words, now_ps)
            return
        vats.events[VAT_DUPLICATE] += 1
        if buf[fan + 2] & FLAG_RETRY != 0:
            # The partial it went up with may be lost.
            pass_on(buf, at, size, port, vats, slot["vat"], drops)
        return
    if not is_inside(bits, vats.words[s, HEARD_BM], n_words):
        vats.events[VAT_OVERLAP] += 1
        return
    vats.events[VAT_DUPLICATE] += 1
    if buf[fan + 2] & FLAG_RETRY != 0 and slot["state"] == DONE:
        if row["is_root"] != 0:
            send_result(vats, s, bits, n_words, now_ps)
        else:
            send_again(vats, s, now_ps)


@kernel
def add(buf: U8, fan: int, n: int, n_words: int, vats: Vats, s: int) -> bool:
    """Join the array of a message of ``n`` bytes into a slot; False when it is unlike them.

    The first message leaves its headers in the slot.
    """
    slot, room = vats.slots[s], vats.room[s]
    head = fold_at(n_words)
    n_codes = codes_before(buf, fan)
    n_bytes = n - FOLD_BYTES - n_codes
    patience_ps = read_u16(buf, fan + 22) * PS_PER_MS
    fetch(room, room.shape[0], n)  # the next slot: its block comes next
    if head + n + 8 * n_words > room.shape[0]:
        vats.events[VAT_UNLIKE] += 1
        return False
    if slot["n_merged"] > 0:
        patience_ps = min(patience_ps, slot["patience_ps"])
    if slot["n_merged"] == 0:
        copy_octets(room, 0, buf, fan - head, head + FOLD_BYTES)
    elif not is_like(buf, fan, room, head):
        vats.events[VAT_UNLIKE] += 1
        return False
    start = head + FOLD_BYTES + n_codes
    if n_bytes > 0 and slot["n_bytes"] != 0 and slot["n_bytes"] != n_bytes:
        vats.events[VAT_UNLIKE] += 1
        return False
    if not note_ahead(buf, fan, n_words, vats, s):
        vats.events[VAT_UNLIKE] += 1
        return False
    if n_bytes > 0 and slot["n_bytes"] == 0:
        copy_octets(room, start, buf, fan + FOLD_BYTES + n_codes, n_bytes)
        slot["n_bytes"] = n_bytes
    elif n_bytes > 0:
        op, word = i64(buf[fan + 3]) >> 4, i64(buf[fan + 3]) & 0xF
        here = room[start : start + n_bytes]
        if join(op, word, here, buf[fan + FOLD_BYTES + n_codes : fan + n]):
            slot["flags"] |= FLAG_OVERFLOW
            vats.events[VAT_OVERFLOW] += 1
    slot["flags"] |= i64(buf[fan + 2]) & (FLAG_OVERFLOW | FLAG_NOT_FINITE)
    slot["n_merged"] = min(slot["n_merged"] + read_u16(buf, fan + 14), 0xFFFF)
    vats.events[VAT_ABSORBED] += 1
    be_patient(vats, s, patience_ps)
    return True


@kernel
def note_ahead(buf: U8, fan: int, n_words: int, vats: Vats, s: int) -> bool:
    """Take in what a message says of the block that is next in a slot; False: unlike others."""
    slot, room = vats.slots[s], vats.room[s]
    word = i64(buf[fan + 3]) & 0xF
    n = codes_before(buf, fan)
    if word < WORD_FIX32:
        slot["exponent"] = max(slot["exponent"], read_u16(buf, fan + 12))
        return True
    start = fold_at(n_words) + FOLD_BYTES
    if slot["n_codes"] == 0 and slot["n_bytes"] == 0 and start + n <= room.shape[0]:
        copy_octets(room, start, buf, fan + FOLD_BYTES, n)
        slot["n_codes"] = n
        return True
    if slot["n_codes"] != n:
        return False
    join_codes(word, room[start : start + n], buf[fan + FOLD_BYTES : fan + FOLD_BYTES + n])
    return True


@kernel
def is_like(buf: U8, fan: int, room: U8, head: int) -> bool:
    """Operator, word and scope are those of the slot."""
    if buf[fan + 3] != room[head + 3] or buf[fan + 18] != room[head + 18]:
        return False
    return buf[fan + 16] == room[head + 16] and buf[fan + 17] == room[head + 17]


@kernel
def send_slot(vats: Vats, s: int, node: Rows, now_ps: int, n_words: int) -> None:
    """Note the array of a slot for sending: up, or at the root down to all."""
    slot = vats.slots[s]
    row = vats.rows[slot["vat"]]
    finish_slot(vats, s, node, n_words)
    if row["is_root"] != 0:
        send_result(vats, s, vats.a_bm[slot["vat"]], n_words, now_ps)
        return
    slot["sent_ps"] = now_ps
    note(vats, DO_UP, s, row["port"], packet_bytes(vats, s, n_words))


@kernel
def send_result(vats: Vats, s: int, bits: U64, n_words: int, now_ps: int) -> None:
    """Note the result of a slot for some ranks."""
    slot = vats.slots[s]
    if slot["sent_ps"] >= 0:
        vats.events[VAT_RESENT] += 1
        set_retry(vats.room[s], n_words, packet_bytes(vats, s, n_words))
    slot["sent_ps"] = now_ps
    n = note(vats, DO_RESULT, s, 0, packet_bytes(vats, s, n_words))
    if n >= 0:
        copy_words(vats.todo_bits[n], bits, n_words)


@kernel
def send_again(vats: Vats, s: int, now_ps: int) -> None:
    """Send a complete array up once more, unless that was done a moment ago."""
    slot = vats.slots[s]
    if now_ps - slot["sent_ps"] < HOLD_PS:
        return
    slot["sent_ps"] = now_ps
    vats.events[VAT_RESENT] += 1
    row = vats.rows[slot["vat"]]
    size = packet_bytes(vats, s, row["n_words"])
    set_retry(vats.room[s], row["n_words"], size)
    note(vats, DO_UP, s, row["port"], size)


@kernel
def set_retry(packet: U8, n_words: int, size: int) -> None:
    """Mark a finished packet as sent again."""
    fan = fold_at(n_words)
    if packet[fan + 2] & FLAG_RETRY == 0:
        packet[fan + 2] |= FLAG_RETRY
        frame_inner(packet, 0, size, n_words)


@kernel
def packet_bytes(vats: Vats, s: int, n_words: int) -> int:
    """Size of the packet in a slot; a partial result ends with its P-BM."""
    slot = vats.slots[s]
    size = fold_at(n_words) + FOLD_BYTES + slot["n_codes"] + slot["n_bytes"]
    if slot["flags"] & FLAG_PARTIAL != 0 and vats.rows[slot["vat"]]["is_root"] != 0:
        size += 8 * n_words
    return size


@kernel
def finish_slot(vats: Vats, s: int, node: Rows, n_words: int) -> None:
    """Finish the headers of the packet in a slot: P-BM, flags, exponent. It stays bare.

    The driver writes its checksum where it leaves by a socket.
    """
    slot, packet = vats.slots[s], vats.room[s]
    fan = fold_at(n_words)
    row = vats.rows[slot["vat"]]
    kind = KIND_SPREAD if row["is_root"] != 0 else KIND_FOLD
    flags = slot["flags"] | (FLAG_EMPTY if slot["n_bytes"] == 0 else 0)
    packet[fan + 2] = flags
    is_fix = i64(packet[fan + 3]) & 0xF >= WORD_FIX32
    write_u16(packet, fan + 12, slot["n_codes"] if is_fix else slot["exponent"])
    write_u16(packet, fan + 14, slot["n_merged"])
    write_u16(packet, fan + 22, slot["patience_ps"] // PS_PER_MS)
    write_bits(packet, BITS_AT, n_words, vats.words[s, HEARD_BM])
    if kind == KIND_SPREAD and flags & FLAG_PARTIAL != 0:
        end = packet_bytes(vats, s, n_words) - 8 * n_words
        write_bits(packet, end, n_words, vats.words[s, HEARD_BM])
    readdress(packet, 0, kind, node, n_words)
    frame_inner(packet, 0, packet_bytes(vats, s, n_words), n_words)


@kernel
def readdress(packet: U8, at: int, kind: int, node: Rows, n_words: int) -> None:
    """Make a packet this node's own, upward or downward: TTL, source, the side of port 8139."""
    ip = at + BITS_AT + 8 * n_words
    fan = ip + INNER_BYTES
    was_down = i64(packet[fan]) & 0xF == KIND_SPREAD
    port = read_u16(packet, ip + IP_BYTES + (0 if was_down else 2))
    packet[at + TTL_AT] = TTL
    packet[fan] = (VERSION << 4) | kind
    write_u32(packet, ip + 12, node[0]["addr"])
    write_u16(packet, ip + IP_BYTES, port if kind == KIND_SPREAD else FANFOLD_PORT)
    write_u16(packet, ip + IP_BYTES + 2, FANFOLD_PORT if kind == KIND_SPREAD else port)
