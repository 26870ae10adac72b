"""A job of a BFIR on its way out: one call imposes and sends as many pieces as are due.

To enter compiled code costs as much as to send a piece, so it is entered once for several.
"""

from typing import NamedTuple

import numpy as np

from fanfold.kernels.impose import impose
from fanfold.kernels.jit import kernel
from fanfold.kernels.layout import MAX_PSN
from fanfold.kernels.state import I64, U8, U64
from fanfold.live.pump import Node, transmit
from fanfold.live.sock import BUF_BYTES, WAITING, Sock

# Words of Job.state.
PSN = 0  # the next one to look at; past the last: all is sent
N_PSN = 1
N_PAYLOAD = 2  # bytes of the block
STRIDE = 3
SEG = 4  # bytes of a packet
MOST_BYTES = 5  # of a piece
N_PIECES = 6  # sent by the last call,
IS_HELD = 7  # and whether some of it waits at a port
N_STATE = 8


class Job(NamedTuple):
    """What is imposed: packets of one block to one set, and room to make them in.

    head: (H,) headers of each packet. payload: (C,). bits: (MAX_PSN, W), to whom each PSN goes.
    wanted: (1,), which PSNs. out: (BUF_BYTES,) scratch. state: (N_STATE,).
    """

    head: U8
    payload: U8
    bits: U64
    wanted: U64
    out: U8
    state: I64


def build_job(head_bytes: int, block_bytes: int, n_words: int) -> Job:
    """Room for blocks of so many bytes."""
    return Job(
        head=np.zeros(head_bytes, np.uint8),
        payload=np.zeros(block_bytes, np.uint8),
        bits=np.zeros((MAX_PSN, n_words), np.uint64),
        wanted=np.zeros(1, np.uint64),
        out=np.zeros(BUF_BYTES, np.uint8),
        state=np.zeros(N_STATE, np.int64),
    )


@kernel
def send_pieces(sock: Sock, node: Node, job: Job, n_pieces: int) -> int:
    """Impose and send up to ``n_pieces`` pieces of a job; the bytes that it were.

    Ends before where all is sent, or where a port does not take more now.
    """
    state = job.state
    state[N_PIECES] = state[IS_HELD] = 0
    sent = 0
    while state[N_PIECES] < n_pieces and state[PSN] < state[N_PSN] and state[IS_HELD] == 0:
        coded = impose(
            job.out,
            job.head,
            job.payload,
            state[N_PAYLOAD],
            job.bits.shape[1],
            state[STRIDE],
            job.bits,
            job.wanted[0],
            state[PSN],
            state[MOST_BYTES],
        )
        size = coded // 128
        state[PSN] = coded % 128
        if size > 0:
            transmit(sock, node, job.out, size, min(state[SEG], size))
            sent += size
            state[N_PIECES] += 1
            if sock.ints[WAITING] > 0:
                for port in range(1, sock.exits.shape[0]):
                    if sock.exits[port]["used"] > 0 and node.plan.n[port] > 0:
                        state[IS_HELD] = 1
    return sent
