"""A made-up place, task and outcome, small enough to work out every answer by hand."""

import numpy as np

from fanfold.results.outcome import NOT_DONE, Outcome
from fanfold.results.rows import Place, Task

NAMES = ("h0", "h1", "h2", "leaf")
SRC = np.array([0, 1, 2, 3, 3, 3])
DST = np.array([3, 3, 3, 0, 1, 2])
PLACE = Place(
    n_hosts=3,
    n_nodes=4,
    src=SRC,
    dst=DST,
    bps=np.full(6, 10**11),
    prop_ps=np.full(6, 10**6),
    plane=np.zeros(6, np.int64),
    node_name=lambda n: NAMES[n],
)
TASK = Task(
    scheme="unicast",
    topology="star:hosts=3",
    workload="broadcast",
    n_bytes=8192,
    hosts=(0, 1, 2),
    sources=(0,),
    n_messages=2,
    fans=(),
    fidelity_why="asked for",
    segment_pkts=1,
    transport="plain",
    loss_ppb=0,
)


def outcome(last_ps: int = 700, *, stuck: tuple[str, ...] = ()) -> Outcome:
    """Two packets each from host 0 to hosts 1 and 2; one is lost, one cut, both repaired."""
    pkts, n_bytes = np.zeros((6, 4), np.int64), np.zeros((6, 4), np.int64)
    pkts[0], n_bytes[0] = (4, 2, 0, 0), (16640, 8320, 0, 0)
    pkts[4], n_bytes[4] = (2, 1, 0, 0), (8320, 4160, 0, 0)
    pkts[5], n_bytes[5] = (2, 1, 0, 0), (8320, 4160, 0, 0)
    pkts[1], n_bytes[1] = (0, 0, 2, 0), (0, 0, 128, 0)
    pkts[3], n_bytes[3] = (0, 0, 4, 0), (0, 0, 256, 0)
    return Outcome(
        fidelity="packet",
        end_ps=900,
        host_ps=np.array([0, 500, NOT_DONE if stuck else last_ps]),
        item_ps=np.array([600, NOT_DONE if stuck else 900]),
        got_bytes=np.array([0, 8192, 8192]),
        due_bytes=np.array([0, 8192, 8192]),
        link_pkts=pkts,
        link_bytes=n_bytes,
        link_drops=np.array([0, 0, 0, 0, 1, 0]),
        link_trims=np.array([0, 0, 0, 0, 0, 1]),
        link_peak_bytes=np.array([4160, 0, 0, 0, 64, 0]),
        feedback_at_source=np.array([2, 2]),
        repairs=(2, 8320),
        n_folds=(0, 0, 0),
        n_hops=18,
        n_events=20,
        stuck=stuck,
        reason="no event left" if stuck else "all done",
    )
