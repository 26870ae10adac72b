"""Rows of sums and of their ranks in the compiled loop; ``fanfold.sim.sum_arrays`` fills them.

Letters: R = routers, P = ports. What ranks send from is ``Ranks`` in rows.py.
"""

from typing import NamedTuple

import numpy as np

from fanfold.kernels.jit import kernel
from fanfold.kernels.state import I64, U64, Ports
from fanfold.kernels.tables import Bifts
from fanfold.kernels.vat import Vats
from fanfold.scenario.sum_words import VALUE_BYTES
from fanfold.sim.loop.rows import N_VAT_ROWS, N_VAT_SLOTS, NOW, SINCE, SLOW, SPEED

SUM_ROW = np.dtype(
    [
        ("item", np.int64),
        ("n_ranks", np.int64),
        ("first_rank", np.int64),
        ("n_open", np.int64),  # ranks that wait for results
        ("n_blocks", np.int64),
        ("n_agreed", np.int64),  # the first blocks: ranks agree on what is asked
        ("n_asked", np.int64),  # of these: what is asked; the rest are exponents
        ("asked_bytes", np.int64),
        ("first_bytes", np.int64),  # of exponents in blocks of their own
        ("room_bytes", np.int64),  # of a packet for words and exponents
        ("window", np.int64),
        ("word_bytes", np.int64),  # of one value
        ("code_bytes", np.int64),  # of its exponent, 0: it has none
        ("block_bytes", np.int64),  # words of a full block
        ("n_bytes", np.int64),  # words of all blocks
        ("last_bytes", np.int64),
        ("only", np.int64),  # BFR-id that alone gets the sum, 0: all do
        ("bift_id", np.int64),
        ("si", np.int64),
        ("wrong_rank", np.int64),  # whose result was wrong first, NONE
        ("wrong_block", np.int64),
    ]
)
RANK_ROW = np.dtype(
    [
        ("sum", np.int64),
        ("stream", np.int64),
        ("host", np.int64),
        ("bit", np.int64),
        ("is_first", np.int64),  # rank 0 arms the tree
        ("keeps", np.int64),  # it is to get the sum
        ("state", np.int64),
        ("ring_at", np.int64),
        ("most_window", np.int64),
        ("window", np.int64),
        ("root_level", np.int64),
        ("armed", np.int64),  # 1: ARM came; -1: no root has room
        ("arm_ps", np.int64),
        ("cwnd", np.int64),
        ("epoch_end", np.int64),
        ("epoch_lost", np.int64),
        ("srtt_ps", np.int64),
        ("var_ps", np.int64),
        ("least_ps", np.int64),
        ("patience", np.int64),
        ("patient_ps", np.int64),
        ("next", np.int64),
        ("floor", np.int64),  # every block before it is here
        ("floor_ps", np.int64),
        ("n_done", np.int64),
        ("fresh_ps", np.int64),  # latest first sending whose result is here
        ("timer_ps", np.int64),  # when its EV_RANK comes
        ("n_shrunk", np.int64),
    ]
)
IDLE = 0
BUSY = 1
OVER = 2
GIVEN_UP = 3

# Columns of ``ring``.
R_SENT = 0
R_ASKED = 1
R_TRIES = 2
R_HERE = 3

AGREED_WORDS = 16
"""What ranks are asked for, twice, before exponents of a window (group/session.py)."""
N_STAND_IN = 4
STAND_IN = 4 * N_STAND_IN
"""Bytes that stand for a block's words: real words, really added up, and looked at."""
LOW_BITS = (1 << 18) - 1
"""4,096 ranks of such words, twice, are a 32-bit sum."""
_STEPS = (40_503, 100_003, 70_657, 22_189)


class Sums(NamedTuple):
    """What BFRs keep of arrays, tables side by side.

    vats: of all routers; todo, small, limits of all together. bifts: tables of all routers,
    ``first`` those of the one in hand. ports: (R, P) BFR-ids, flat. scratch: (4, W).
    """

    vats: Vats
    bifts: Bifts
    ports: I64
    addr: I64
    scratch: U64


@kernel
def vats_of(q: I64, sums: Sums, r: int) -> Vats:
    """Rows and slots of one router."""
    vats = sums.vats
    a, b = r * q[N_VAT_ROWS], (r + 1) * q[N_VAT_ROWS]
    c, d = r * q[N_VAT_SLOTS], (r + 1) * q[N_VAT_SLOTS]
    return Vats(
        vats.rows[a:b],
        vats.a_bm[a:b],
        vats.late_bm[a:b],
        vats.slots[c:d],
        vats.words[c:d],
        vats.room[c:d],
        vats.owner[c:d],
        vats.events[r],
        vats.todo,
        vats.todo_bits,
        vats.small,
        vats.n_todo,
        vats.clock[r],
        vats.limits,
        vats.shares,
    )


@kernel
def ports_of(sums: Sums, r: int) -> Ports:
    """BFR-ids behind the ports of one router."""
    return Ports(sums.addr, sums.ports[r])


@kernel
def clock_of(q: I64) -> int:
    """Time as ranks and slots have it: since a sum began, ``SPEED / SLOW`` times as fast."""
    return (q[NOW] - q[SINCE]) * q[SPEED] // q[SLOW]


@kernel
def time_of(q: I64, clock: int) -> int:
    """When a clock of ranks and slots will show a time."""
    return q[SINCE] + -(-clock // q[SPEED]) * q[SLOW]


@kernel
def bytes_of_block(one: np.void, i: int) -> int:
    """Bytes of words in a full packet of block i, as ranks send it live."""
    room = one["room_bytes"]
    if i < one["n_asked"]:
        return min(room, one["asked_bytes"] - i * room)
    if i < one["n_agreed"]:
        return min(room, one["first_bytes"] - (i - one["n_asked"]) * room)
    return one["last_bytes"] if i == one["n_blocks"] - 1 else one["block_bytes"]


@kernel
def values_of_block(one: np.void, i: int) -> int:
    """Bytes of the array in block i."""
    return bytes_of_block(one, i) * VALUE_BYTES // one["word_bytes"]


@kernel
def codes_of_block(one: np.void, i: int) -> int:
    """Bytes of exponents in a packet of block i: those of the block a window ahead."""
    ahead = i + one["window"]
    if i < one["n_agreed"] or ahead >= one["n_blocks"]:
        return 0
    return bytes_of_block(one, ahead) // one["word_bytes"] * one["code_bytes"]


@kernel
def plan_sum(one: np.void, most: int, window: int) -> None:
    """Blocks of a sum whose ranks have ``window`` of at most ``most`` blocks under way."""
    room, block = one["room_bytes"], one["block_bytes"]
    one["window"] = window
    one["asked_bytes"] = 4 * (AGREED_WORDS + most)
    near = min(one["n_bytes"], window * block) // one["word_bytes"] * one["code_bytes"]
    one["first_bytes"] = max(near - 4 * most, 0) if one["code_bytes"] == 1 else near
    one["n_asked"] = -(-one["asked_bytes"] // room)
    one["n_agreed"] = one["n_asked"] - (-one["first_bytes"] // room)
    n_data = -(-one["n_bytes"] // block)
    one["n_blocks"] = one["n_agreed"] + n_data
    one["last_bytes"] = one["n_bytes"] - (n_data - 1) * block


@kernel
def low_bits(i: int, j: int) -> int:
    """What block i adds to word j of each rank."""
    return (i + 1) * _STEPS[j] & LOW_BITS
