"""Where a push runs: a fabric, and the control sockets of its nodes."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fanfold.impair import LinkImpairment
from fanfold.live.control_sockets import Answer, Call, ask_all, begin_asking
from fanfold.live.lab import Lab
from fanfold.live.operators import ASK, signer
from fanfold.live.spaces import enter_space
from fanfold.seals.keys import KeyPair
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric

STATUS_S = 0.3
"""Nodes that are silent for longer are left out of the counters."""
ORDER_S = 3.0


class Site:
    """A fabric and how its nodes' control sockets are reached: a lab's sockets, or TCP.

    tell: hears what did not come to pass. operator: whose key proves orders over TCP.
    """

    def __init__(
        self,
        lab: Lab,
        config: Path | None,
        tell: Callable[[str], None] = lambda line: None,
        operator: KeyPair | None = None,
    ) -> None:
        self.tell, self.operator = tell, operator
        self.lab, self.config = lab, config
        self.fabric: Fabric = load_fabric(config) if config else lab.fabric()

    def call(self, node: str, request: dict[str, Any], source: str = "") -> Call:
        """One question to one node; over TCP it comes from the address of the source."""
        if self.config is None:
            return Call(self.lab.control_socket(node), request)
        by_name = self.fabric.by_name
        own = by_name[source].address if source else ""
        if self.operator is not None:
            where = by_name[node].address, self.fabric.port
            sign = signer(self.operator, self.fabric.name, node, request)
            return Call(where, ASK, own, sign=sign)
        return Call((by_name[node].address, self.fabric.port), request, own)

    def enter(self, source: str) -> None:
        """Be where a node of a lab is: in its network namespace, where it has one."""
        if self.config is None:
            enter_space(self.lab.name, source)

    def begin_statuses(
        self, names: Sequence[str], source: str
    ) -> Callable[[], Mapping[str, Answer]]:
        """Ask nodes for their counters; what is returned gives what they answered in time."""
        calls = {
            name: self.call(name, {"do": "status"}, source)._replace(is_look=True)
            for name in names
        }
        return begin_asking(calls, STATUS_S)

    def order(self, requests: Mapping[str, dict[str, Any]]) -> dict[str, Answer]:
        """Commands to nodes of a lab, all at once."""
        calls = {name: self.call(name, request) for name, request in requests.items()}
        return ask_all(calls, ORDER_S)

    def impair(self, impairments: list[LinkImpairment], seed: int) -> None:
        """Set impairments at every node; an empty list makes all links good again."""
        requests = {
            node.name: {
                "do": "impair",
                "seed": seed,
                "links": {
                    neighbour: msgspec.to_builtins(link.impairment)
                    for link in impairments
                    for neighbour in self.fabric.neighbours[node.name]
                    if link.hits(node.name, neighbour)
                },
            }
            for node in self.fabric.nodes
        }
        silent = [n for n, answer in self.order(requests).items() if "error" in answer]
        if silent:
            what = "set" if impairments else "taken back"
            self.tell(f"impairments not {what} at: {', '.join(silent)}")
