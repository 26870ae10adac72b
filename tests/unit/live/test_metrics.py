"""A node's status as Prometheus metrics; dashboards and alerts name what there is."""

import json
import re
import socket
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.core import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from fanfold.errors import EnvironmentLack
from fanfold.live.metrics import CATALOG, exposed_names, families
from fanfold.live.metrics_port import serve_metrics

ROOT = Path(__file__).parents[3]
STATUS: dict[str, Any] = {
    "name": "leaf1",
    "links": {
        "spine1": {
            "tx": {"data": [7, 700], "feedback": [2, 99]},
            "rx": {"feedback": [3, 150]},
            "lost": {"port_full": 4},
            "drops": {"impaired": 5},
        },
        "h1": {"tx": {}, "rx": {}, "lost": {}, "drops": {}},
    },
    "drops": {"impaired": 5, "socket_full": 2},
    "backlog": 1,
    "slots": {"words": [3, 4096], "arrays": [0, 1024]},
    "folds": {"merged": 80, "complete": 9, "partial": 1},
    "arrays": {"complete": 6},
    "cache": {"bytes": 123, "room": 999, "hit": 8, "kept": 70},
    "neighbours": {
        "spine1": {"state": "down", "falls": 2, "since_s": 1.0},
        "h1": {"state": "up", "falls": 0, "since_s": 9.0},
    },
    "links_down": ["leaf1-spine1"],
    "tenants": {
        "red": {
            "slots": [5, 64],
            "array_slots": [0, 32],
            "cache": [700, 4096],
            "packets": 9,
            "bytes": 900,
            "full": 1,
            "evicted": 2,
            "refused": {"tenant_rate": 3},
        }
    },
    "table": {"version": 3},
    "detection": {
        "sent": 11,
        "received": 12,
        "switches": 2,
        "lag_ms": 5,
        "silent_ms": 170,
        "switch_us": 4000,
    },
}
GRAY = [{"from": "leaf1", "to": "spine1", "kind": "drops", "rate": 0.01}]
WORD = re.compile(r"fanfold_[a-z_]+")
LABELS = re.compile(r"(fanfold_[a-z_]+)\{([^}]*)\}")


class Fixed(Collector):
    def collect(self) -> Any:
        return families(STATUS, GRAY)


def scraped() -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    registry = CollectorRegistry()
    registry.register(Fixed())
    text = generate_latest(registry).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(name: str, **labels: str) -> float:
    return scraped()[name, tuple(sorted({"node": "leaf1", **labels}.items()))]


def test_what_is_scraped_is_what_a_status_says() -> None:
    way = {"to": "spine1", "way": "tx"}
    assert value("fanfold_link_packets_total", **way, **{"class": "data"}) == 7
    assert value("fanfold_link_bytes_total", **way, **{"class": "feedback"}) == 99
    assert value("fanfold_link_drops_total", **way, reason="port_full") == 4
    assert value("fanfold_link_drops_total", to="spine1", way="rx", reason="impaired") == 5
    assert value("fanfold_drops_total", reason="socket_full") == 2
    assert value("fanfold_slots_used", of="words") == 3
    assert value("fanfold_slots_room", of="arrays") == 1024
    assert value("fanfold_fold_ratio") == 8
    assert value("fanfold_cache_repairs_total") == 8
    assert value("fanfold_tenant_used", tenant="red", of="cache") == 700
    assert value("fanfold_tenant_room", tenant="red", of="slots") == 64
    assert value("fanfold_tenant_packets_total", tenant="red") == 9
    assert value("fanfold_tenant_bytes_total", tenant="red") == 900
    assert value("fanfold_tenant_refused_total", tenant="red", reason="tenant_rate") == 3
    assert value("fanfold_neighbour_up", to="spine1") == 0
    assert value("fanfold_neighbour_up", to="h1") == 1
    assert value("fanfold_neighbour_falls_total", to="spine1") == 2
    assert value("fanfold_detection_seconds") == 0.17
    assert value("fanfold_switch_seconds") == 0.004
    assert value("fanfold_link_suspected", src="leaf1", dst="spine1", kind="drops") == 0.01


def test_every_metric_of_the_catalog_is_scraped_and_no_other() -> None:
    assert {name for name, _ in scraped()} == set(exposed_names())


def test_labels_are_those_of_the_catalog() -> None:
    ends = {"counter": "_total", "gauge": ""}
    known = {f"fanfold_{k.name}{ends[k.kind]}": {"node", *k.labels} for k in CATALOG}
    assert {name: {key for key, _ in labels} for name, labels in scraped()} == known


def faults_of(queries: list[str]) -> set[str]:
    """Metrics and labels in queries that no node has."""
    ends = {"counter": "_total", "gauge": ""}
    known = {f"fanfold_{k.name}{ends[k.kind]}": {"node", *k.labels} for k in CATALOG}
    found = {name for query in queries for name in WORD.findall(query) if name not in known}
    for query in queries:
        for name, inside in LABELS.findall(query):
            used = set(re.findall(r"([a-z]+)\s*(?:=~|!~|!=|=)", inside))
            found |= {f"{name}.{label}" for label in used - known.get(name, set())}
        for names in re.findall(r"by \(([^)]*)\)", query):
            labels = {label.strip() for label in names.split(",")}
            every = set().union(*(known.get(m, set()) for m in WORD.findall(query)))
            found |= {f"by {label}" for label in labels - every}
    return found


def dashboard_queries() -> list[str]:
    board = json.loads((ROOT / "examples/grafana.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return queries + [
        row["query"]["query"]
        for row in board["templating"]["list"]
        if isinstance(row["query"], dict)
    ]


def test_the_dashboard_s_queries_name_metrics_and_labels_that_exist() -> None:
    queries = dashboard_queries()
    assert faults_of(queries) == set()
    named = {name for query in queries for name in WORD.findall(query)}
    assert named == set(exposed_names())  # and each metric is shown


def test_the_alerts_expressions_name_metrics_and_labels_that_exist() -> None:
    text = (ROOT / "examples/alerts.yml").read_text()
    queries = re.findall(r"^ +expr: (.*)$", text, re.M)
    assert len(queries) == text.count("- alert:") == 6
    assert faults_of(queries) == set()


def test_a_wrong_query_is_found() -> None:
    assert faults_of(["rate(fanfold_drop_total[1m])"]) == {"fanfold_drop_total"}
    assert faults_of(['fanfold_drops_total{cause="x"}']) == {"fanfold_drops_total.cause"}
    assert faults_of(["sum by (nodes) (fanfold_drops_total)"]) == {"by nodes"}


def ask(port: int, path: str) -> tuple[int, bytes]:
    line = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        line.request("GET", path)
        answer = line.getresponse()
        return answer.status, answer.read()
    finally:
        line.close()


def test_a_port_serves_metrics_until_it_is_closed_and_one_port_serves_one(
    free_port: int,
) -> None:
    close = serve_metrics("127.0.0.1", free_port, lambda: families(STATUS, GRAY))
    try:
        code, body = ask(free_port, "/metrics")
        assert code == 200
        assert b'fanfold_fold_ratio{node="leaf1"} 8.0\n' in body
        assert ask(free_port, "/")[0] == 404
        with pytest.raises(EnvironmentLack, match=f"metrics at 127.0.0.1:{free_port}: "):
            serve_metrics("127.0.0.1", free_port, lambda: families(STATUS))
    finally:
        close()
    with pytest.raises(ConnectionRefusedError):
        ask(free_port, "/metrics")


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
