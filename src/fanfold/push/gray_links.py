"""Gray links of one push: counters of both ends first, gaps where an end told nothing.

Nodes are asked once more, only where something looks gray: what was under way came meanwhile.
A push over links that are well ends as early as ever.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from fanfold.core.gap_book import GapBook
from fanfold.live.status import Statuses
from fanfold.push.gray import GrayLink, Sample, judge
from fanfold.push.gray_counts import RUN_PKTS, Window, directions, losses, told_apart
from fanfold.push.gray_gaps import judge_gaps
from fanfold.topo.fabric import Fabric
from fanfold.topo.predict import Direction, receivers_behind

LOOKS = 2


class Settling(msgspec.Struct, frozen=True):
    """What a push knows at its end.

    flows: its flow ids. before, after: statuses of nodes. book: gaps that it heard. again: asks
    nodes anew, a little later.
    """

    source: str
    targets: frozenset[str]
    entropy: int
    flows: Sequence[int]
    before: Statuses
    after: Statuses
    book: GapBook
    again: Callable[[], Statuses]


def gray_of(fabric: Fabric, told: Settling) -> list[GrayLink]:
    """Directions that lost or damaged packets of a push, worst first."""
    behind = receivers_behind(fabric, told.source, told.entropy, told.targets)
    me = fabric.by_name[told.source].bfr_id
    among = [way for way in directions(fabric) if told.source != way[1]]
    last, samples, gray, open_ = told.after, list[Sample](), list[GrayLink](), list[Direction]()
    for look in range(LOOKS):
        last = told.again() if look else last
        window = Window(fabric, told.before, told.after, last, me, told.flows)
        samples = told_apart(window, told.source, behind, losses(window, among))
        samples += _upward(told, fabric, last)
        known = {(row.src, row.dst) for row in samples}
        open_ = [way for way in behind if way not in known]
        gray = judge(samples, len(open_))
        if not gray:
            break
    n_tests = 2 * (len(samples) + len(open_))
    by_gaps = judge_gaps(told.book, _bits(fabric), behind, open_, n_tests)
    return sorted(gray + by_gaps, key=lambda link: -link.rate)


def _upward(told: Settling, fabric: Fabric, last: Statuses) -> list[Sample]:
    """Words of this push's flows that its neighbours sent it, and those that came.

    Other processes of the host have addresses of their own behind the same link.
    """
    me = fabric.by_name[told.source].bfr_id
    rows = []
    for name in fabric.neighbours[told.source]:
        if name not in told.after or name not in told.before or name not in last:
            continue
        if told.before[name].pid != last[name].pid:
            continue
        flows = [f for f in told.after[name].flows if f.bfir_id == me and f.flow in told.flows]
        sent = sum(f.tx.get(told.source, {}).get("feedback", (0, 0))[0] for f in flows)
        own, start = last[told.source], told.before[told.source]
        link = own.links.get(name)
        came = link.rx.get("feedback", (0, 0))[0] if link else 0
        runs = own.drops.get("socket_full", 0) + own.backlog - start.backlog
        excused = RUN_PKTS * runs
        rows.append(Sample(name, told.source, sent, max(sent - came - excused, 0), came))
    return rows


def _bits(fabric: Fabric) -> Mapping[int, str]:
    return {bfr_id - 1: node.name for bfr_id, node in fabric.by_bfr_id.items()}
