"""What a node's log says: each push once, and drops that grew."""

import numpy as np
import pytest

from fanfold.core.effects import DropReason
from fanfold.kernels.state import build_counters
from fanfold.live.watch import LOOK_PS, Watch
from fanfold.topo.lab_fabric import leaf_spine


@pytest.mark.parametrize("name", ["leaf1", "h1"])
def test_pushes_and_drops_are_told_once(name: str) -> None:
    fabric = leaf_spine(1, 1, 2, name="watch", prefix=0)
    counters = build_counters(3)
    counters.drops[list(DropReason).index(DropReason.TRUNCATED)] = 5
    lines: list[str] = []
    watch = Watch(fabric, name, counters, lines.append)
    source = fabric.by_name["h0"].bfr_id
    counters.flow_key[:2] = source << 32 | 0x2A00, source << 32 | 0x2A01
    watch.look(0)
    passed = ["push from h0 passes, flow 00002a00"] if name == "leaf1" else []
    assert lines == passed
    counters.drops[list(DropReason).index(DropReason.TRUNCATED)] += 2
    counters.drops[list(DropReason).index(DropReason.UNKNOWN_FLOW)] += 2
    watch.look(LOOK_PS - 1)
    assert lines == passed
    watch.look(LOOK_PS)
    assert lines == [*passed, "dropped packets: truncated 2"]
    counters.flow_key[0] = np.int64(999 << 32 | 2)
    watch.look(2 * LOOK_PS)
    more = ["push from BFR-id 999 passes, flow 00000002"] if name == "leaf1" else []
    assert lines == [*passed, "dropped packets: truncated 2", *more]
