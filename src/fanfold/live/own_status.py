"""A node's counters as plain values: links by neighbour, drops and folds by name, flows."""

import os
from pathlib import Path
from typing import Any

from fanfold.core.effects import DropReason, FoldEvent, StoreEvent, TrafficClass, VatEvent
from fanfold.kernels.vat import OPEN
from fanfold.live import pump as p
from fanfold.live import rings
from fanfold.live import sock as s
from fanfold.live.clock import unix_ns
from fanfold.live.shares import uses_of
from fanfold.live.status import ALIKE, Counts
from fanfold.topo.fabric import Fabric


def status_of(fabric: Fabric, name: str, io: s.Sock, node: p.Node) -> dict[str, Any]:
    """What this node counted since it started."""
    counters = node.counters
    names = [n.name for n in fabric.port_nodes(name)]
    tenants = uses_of(fabric, node.fold, node.vats)
    return {
        "name": name,
        "pid": os.getpid(),
        "at_ns": unix_ns(),
        "fabric": {key: getattr(fabric, key) for key in ALIKE},
        "offload": bool(io.ints[s.GSO]),
        "rings": {
            "channels": int((io.channels["state"] == rings.LIVE).sum()),
            "blocks_in": int(io.ints[s.RUNS_IN]),
            "blocks_out": int(io.ints[s.RUNS_OUT]),
            "broken": int(io.ints[s.BROKEN]),
        },
        "receive_buffer_bytes": int(io.mem[0]) >> 32,  # granted, as SO_MEMINFO says
        "links": {
            names[i]: {
                "tx": _by_class(counters.tx[i]),
                "rx": _by_class(counters.rx[i]),
                "lost": {word: n for word, n in lost_at(io, i).items() if n},
                "drops": _reasons(counters.port_drops[i]),
            }
            for i in range(1, len(names))
        },
        "drops": drops_of(io, node),
        "backlog": max(_backlog_drops() - _BACKLOG_BEFORE, 0),
        "slots": {
            "words": [int((node.fold.rows["armed"] != 0).sum()), node.fold.rows.size],
            "arrays": [int((node.vats.slots["state"] == OPEN).sum()), node.vats.slots.size],
        },
        "folds": {
            str(event): int(n)
            for event, n in zip(FoldEvent, node.fold.events, strict=True)
            if n
        },
        "cache": _cache_of(node),
        "arrays": {
            str(event): int(n) for event, n in zip(VatEvent, node.vats.events, strict=True) if n
        },
        "flows": [
            {
                "bfir_id": int(key) >> 32,
                "flow": int(key) & 0xFFFFFFFF,
                "tx": {
                    names[i]: _by_class(counters.flow_tx[f, i]) for i in range(1, len(names))
                },
            }
            for f, key in enumerate(counters.flow_key)
            if key >= 0
        ],
    } | ({"tenants": tenants} if tenants else {})


def _cache_of(node: p.Node) -> dict[str, int]:
    store = node.fold.store
    events = zip(StoreEvent, store.events, strict=True)
    held = {"bytes": int(store.held[0]), "room": int(store.segs["most"].sum())}
    return held | {str(event): int(n) for event, n in events if n}


def drops_of(io: s.Sock, node: p.Node) -> dict[str, int]:
    """Packets dropped by reason, those without a way out included."""
    counts = dict.fromkeys(map(str, DropReason), 0) | _reasons(node.counters.drops)
    for port in range(1, len(io.exits)):
        for word, n in lost_at(io, port).items():
            counts[word] += n
    return {word: n for word, n in counts.items() if n}


def _backlog_drops() -> int:
    """Runs of packets that this machine's kernel dropped before any socket; 0: not known."""
    try:
        lines = Path("/proc/net/softnet_stat").read_text().splitlines()
        return sum(int(line.split()[1], 16) for line in lines)  # one line for each processor
    except (OSError, ValueError, IndexError):
        return 0


_BACKLOG_BEFORE = _backlog_drops()
"""When this program began."""


def _reasons(row: Any) -> dict[str, int]:
    return {str(r): int(n) for r, n in zip(DropReason, row, strict=True) if n}


def lost_at(io: s.Sock, port: int) -> dict[str, int]:
    """Packets that did not leave by a port, by reason."""
    row = io.exits[port]
    return {
        DropReason.PORT_FULL.value: int(row["full"]),
        DropReason.TOO_LARGE.value: int(row["too_large"]),
        DropReason.SEND_FAILED.value: int(row["refused"]),
        DropReason.LINK_DOWN.value: int(row["shut_out"]),
        DropReason.LINK_NO_KEY.value: int(row["no_key"]),
    }


def _by_class(rows: Any) -> Counts:
    return {
        str(kind): [int(rows[k, 0]), int(rows[k, 1])]
        for k, kind in enumerate(TrafficClass)
        if rows[k, 0]
    }
