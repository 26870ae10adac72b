"""A node's status as Prometheus metrics: one row for each metric, and what fills it.

Nothing here waits for the node's loop: a status is read from its arrays as they stand, by the
thread of whoever asks.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Status = Mapping[str, Any]
Row = tuple[tuple[str, ...], float]
"""Values of labels behind ``node``, and the metric's own."""
MS_A_SECOND, US_A_SECOND = 1e3, 1e6


class Kind(NamedTuple):
    """One metric: its name without ``fanfold_``, what it counts, its labels behind ``node``."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    labels: tuple[str, ...] = ()


CATALOG: tuple[Kind, ...] = (
    Kind(
        "link_packets",
        "counter",
        "Packets over a link by way and class.",
        ("to", "way", "class"),
    ),
    Kind(
        "link_bytes",
        "counter",
        "Bytes over a link, outer headers included.",
        ("to", "way", "class"),
    ),
    Kind(
        "link_drops",
        "counter",
        "Packets dropped at a link's port by reason.",
        ("to", "way", "reason"),
    ),
    Kind(
        "drops",
        "counter",
        "Packets dropped by a node by reason, all ports and none.",
        ("reason",),
    ),
    Kind(
        "backlog_drops", "counter", "Runs that the machine's kernel dropped before any socket."
    ),
    Kind("slots_used", "gauge", "Slots in use: of words, of arrays.", ("of",)),
    Kind("slots_room", "gauge", "Slots there are.", ("of",)),
    Kind("folds", "counter", "What became of words at slots.", ("event",)),
    Kind("fold_ratio", "gauge", "Words merged for each word that was sent on; 0 before any."),
    Kind("arrays", "counter", "What became of arrays at slots.", ("event",)),
    Kind("cache_bytes", "gauge", "DATA kept to repair from."),
    Kind("cache_repairs", "counter", "Packets that somebody lacked and the cache had."),
    Kind("cache_packets", "counter", "What became of DATA that is kept.", ("event",)),
    Kind(
        "tenant_used",
        "gauge",
        "What a tenant has in use: slots, array_slots, cache bytes.",
        ("tenant", "of"),
    ),
    Kind("tenant_room", "gauge", "What it may have.", ("tenant", "of")),
    Kind("tenant_packets", "counter", "Packets of a tenant that came in.", ("tenant",)),
    Kind("tenant_bytes", "counter", "Their bytes, without outer headers.", ("tenant",)),
    Kind(
        "tenant_refused",
        "counter",
        "What a tenant was refused beyond its quotas.",
        ("tenant", "reason"),
    ),
    Kind("neighbour_up", "gauge", "1 where the session with a neighbour is up.", ("to",)),
    Kind("neighbour_falls", "counter", "Times that a neighbour was lost.", ("to",)),
    Kind("links_down", "gauge", "Links of the fabric that the node's tables do without."),
    Kind("table_version", "gauge", "Version of the node's tables."),
    Kind("table_switches", "counter", "Times that tables were changed for links lost or back."),
    Kind(
        "detection_seconds", "gauge", "Silence before the last loss of a neighbour was noticed."
    ),
    Kind("switch_seconds", "gauge", "From that to tables in use."),
    Kind("lag_seconds", "gauge", "How late the node's timers run, as it tells neighbours."),
    Kind(
        "hellos",
        "counter",
        "HELLOs and NOTICEs by way; of those that came, the news.",
        ("way",),
    ),
    Kind(
        "link_suspected",
        "gauge",
        "Share of packets that a gray link hit.",
        ("src", "dst", "kind"),
    ),
)
"""Every metric there is; counters get ``_total`` behind their names."""


def exposed_names() -> list[str]:
    """Names as they are scraped."""
    ends = {"counter": "_total", "gauge": ""}
    return [f"fanfold_{kind.name}{ends[kind.kind]}" for kind in CATALOG]


def families(status: Status, gray: Sequence[Mapping[str, Any]] = ()) -> "Iterator[Metric]":
    """Metrics of one node's status. gray: links near it that lose or damage."""
    from prometheus_client.core import (  # noqa: PLC0415 - who serves none needs it not
        CounterMetricFamily,
        GaugeMetricFamily,
    )

    rows = _rows(status) | {
        "link_suspected": [((g["from"], g["to"], g["kind"]), g["rate"]) for g in gray]
    }
    made = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
    for kind in CATALOG:
        labels = ("node", *kind.labels)
        family = made[kind.kind](f"fanfold_{kind.name}", kind.help, labels=labels)
        for values, n in rows[kind.name]:
            family.add_metric([status["name"], *values], n)
        yield family


