"""A receiver's collecting kernels, fed packet by packet."""

import numpy as np
from kernel_nodes import BFIR, data, plain_node

from fanfold.kernels import collect as c
from fanfold.kernels import due
from fanfold.kernels.speak import WHOLE_ROW, speak
from fanfold.kernels.state import build_fold
from fanfold.streams import stream

STRIDE, N_PSN = 8, 4
REORDER_PS, IDLE_PS, AGAIN_PS = 100, 1000, 300
ONE = 1  # BitString of the receiver alone


class Receiver:
    """A node that collects flow 7 of BFIR 9, n_bytes long."""

    def __init__(self, n_bytes=100, *, n_blocks=4, is_known=True, room=STRIDE * N_PSN):
        self.node = plain_node(folds=False)
        self.state = c.build_collect(n_blocks, room, 2, 80)
        self.state.timing[:] = REORDER_PS, IDLE_PS
        self.object = stream(n_bytes, "tests/object").bytes(n_bytes)
        self.n_blocks = -(-n_bytes // (STRIDE * N_PSN))
        self.drops = self.node.counters.drops
        row = self.state.follow[1]
        row["used"], row["bfir_id"], row["flow"] = 1, BFIR, 7
        row["newest"] = row["front"] = -1
        row["map_at"], row["map_len"] = 10, 70
        if is_known:
            last = n_bytes - (self.n_blocks - 1) * STRIDE * N_PSN
            row["stride"], row["n_psn"], row["n_blocks"] = STRIDE, N_PSN, self.n_blocks
            row["last_n_psn"] = -(-last // STRIDE)
            row["last_bytes"] = last - (int(row["last_n_psn"]) - 1) * STRIDE

    def psns(self, block):
        n = min(len(self.object) - block * STRIDE * N_PSN, STRIDE * N_PSN)
        return -(-n // STRIDE)

    def packet(self, block, psn, **more):
        at = (block * N_PSN + psn) * STRIDE
        flags = more.pop("flags", 0) | 2 * (block == self.n_blocks - 1)
        more = {"n_psn": self.psns(block), "payload": self.object[at : at + STRIDE]} | more
        return data(ONE, block=block, psn=psn, stride=STRIDE, flags=flags, **more)

    def take(self, *packets, now_ps=0, port=1):
        for packet in packets:
            self.node.forward([packet], now_ps=now_ps)
            self.collect_pass(now_ps, port)

    def collect_pass(self, now_ps=0, port=1):
        node = self.node
        n = len(node.block)
        where = 0, node.seg, n, port
        c.collect_pass(node.block, *where, now_ps, node.plan, self.state, self.drops)

    def events(self):
        found = self.state.events[: self.state.n_events[0]].tolist()
        self.state.n_events[0] = 0
        return [tuple(event) for event in found]

    def block_of(self, r):
        row = self.state.blocks[r]
        n = (int(row["n_psn"]) - 1) * STRIDE + int(row["tail"])
        return self.state.room[r, :n].tobytes()

    def row(self, block):
        rows = self.state.blocks
        (r,) = np.flatnonzero((rows["state"] != c.FREE) & (rows["block"] == block))
        return rows[r]

    def due(self, now_ps):
        out = np.zeros(8, np.int64)
        n = due.due_reports(self.state, now_ps, AGAIN_PS, out)
        return sorted(int(self.state.blocks[r]["block"]) for r in out[:n])

    def keep(self, r):
        """What the role does with a whole block."""
        row = self.state.blocks[r]
        self.state.have[10 + int(row["block"])] = 1
        row["state"] = c.FREE


def said(rx, block, *, is_whole, mtu=9000):
    rx.node.row[0]["mtu"] = mtu
    own = build_fold(1, 1)
    (r,) = np.flatnonzero(
        (rx.state.blocks["state"] != c.FREE) & (rx.state.blocks["block"] == block)
    )
    psn, packets, out = 0, [], np.zeros(1 << 12, np.uint8)
    while psn < 64:
        coded = speak(
            rx.state, 1, block, WHOLE_ROW if is_whole else int(r), rx.node.row, 5, own, psn, out
        )
        size, psn = divmod(int(coded), 128)
        packets.append(out[:size].tobytes())
    return packets
