"""Load every kernel a node calls, so that forked nodes share the compiled code.

Compiles on the first run after a change (25 s of one core), afterwards reads the cache. Each
kernel is called once on empty arrays of the types the nodes use: one that is left out is
compiled by every node in the middle of its first push.
"""

import numpy as np

from fanfold.kernels.collect import build_collect, collect_pass, due_reports
from fanfold.kernels.impose import impose
from fanfold.kernels.layout import MAX_PSN
from fanfold.kernels.speak import WHOLE_ROW, speak
from fanfold.kernels.state import build_fold
from fanfold.kernels.vat import build_vats, open_vat
from fanfold.live import pump as p
from fanfold.live.ports import Limits, build_node_state, build_sock, open_socket
from fanfold.topo.clos import leaf_spine


def warm() -> None:
    """Compile or load; sends nothing."""
    fabric = leaf_spine(1, 0, 1, name="warm", prefix=0)
    sock = open_socket("127.0.0.1", 0, "warm")
    try:
        io = build_sock(sock)
        node = build_node_state(fabric, "h1", Limits(blocks=1, block_bytes=64, chunks=1))
        nothing = np.zeros(64, np.uint8)
        p.serve(io, node, 1, 0)
        p.transmit(io, node, nothing, 0, 64)
        collect_pass(nothing, 0, 64, 0, 0, node.plan, node.collect, node.counters.drops)
        due_reports(build_collect(1, 64, 1, 1), 0, 0, np.zeros(1, np.int64))
        own = build_fold(1, 4)
        node.collect.follow[0]["bift_id"], node.collect.follow[0]["bfir_id"] = 0x30000, 1
        speak(
            node.collect, 0, 0, WHOLE_ROW, node.row, 0, own, MAX_PSN, np.zeros(4096, np.uint8)
        )
        head = np.zeros(128, np.uint8)
        words = np.zeros(4, np.uint64)
        open_vat(build_vats(1, 1, 4, 64), 0, 0, 1, words, 4, 0x30000, 1, 0)
        impose(nothing, head, nothing, 0, 4, 1, np.zeros((1, 4), np.uint64), np.uint64(0), 0, 0)
    finally:
        sock.close()
