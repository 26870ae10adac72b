"""A BFR's slots, stores and rates, dealt to tenants as the fabric file says (ADR 0064).

What tenants have lies side by side, those of no tenant first, so that nobody's can be used up
by another. A fabric without tenants has one share, and no table of shares.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from fanfold.core.effects import DropReason
from fanfold.kernels.layout import UNDERLAY_BYTES
from fanfold.kernels.state import (
    MAX_FLOWS,
    Fold,
    build_fold,
    build_shared_fold,
    build_shared_store,
    build_shares,
    n_segs_of,
)
from fanfold.kernels.vat import (
    N_SHARE,
    NO_LIMIT,
    OPEN,
    SHARE_FIRST,
    SHARE_ROWS,
    SHARE_SLOTS,
    Vats,
    build_vats,
)
from fanfold.topo.fabric import ArrayLimits, Fabric
from fanfold.units import PS_PER_MS, PS_PER_SECOND, parse_rate, parse_size

N_SLOTS = 1024
WAYS = 4
"""Groups that a BFR knows for each one that has slots: the others it passes on."""
N_SUB_DOMAINS = 256
BURST_PS = 10 * PS_PER_MS
BURST_BYTES = 4 << 16
"""A tenant may be so far ahead of its rate, in time or, where that is more, in blocks."""


class Share(NamedTuple):
    """What one tenant has of a BFR; bytes and bits per second, 0 where there is no bound."""

    name: str
    sub_domain: int
    slots: int
    array_slots: int
    cache_bytes: int
    rate_bps: int = 0
    receivers: int = 0


def shares_of(fabric: Fabric) -> list[Share]:
    """Shares of a fabric, that of no tenant first."""
    limits = fabric.limits
    rest = parse_size(fabric.cache, "fabric.cache")
    found = [Share("", fabric.sub_domain, N_SLOTS, limits.array_slots, rest)]
    for one in fabric.tenants:
        kept = parse_size(one.cache, "cache") if one.cache else rest
        rate = parse_rate(one.rate, "rate") if one.rate else 0
        arrays = one.array_slots or limits.array_slots
        share = Share(one.name, one.sub_domain, one.slots, arrays, kept, rate, one.receivers)
        found.append(share)
    return found


def build_bfr_fold(fabric: Fabric, n_sets: int) -> Fold:
    """Slots and stores of a BFR; n_sets: BIFT-ids that it takes."""
    n_words, shares = fabric.bitstring_bits // 64, shares_of(fabric)
    if not fabric.tenants:
        return build_fold(N_SLOTS, n_words, shares[0].cache_bytes, n_sets=n_sets)
    rows = build_shares(N_SUB_DOMAINS)
    n_slots = n_segs = 0
    for i, share in enumerate(shares):
        row = rows[share.sub_domain]
        row["first_slot"], row["n_slots"] = n_slots, share.slots
        row["first_seg"], row["n_segs"] = n_segs, n_segs_of(share.cache_bytes)
        row["first_flow"], row["receivers"] = i * MAX_FLOWS, share.receivers
        if share.rate_bps:
            row["byte_ps"] = max(8 * PS_PER_SECOND // share.rate_bps, 1)
            row["burst_ps"] = max(BURST_PS, BURST_BYTES * int(row["byte_ps"]))
        n_slots, n_segs = n_slots + share.slots, n_segs + int(row["n_segs"])
    store = build_shared_store([share.cache_bytes for share in shares], n_words, rows)
    return build_shared_fold(n_slots, n_words, store, n_sets=n_sets)


def build_bfr_arrays(fabric: Fabric) -> Vats:
    """Slots of arrays of a BFR, as the limits and quotas have it."""
    limits, shares = fabric.limits, shares_of(fabric)
    if not fabric.tenants:
        return build_arrays(fabric, limits)
    rooms = np.zeros((N_SUB_DOMAINS, N_SHARE), np.int64)
    n_slots = 0
    for share in shares:
        room = rooms[share.sub_domain]
        room[SHARE_ROWS] = WAYS * limits.array_groups
        room[SHARE_FIRST], room[SHARE_SLOTS] = n_slots, share.array_slots
        n_slots += share.array_slots
    n_groups = len(shares) * limits.array_groups
    made = build_arrays(fabric, ArrayLimits(n_groups, n_slots, limits.group_slots))
    made.limits[0] = limits.array_groups
    return made._replace(shares=rooms)


def build_arrays(fabric: Fabric, limits: ArrayLimits) -> Vats:
    """Room for arrays as limits have it; a host may be the root of groups and has its own."""
    return build_vats(
        WAYS * limits.array_groups,
        limits.array_slots,
        fabric.bitstring_bits // 64,
        fabric.mtu - UNDERLAY_BYTES,
        most_with_slots=limits.array_groups,
        most_of_group=limits.group_slots or NO_LIMIT,
    )


def uses_of(fabric: Fabric, fold: Fold, vats: Vats) -> dict[str, dict[str, Any]]:
    """What each tenant has in use at this node and was refused, by name; nothing without."""
    if fold.store.shares.size == 0:
        return {}
    return dict(_uses(fabric, fold, vats))


def _uses(fabric: Fabric, fold: Fold, vats: Vats) -> Iterator[tuple[str, dict[str, Any]]]:
    for share in shares_of(fabric):
        row, room = fold.store.shares[share.sub_domain], vats.shares[share.sub_domain]
        slots = _part(fold.rows, int(row["first_slot"]), int(row["n_slots"]))
        arrays = _part(vats.slots, int(room[SHARE_FIRST]), int(room[SHARE_SLOTS]))
        segs = _part(fold.store.segs, int(row["first_seg"]), int(row["n_segs"]))
        refused = {
            DropReason.TENANT_RATE.value: int(row["n_late"]),
            DropReason.TENANT_RECEIVERS.value: int(row["n_wide"]),
        }
        yield (
            share.name or "-",
            {
                "sub_domain": share.sub_domain,
                "slots": [int((slots["armed"] != 0).sum()), len(slots)],
                "array_slots": [int((arrays["state"] == OPEN).sum()), len(arrays)],
                "cache": [int(segs["used"].sum()), int(segs["most"].sum())],
                "packets": int(row["n_pkts"]),
                "bytes": int(row["n_bytes"]),
                "full": int(row["n_full"]),
                "evicted": int(row["n_evicted"]),
                "refused": {word: n for word, n in refused.items() if n},
            },
        )


def _part(rows: Any, first: int, n: int) -> Any:
    return rows[first : first + n]


def seen_by(fabric: Fabric, address: str, status: dict[str, Any]) -> dict[str, Any]:
    """What of a node's status concerns a host: flows, links and use of other tenants do not."""
    asks = fabric.by_address.get(address)
    if not fabric.tenants or asks is None or asks.role != "host" or "flows" not in status:
        return status
    own = fabric.peers_of(asks.name)
    ids = {fabric.by_name[name].bfr_id for name in own}
    is_seen = {n.name: n.role != "host" or n.name in own for n in fabric.nodes}
    uses = {fabric.tenant_name(asks.name) or "-"}
    return status | {
        "flows": [row for row in status["flows"] if row["bfir_id"] in ids],
        "links": {to: row for to, row in status["links"].items() if is_seen.get(to)},
        "tenants": {k: use for k, use in status.get("tenants", {}).items() if k in uses},
    }
