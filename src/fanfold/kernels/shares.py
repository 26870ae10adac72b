"""What each tenant has of a BFR: slots, segments of the store, flows counted, a rate.

A tenant is a sub-domain (RFC 8279 section 2), and a BIFT-id names its own, so each packet says
whose it is. Shares lie side by side and nobody's is lent to another: what one tenant fills up
is its own. A node without tenants has no shares, and all is everybody's.
"""

from fanfold.kernels.codes import DROP_TENANT_RATE, DROP_TENANT_RECEIVERS, DROP_WRONG_TENANT
from fanfold.kernels.jit import i64, kernel
from fanfold.kernels.octets import read_u32
from fanfold.kernels.replicate import n_bits
from fanfold.kernels.state import I64, MAX_FLOWS, U8, U64, Counters, Fold, Rows, Store
from fanfold.kernels.tables import Bifts

SD_SHIFT, SD_MASK = 8, 0xFF
"""Where a BIFT-id has its sub-domain (docs/wire/bier-udp.md section 2)."""


@kernel
def sub_domain_of(bift_id: int) -> int:
    """Sub-domain that a BIFT-id is of."""
    return bift_id >> SD_SHIFT & SD_MASK


@kernel
def slots_from(fold: Fold, bift_id: int) -> int:
    """First slot of a BIFT-id's tenant."""
    shares = fold.store.shares
    if shares.shape[0] == 0:
        return 0
    return i64(shares[sub_domain_of(bift_id)]["first_slot"])


@kernel
def slots_in(fold: Fold, bift_id: int) -> int:
    """How many slots it has, a power of two or 0."""
    shares = fold.store.shares
    if shares.shape[0] == 0:
        return fold.rows.shape[0]
    return i64(shares[sub_domain_of(bift_id)]["n_slots"])


@kernel
def segs_from(store: Store, bift_id: int) -> int:
    """First segment of a BIFT-id's tenant."""
    if store.shares.shape[0] == 0:
        return 0
    return i64(store.shares[sub_domain_of(bift_id)]["first_seg"])


@kernel
def segs_in(store: Store, bift_id: int) -> int:
    """How many segments it has."""
    if store.shares.shape[0] == 0:
        return store.segs.shape[0]
    return i64(store.shares[sub_domain_of(bift_id)]["n_segs"])


@kernel
def note_full(shares: Rows, bift_id: int) -> None:
    """A block found no slot among its tenant's."""
    if shares.shape[0] > 0:
        shares[sub_domain_of(bift_id)]["n_full"] += 1


@kernel
def note_evicted(shares: Rows, bift_id: int, n: int) -> None:
    """So many packets of a tenant made room for others of its own."""
    if shares.shape[0] > 0:
        shares[sub_domain_of(bift_id)]["n_evicted"] += n


@kernel
def is_same_tenant(one: int, other: int) -> bool:
    """Two BIFT-ids are of one sub-domain."""
    return sub_domain_of(one) == sub_domain_of(other)


@kernel
def group_of(buf: U8, at: int, fan: int) -> int:
    """A group as this node knows it: its number, and above it the packet's sub-domain.

    So a tenant's groups are its own, whatever numbers others use.
    """
    return sub_domain_of(read_u32(buf, at) >> 12) << 32 | read_u32(buf, fan + 4)


@kernel
def flow_index(counters: Counters, shares: Rows, bift_id: int, key: int, now_ps: int) -> int:
    """Row of a flow's own counters; its tenant's row idle longest is given to a new flow."""
    first = 0
    if shares.shape[0] > 0:
        first = i64(shares[sub_domain_of(bift_id)]["first_flow"])
    oldest = first
    for f in range(first, first + MAX_FLOWS):
        if counters.flow_key[f] == key:
            counters.flow_used[f] = now_ps
            return f
        if counters.flow_used[f] < counters.flow_used[oldest]:
            oldest = f
    counters.flow_key[oldest] = key
    counters.flow_used[oldest] = now_ps
    counters.flow_tx[oldest] = 0
    return oldest


@kernel
def check_tenant(bifts: Bifts, table: int, port: int) -> int:
    """The table where packets of it may come in by a port, else -(2 + drop code)."""
    if table < 0 or bifts.may.shape[0] == 0 or bifts.may[table, port] != 0:
        return table
    return -2 - DROP_WRONG_TENANT


@kernel
def admit(shares: Rows, bift_id: int, bits: U64, n_words: int, size: int, now_ps: int) -> int:
    """0 where a tenant may send a packet of ``size`` bytes to so many, else the drop code.

    It is charged to the tenant's rate: packets come in no faster, but for a burst.
    """
    if shares.shape[0] == 0:
        return 0
    row = shares[sub_domain_of(bift_id)]
    if row["receivers"] > 0:
        n = 0
        for w in range(n_words):
            n += n_bits(bits[w])
        if n > row["receivers"]:
            row["n_wide"] += 1
            return DROP_TENANT_RECEIVERS
    if row["byte_ps"] > 0:
        ahead_ps = max(row["free_ps"] - now_ps, 0)
        if ahead_ps + size * row["byte_ps"] > row["burst_ps"]:
            row["n_late"] += 1
            return DROP_TENANT_RATE
        row["free_ps"] = now_ps + ahead_ps + size * row["byte_ps"]
    row["n_pkts"] += 1
    row["n_bytes"] += size
    return 0


@kernel
def n_within(shares: Rows, bift_id: int, size: int, most: int, now_ps: int) -> int:
    """How many packets alike, ``most`` at most, a tenant may send behind one just let in."""
    if shares.shape[0] == 0:
        return most
    row = shares[sub_domain_of(bift_id)]
    if row["byte_ps"] == 0:
        return most
    left_ps = row["burst_ps"] - max(row["free_ps"] - now_ps, 0)
    return min(most, max(left_ps, 0) // (size * row["byte_ps"]))


@kernel
def charge(shares: Rows, bift_id: int, size: int, n: int, now_ps: int) -> None:
    """Charge ``n`` packets of ``size`` bytes that are within the rate."""
    if shares.shape[0] == 0:
        return
    row = shares[sub_domain_of(bift_id)]
    row["n_pkts"] += n
    row["n_bytes"] += n * size
    if row["byte_ps"] > 0:
        row["free_ps"] = max(row["free_ps"], now_ps) + n * size * row["byte_ps"]


@kernel
def room_of(rooms: I64, sub_domain: int, column: int, usual: int) -> int:
    """A tenant's number in a table by sub-domain; ``usual`` where there are no tenants."""
    if rooms.shape[0] == 0:
        return usual
    return i64(rooms[sub_domain, column])
