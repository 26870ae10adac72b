"""Kernel routes of one host over its planes: nexthop objects, one weighted group a destination.

Groups are resilient where the kernel has them (Linux 5.13 on): flows hash to buckets, and a new
weight moves buckets of next hops that have too many, no others. Where a plane lost some of what
it carried, its own buckets move, after UNBALANCED_S even while they are used. Where one got
more, it gets buckets that nobody used for IDLE_S: flows on the others keep their path. A socket
keeps its route until a route changes, and its bucket looks idle meanwhile; so ``touch`` comes
first, and whatever sends in the time after it is seen. Buckets that are left stay as they are.

Routes stand in a table of their own that is looked up before the main one, where a speaker of
BGP has routes of its own, for when these are gone.
"""

import json
import subprocess
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv4Network
from typing import Any

from fanfold.errors import EnvironmentLack
from fanfold.live.plane_numbers import TABLE
from fanfold.live.spaces import TOOL_S, run_ip, space_of
from fanfold.topo.plane_plan import Leg

RULE = 100
"""Priority: after local addresses, before the main table."""
FIRST_ID = 200_000_000
"""Of nexthop objects: speakers of FRR count from 1, and from 250,000,000."""
GROUPS_AT = FIRST_ID + 1000
BUCKETS = 512
IDLE_S, UNBALANCED_S = 1, 1
PINNED_S = 86_400
"""Of buckets that are in use when a plane gets more."""
PROBE_ID = FIRST_ID + 999


class PlaneRoutes:
    """Routes of one host of a lab.

    Args:
        lab, host: whose namespace. own: its loopback address. legs: its links.
    """

    def __init__(self, lab: str, host: str, own: str, legs: list[Leg]) -> None:
        self._space, self._own = space_of(lab, host), own
        self._ids = {leg.leaf_address: FIRST_ID + n for n, leg in enumerate(legs)}
        self._hops = {
            leg.leaf_address: f"nexthop replace id {self._ids[leg.leaf_address]} "
            f"via {leg.leaf_address} dev {leg.host_device}"
            for leg in legs
        }
        self.weights: dict[str, dict[str, int]] = {}
        self.is_resilient = False
        self._is_torn = False
        self._stale: set[str] = set()

    def begin(self) -> None:
        """Make next hops and the rule, and see what groups the kernel has."""
        rule = f"rule add pref {RULE} lookup {TABLE}"
        run_ip(self._space, [rule, *self._hops.values()])
        first = next(iter(self._ids.values()))
        probe = f"nexthop add id {PROBE_ID} group {first} type resilient buckets {BUCKETS}"
        try:
            run_ip(self._space, [probe, f"nexthop del id {PROBE_ID}"])
        except EnvironmentLack:
            return
        self.is_resilient = True

    def put(self, wanted: Mapping[str, Mapping[str, int]], grown: Collection[str] = ()) -> int:
        """Install weights of legs by destination; how many destinations changed.

        Args:
            wanted: for each prefix, weight by address of the leg's far end; none: no path.
            grown: prefixes to which a plane carries more than before.

        Raises:
            EnvironmentLack: the kernel refuses; the next call tries all again.
        """
        changed = {
            p: dict(w)
            for p, w in wanted.items()
            if self.weights.get(p, {}) != dict(w) or p in grown
        }
        gone = [p for p in self.weights if p not in wanted]
        lines = [self._hops[peer] for peer in _used(changed) if peer not in _used(self.weights)]
        for prefix, weights in changed.items():
            is_calm = prefix in grown or self._is_torn
            lines += self._group(prefix, weights, is_calm) if weights else []
        lines += [self._route(p) for p, w in changed.items() if w and not self.weights.get(p)]
        gone += [p for p, w in changed.items() if not w]
        try:
            if lines:
                run_ip(self._space, lines)
        except EnvironmentLack:
            self._stale |= self.weights.keys()
            self.weights, self._is_torn = {}, True
            raise
        self._is_torn = False
        self._forget({p for p in gone if self.weights.get(p)} | (self._stale - wanted.keys()))
        for prefix in gone:
            self.weights.pop(prefix, None)
        self.weights.update((p, w) for p, w in changed.items() if w)
        return len(changed) + len(gone)

    def _forget(self, prefixes: set[str]) -> None:
        """Take routes away; the kernel may have done so itself, with the last next hop."""
        for prefix in sorted(prefixes):
            with suppress(EnvironmentLack):
                run_ip(self._space, [f"route del {prefix} table {TABLE}"])
        self._stale.clear()

    def touch(self) -> None:
        """Let sockets look up their routes again when they send next."""
        run_ip(self._space, ["route flush cache"])

    def uneven(self, prefixes: Collection[str]) -> set[str]:
        """Those destinations whose buckets are not yet where weights want them."""
        told = {
            row.get("id"): row.get("resilient_args", {}) for row in show_nexthops(self._space)
        }
        return {p for p in prefixes if told.get(group_of(p), {}).get("unbalanced_time", 0) > 0}

    def _group(self, prefix: str, weights: dict[str, int], is_calm: bool) -> list[str]:
        """Lines for one group; calm: no bucket is moved that is in use."""
        members = "/".join(f"{self._ids[peer]},{weight}" for peer, weight in weights.items())
        line = f"nexthop replace id {group_of(prefix)} group {members}"
        if not self.is_resilient:
            return [line]
        line += f" type resilient buckets {BUCKETS}"
        if is_calm:
            timers = [f"idle_timer {idle} unbalanced_timer 0" for idle in (IDLE_S, PINNED_S)]
            return [f"{line} {each}" for each in timers]
        return [f"{line} idle_timer {IDLE_S} unbalanced_timer {UNBALANCED_S}"]

    def _route(self, prefix: str) -> str:
        to = f"nhid {group_of(prefix)} src {self._own}"
        return f"route replace {prefix} table {TABLE} {to}"


def show_nexthops(space: str) -> list[dict[str, Any]]:
    """Nexthop objects of a namespace; none where ``ip`` tells none."""
    return rows_of_ip(space, ["nexthop", "show"], TOOL_S)


def rows_of_ip(space: str, words: Sequence[str], within_s: float) -> list[dict[str, Any]]:
    """What ``ip`` tells of a namespace as JSON; nothing where it fails or takes longer."""
    command = ["ip", "-n", space, "-j", *words]
    try:
        done = subprocess.run(  # noqa: S603 - no shell
            command, capture_output=True, text=True, timeout=within_s, check=False
        )
        found = json.loads(done.stdout or "[]")
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return []
    return [row for row in found if isinstance(row, dict)]


def _used(weights: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Legs that carry something, in order; the kernel forgets next hops that lose carrier."""
    return sorted({peer for row in weights.values() for peer in row})


def group_of(prefix: str) -> int:
    """Number of a destination's group: the last two octets of its network."""
    return GROUPS_AT + (int(IPv4Network(prefix).network_address) & 0xFFFF)
