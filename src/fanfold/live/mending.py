"""Repairs of a BFR's own on their way down: what it keeps, to those who lack it (mend.py)."""

from fanfold.kernels.codes import CLASS_REPAIR
from fanfold.kernels.frame import find_bift
from fanfold.kernels.jit import kernel
from fanfold.kernels.layout import BIER_PORT, BITS_AT
from fanfold.kernels.mend import write_mend
from fanfold.kernels.octets import read_u32, write_bits
from fanfold.kernels.replicate import replicate
from fanfold.kernels.state import Counters, Plan, Ports, Store
from fanfold.kernels.tables import Bifts
from fanfold.live.exits import aim, count_sent, flow_row, send_packet
from fanfold.live.sock import TAP_OUT, TAPPING, Sock, tap_packets


@kernel
def send_mends(
    sock: Sock, store: Store, bifts: Bifts, ports: Ports, counters: Counters, plan: Plan
) -> None:
    """Send all repairs that are noted. ``plan``: its ``copy_*`` are overwritten."""
    while store.n_todo[0] > 0:
        store.n_todo[0] -= 1
        send_mend(sock, store, store.n_todo[0], bifts, ports, counters, plan)


@kernel
def send_mend(
    sock: Sock,
    store: Store,
    i: int,
    bifts: Bifts,
    ports: Ports,
    counters: Counters,
    plan: Plan,
) -> None:
    """Send repair ``i`` of the list: a copy by each port that leads to who lacks it."""
    n_entries = store.entries.shape[1]
    g = store.todo[i, 0] // n_entries
    table = find_bift(bifts.ids, store.entries[g, store.todo[i, 0] % n_entries]["bift_id"])
    if table < 0:
        return
    n_words = bifts.n_words[table]
    size = write_mend(store, i, n_words, sock.out)
    entropy = read_u32(sock.out, 4) & 0xFFFFF
    which = bifts.first[table] + entropy % bifts.n_ecmp[table]
    n = replicate(
        store.todo_bits[i],
        n_words,
        bifts.nbr_of[which],
        bifts.f_bm[which],
        plan.copy_nbr,
        plan.copy_bits,
    )
    flow = flow_row(counters, store.segs[g]["key"])
    for c in range(n):
        port = plan.copy_nbr[c]
        if port <= 0:
            continue
        write_bits(sock.out, BITS_AT, n_words, plan.copy_bits[c])
        aim(sock, ports.addr[port], BIER_PORT)
        if sock.ints[TAPPING] != 0:
            tap_packets(
                sock, sock.out, 0, size, size, port, TAP_OUT, BIER_PORT, ports.addr[port]
            )
        if send_packet(sock, port, sock.out, size):
            count_sent(counters, port, CLASS_REPAIR, flow, size)