def _rows(status: Status) -> dict[str, list[Row]]:
    last, cache = status["detection"], dict(status["cache"])
    held = cache.pop("bytes")
    cache.pop("room")
    return (
        _of_links(status["links"])
        | _of_tenants(status.get("tenants", {}))
        | {
            "drops": _by_word(status["drops"]),
            "backlog_drops": [((), status["backlog"])],
            "slots_used": [((of,), used) for of, (used, _) in status["slots"].items()],
            "slots_room": [((of,), room) for of, (_, room) in status["slots"].items()],
            "folds": _by_word(status["folds"]),
            "fold_ratio": [((), fold_ratio(status["folds"]))],
            "arrays": _by_word(status["arrays"]),
            "cache_bytes": [((), held)],
            "cache_repairs": [((), cache.get("hit", 0))],
            "cache_packets": _by_word(cache),
            "neighbour_up": [
                ((to,), float(row["state"] == "up")) for to, row in status["neighbours"].items()
            ],
            "neighbour_falls": [
                ((to,), row["falls"]) for to, row in status["neighbours"].items()
            ],
            "links_down": [((), len(status["links_down"]))],
            "table_version": [((), status["table"]["version"])],
            "table_switches": [((), last["switches"])],
            "detection_seconds": _if_known(last, "silent_ms", MS_A_SECOND),
            "switch_seconds": _if_known(last, "switch_us", US_A_SECOND),
            "lag_seconds": [((), last["lag_ms"] / MS_A_SECOND)],
            "hellos": [(("tx",), last["sent"]), (("rx",), last["received"])],
        }
    )


def fold_ratio(folds: Mapping[str, int]) -> float:
    """Words merged for each word that slots sent on."""
    out = folds.get("complete", 0) + folds.get("partial", 0)
    return folds.get("merged", 0) / out if out else 0.0


def _of_links(links: Mapping[str, Any]) -> dict[str, list[Row]]:
    packets, sizes, drops = list[Row](), list[Row](), list[Row]()
    for to, link in links.items():
        for way in ("tx", "rx"):
            for word, (n, n_bytes) in link[way].items():
                packets.append(((to, way, word), n))
                sizes.append(((to, way, word), n_bytes))
        for way, counts in (("tx", link["lost"]), ("rx", link["drops"])):
            drops += [((to, way, word), n) for word, n in counts.items()]
    return {"link_packets": packets, "link_bytes": sizes, "link_drops": drops}


def _of_tenants(tenants: Mapping[str, Any]) -> dict[str, list[Row]]:
    used, room, refused = list[Row](), list[Row](), list[Row]()
    for name, use in tenants.items():
        for of in ("slots", "array_slots", "cache"):
            used.append(((name, of), use[of][0]))
            room.append(((name, of), use[of][1]))
        refused += [((name, word), use[word]) for word in ("full", "evicted")]
        refused += [((name, word), n) for word, n in use["refused"].items()]
    return {
        "tenant_used": used,
        "tenant_room": room,
        "tenant_packets": [((name,), use["packets"]) for name, use in tenants.items()],
        "tenant_bytes": [((name,), use["bytes"]) for name, use in tenants.items()],
        "tenant_refused": refused,
    }


def _by_word(counts: Mapping[str, int]) -> list[Row]:
    return [((word,), n) for word, n in counts.items()]


def _if_known(last: Mapping[str, int], word: str, a_second: float) -> list[Row]:
    return [((), last[word] / a_second)] if word in last else []
