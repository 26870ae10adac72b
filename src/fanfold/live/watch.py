"""What a node's log says of its counters: each push once, and what was dropped meanwhile."""

from collections.abc import Callable

from fanfold.core.effects import DropReason
from fanfold.kernels.state import Counters
from fanfold.topo.fabric import Fabric
from fanfold.units import PS_PER_SECOND

LOOK_PS = PS_PER_SECOND
MAX_KNOWN = 1024
EVERYDAY = frozenset({DropReason.UNKNOWN_FLOW})
"""Each push begins and ends with some."""


class Watch:
    """Looks once a second, and tells what is new."""

    def __init__(
        self, fabric: Fabric, name: str, counters: Counters, tell: Callable[[str], None]
    ) -> None:
        self._fabric, self._counters, self._tell = fabric, counters, tell
        self._is_bfr = fabric.by_name[name].role == "bfr"  # a receiver tells of pushes itself
        self._known: dict[tuple[int, int], None] = {}
        self._drops = [int(n) for n in counters.drops]
        self._look_ps = 0

    def look(self, now_ps: int) -> None:
        """Tell of flows seen for the first time, and of drops that grew."""
        if now_ps < self._look_ps:
            return
        self._look_ps = now_ps + LOOK_PS
        for key in self._counters.flow_key.tolist() if self._is_bfr else ():
            if key >= 0:
                self._note(key >> 32, (key & 0xFFFFFFFF) & ~1)
        drops = [int(n) for n in self._counters.drops]
        grown = [
            f"{reason} {now - before}"
            for reason, now, before in zip(DropReason, drops, self._drops, strict=True)
            if now > before and reason not in EVERYDAY
        ]
        self._drops = drops
        if grown:
            self._tell(f"dropped packets: {', '.join(grown)}")

    def _note(self, bfir_id: int, flow: int) -> None:
        if (bfir_id, flow) in self._known:
            return
        if len(self._known) >= MAX_KNOWN:
            self._known.pop(next(iter(self._known)))
        self._known[bfir_id, flow] = None
        node = self._fabric.by_bfr_id.get(bfir_id)
        who = node.name if node is not None else f"BFR-id {bfir_id}"
        self._tell(f"push from {who} passes, flow {flow:08x}")
